package jetstream_test

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nkeys"

	"paramedic/state/jetstream"
	"paramedic/state/jetstream/connect"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/statetest"
)

const shippedConfig = "../../deploy/nats/nats.conf"

// nkey writes the seed of a new user to a file, and returns the public key.
func nkey(t *testing.T) (public, file string) {
	t.Helper()
	user, err := nkeys.CreateUser()
	if err != nil {
		t.Fatal(err)
	}
	seed, err := user.Seed()
	if err != nil {
		t.Fatal(err)
	}
	if public, err = user.PublicKey(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "nats.nk")
	if err := os.WriteFile(file, append(seed, '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	return public, file
}

// A shipped cluster has three servers with the shipped configuration, in other folders and on other
// ports. Beside the bot's user, its account has one who may do everything.
type shipped struct {
	servers []*server.Server
	urls    string
	ca      string   // the file of the servers' authority
	seed    string   // the file of the bot's user
	allowed []string // what the bot may publish to
	admin   *nats.Conn
	streams natsjs.JetStream // of the admin
}

func serveShipped(t *testing.T) *shipped {
	t.Helper()
	dir := t.TempDir()
	files := newAuthority(t).issue(dir, "nats") // under the names of cert-manager
	public, seed := nkey(t)
	adminPublic, adminSeed := nkey(t)
	t.Setenv("PARAMEDIC_NKEY", public)
	c := &shipped{seed: seed, ca: files.CA}
	raw, err := os.ReadFile(shippedConfig)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("/etc/nats/tls", dir).Replace(string(raw))
	file := filepath.Join(t.TempDir(), "nats.conf")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	nowhere := &url.URL{Scheme: "nats", Host: "127.0.0.1:1"}
	routes := []*url.URL{nowhere, nowhere, nowhere} // as in natstest.Cluster
	for i := range 3 {
		t.Setenv("NATS_NAME", fmt.Sprintf("nats-%d", i))
		opts, err := server.ProcessConfigFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if len(opts.Routes) != 3 || !opts.SyncAlways || len(opts.Nkeys) != 1 {
			t.Fatalf("%d routes, sync always %t, %d users", len(opts.Routes), opts.SyncAlways, len(opts.Nkeys))
		}
		bot := opts.Nkeys[0]
		c.allowed = bot.Permissions.Publish.Allow
		opts.Nkeys = append(opts.Nkeys, &server.NkeyUser{Nkey: adminPublic, Account: bot.Account})
		opts.HTTPPort, opts.Cluster.Host, opts.Cluster.Port, opts.Routes = 0, "127.0.0.1", server.RANDOM_PORT, routes
		c.servers = append(c.servers, natstest.Serve(t, *opts))
		routes = []*url.URL{{Scheme: "nats", Host: c.servers[0].ClusterAddr().String()}, nowhere, nowhere}
		c.urls += strings.Replace(c.servers[i].ClientURL(), "nats://", "tls://", 1) + ","
	}
	c.urls = strings.TrimSuffix(c.urls, ",")
	statetest.Until(t, "the cluster has a leader", func() bool {
		for _, s := range c.servers {
			if s.JetStreamIsLeader() && len(s.JetStreamClusterPeers()) == 3 {
				return true
			}
		}
		return false
	})
	c.admin = c.dial(t, adminSeed)
	if c.streams, err = natsjs.New(c.admin); err != nil {
		t.Fatal(err)
	}
	return c
}

// dial connects with a user's seed.
func (c *shipped) dial(t *testing.T, seed string, more ...nats.Option) *nats.Conn {
	t.Helper()
	user, err := nats.NkeyOptionFromSeed(seed)
	if err != nil {
		t.Fatal(err)
	}
	nc, err := nats.Connect(c.urls, append(more, user, nats.RootCAs(c.ca))...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	return nc
}

func (*shipped) Shared() bool { return true }

func (c *shipped) Open(t *testing.T) statetest.Store {
	return openStore(t, jetstream.Config{URL: c.urls, CredentialsFile: c.seed, TLS: connect.TLSFiles{CA: c.ca}, Replicas: 3})
}

// clear removes all streams.
func (c *shipped) clear(t *testing.T) {
	t.Helper()
	names := c.streams.StreamNames(t.Context())
	for name := range names.Name() {
		if err := c.streams.DeleteStream(t.Context(), name); err != nil {
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
	c := serveShipped(t)
	t.Run("the store needs each right of its user and no other", c.conforms)
	t.Run("the user reaches nothing else", c.denies)
}

func (c *shipped) conforms(t *testing.T) {
	var mu sync.Mutex
	used := map[string]bool{}
	if _, err := c.admin.Subscribe("$JS.API.>", func(m *nats.Msg) {
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
	bot, err := natsjs.New(c.dial(t, c.seed))
	if err != nil {
		t.Fatal(err)
	}
	var needed []string
	for _, name := range []string{"PARAMEDIC_INPUT", "PARAMEDIC_STATE"} {
		stream, err := c.streams.Stream(t.Context(), name)
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
	for _, right := range c.allowed {
		statetest.Until(t, "the store needs the right to publish to "+right, func() bool {
			mu.Lock()
			defer mu.Unlock()
			return slices.Contains(needed, right) || slices.ContainsFunc(slices.Collect(maps.Keys(used)),
				func(subject string) bool { return server.SubjectsCollide(right, subject) })
		})
	}
}

// The user touches no stream of others, and cannot delete what the bot has accepted.
func (c *shipped) denies(t *testing.T) {
	refused := make(chan error, 1)
	bot := c.dial(t, c.seed, nats.ErrorHandler(func(_ *nats.Conn, _ *nats.Subscription, err error) { refused <- err }))
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
