package lease

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state/jetstream/natstest"
)

// newLease returns a function that makes leases of one stream on a real server.
func newLease(t *testing.T) func() *Lease {
	t.Helper()
	nc, err := nats.Connect(natstest.Start(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	js, err := natsjs.New(nc)
	if err != nil {
		t.Fatal(err)
	}
	stream, err := js.CreateStream(t.Context(), natsjs.StreamConfig{Name: "LEASE", Subjects: []string{"paramedic.lease.*"},
		MaxMsgsPerSubject: 1, Storage: natsjs.MemoryStorage})
	if err != nil {
		t.Fatal(err)
	}
	return func() *Lease {
		return New(Config{Stream: stream, Logger: slog.New(slog.DiscardHandler),
			Write: func(ctx context.Context, subject string, revision uint64, data []byte) (uint64, error) {
				m := nats.NewMsg(subject)
				m.Data = data
				m.Header.Set("Nats-Expected-Last-Subject-Sequence", strconv.FormatUint(revision, 10))
				ack, err := js.PublishMsg(ctx, m)
				if err != nil {
					return 0, fmt.Errorf("writing: %w", err)
				}
				return ack.Sequence, nil
			},
			Watch: func(ctx context.Context, subject string, visit func(natsjs.Msg)) (natsjs.ConsumeContext, error) {
				cons, err := stream.OrderedConsumer(ctx, natsjs.OrderedConsumerConfig{FilterSubjects: []string{subject},
					DeliverPolicy: natsjs.DeliverNewPolicy})
				if err != nil {
					return nil, err
				}
				return cons.Consume(visit)
			}})
	}
}

func step(t *testing.T, l *Lease) {
	t.Helper()
	if err := l.step(t.Context()); err != nil {
		t.Fatal(err)
	}
	l.announce()
}

// Another process learns of a release at once. It need not wait for its next look.
func TestReleaseIsReported(t *testing.T) {
	open := newLease(t)
	holder, other := open(), open()
	step(t, holder)
	watching, err := other.consume()
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	holder.release()
	if holder.Held() {
		t.Error("the process that released the lease holds it")
	}
	select {
	case <-other.released:
	case <-time.After(time.Minute):
		t.Fatal("the release was not reported")
	}
}

// A paused holder wakes up after another process held the lease and released it. What it wanted to
// deliver before is announced as lost, although its own time is not over.
func TestLeaseHeldInBetweenIsAnnounced(t *testing.T) {
	open := newLease(t)
	paused, other := open(), open()
	step(t, paused)
	changed := paused.Changed()
	m, err := paused.cfg.Stream.GetLastMsgForSubject(t.Context(), subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.write(t.Context(), m.Sequence, other.me); err != nil {
		t.Fatal(err)
	}
	other.release()
	paused.revision = 0 // its renewal got no answer
	step(t, paused)
	select {
	case <-changed:
	default:
		t.Error("the loss was not announced")
	}
	if !paused.Held() {
		t.Error("the released lease was not taken")
	}
}
