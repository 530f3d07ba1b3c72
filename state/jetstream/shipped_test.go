package jetstream_test

import (
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

// shipped is a backend on the shipped cluster.
type shipped struct{ *natstest.Shipped }

func (shipped) Shared() bool { return true }

func (c shipped) Open(t *testing.T) statetest.Store {
	return openStore(t, jetstream.Config{URL: c.URLs, CredentialsFile: c.Login.CredentialsFile, TLS: c.Login.TLS, Replicas: 3})
}

// clear removes all streams.
func (c shipped) clear(t *testing.T) {
	t.Helper()
	names := c.Streams.StreamNames(t.Context())
	for name := range names.Name() {
		if err := c.Streams.DeleteStream(t.Context(), name); err != nil {
			t.Fatal(err)
		}
	}
	if err := names.Err(); err != nil {
		t.Fatal(err)
	}
}

func TestShippedCluster(t *testing.T) {
	if testing.Short() {
		t.Skip("starts three servers")
	}
	c := shipped{natstest.ServeShipped(t, "../../deploy/nats/nats.conf")}
	t.Run("the store needs each right of its user and no other", c.conforms)
	t.Run("the user reaches nothing else", c.denies)
}

func (c shipped) conforms(t *testing.T) {
	var mu sync.Mutex
	used := map[string]bool{}
	if _, err := c.Admin.Subscribe("$JS.API.>", func(m *nats.Msg) {
		mu.Lock()
		defer mu.Unlock()
		used[m.Subject] = true
	}); err != nil {
		t.Fatal(err)
	}
	statetest.Run(t, func(t *testing.T) statetest.Backend {
		c.clear(t)
		return c
	})
	bot, err := natsjs.New(c.Dial(t, c.Login.CredentialsFile))
	if err != nil {
		t.Fatal(err)
	}
	var needed []string
	for _, name := range []string{"PARAMEDIC_INPUT", "PARAMEDIC_STATE"} {
		stream, err := c.Streams.Stream(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		needed = append(needed, stream.CachedInfo().Config.Subjects...)
		// The client asks for its consumers after a lost connection or a pause.
		if _, err := bot.CreateConsumer(t.Context(), name, natsjs.ConsumerConfig{Name: "asked"}); err != nil {
			t.Error(err)
		}
		if _, err := bot.Consumer(t.Context(), name, "asked"); err != nil {
			t.Error(err)
		}
	}
	for _, right := range c.Allowed {
		statetest.Until(t, "the store needs the right to publish to "+right, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(needed, right) || slices.ContainsFunc(slices.Collect(maps.Keys(used)),
				func(subject string) bool { return server.SubjectsCollide(right, subject) })
		})
	}
}

// The user touches no stream of others, and cannot delete what the bot has accepted.
func (c shipped) denies(t *testing.T) {
	refused := make(chan error, 1)
	bot := c.Dial(t, c.Login.CredentialsFile, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
	for _, subject := range []string{
		"orders.1", "paramedic.in.0.more", "$JS.API.INFO", "$JS.API.STREAM.NAMES", "$JS.API.STREAM.INFO.ORDERS",
		"$JS.API.STREAM.CREATE.ORDERS", "$JS.API.STREAM.UPDATE.ORDERS", "$JS.API.STREAM.MSG.GET.ORDERS",
		"$JS.API.STREAM.PURGE.ORDERS", "$JS.API.CONSUMER.CREATE.ORDERS.x", "$JS.API.CONSUMER.MSG.NEXT.ORDERS.x",
		"$JS.API.STREAM.DELETE.PARAMEDIC_INPUT", "$JS.API.STREAM.DELETE.PARAMEDIC_STATE",
		"$JS.API.STREAM.PURGE.PARAMEDIC_INPUT", "$JS.API.STREAM.MSG.DELETE.PARAMEDIC_INPUT",
		"$JS.API.STREAM.SNAPSHOT.PARAMEDIC_STATE",
	} {
		if err := bot.Publish(subject, nil); err != nil {
			t.Fatal(err)
		}
		denied(t, refused, bot, subject)
	}
	if _, err := bot.Subscribe("paramedic.>", func(*nats.Msg) {}); err != nil {
		t.Fatal(err)
	}
	denied(t, refused, bot, "paramedic.>")
}

// denied waits until the server refuses the last operation on a subject.
func denied(t *testing.T, refused <-chan error, user *nats.Conn, subject string) {
	t.Helper()
	if err := user.Flush(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-refused:
		if !errors.Is(err, nats.ErrPermissionViolation) || !strings.Contains(err.Error(), strconv.Quote(subject)) {
			t.Errorf("%s: %v", subject, err)
		}
	case <-time.After(time.Minute):
		t.Fatalf("the server allows %s", subject)
	}
}
