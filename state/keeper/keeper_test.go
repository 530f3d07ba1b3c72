package keeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
	"paramedic/state/keeper/agenda"
)

func TestMain(m *testing.M) {
	// A NATS server that is stopped during an atomic batch may leave the flush loop of the batch's
	// temporary store behind.
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("github.com/nats-io/nats-server/v2/server.(*msgBlock).flushLoop"),
		goleak.Cleanup(func(code int) {
			_ = os.RemoveAll(stormed.dir)
			os.Exit(code)
		}))
}

// poolTriage reads the symptom and the pool from the alert's labels. Each pool is one incident.
type poolTriage struct{}

func (poolTriage) Classify(a state.Alert, cluster string) state.Sign {
	return state.Sign{Symptom: state.Symptom(a.Labels["symptom"]), Severity: state.Critical, By: "name",
		Entity: state.Entity{Cluster: cluster, Namespace: "llm", Pool: a.Labels["pool"]}}
}

func (poolTriage) Correlate(s state.Sign, _ []state.Worker, open []*state.Incident, _ time.Time) (state.IncidentID, bool) {
	for _, in := range open {
		if in.Scope.Pool == s.Entity.Pool {
			return in.ID, true
		}
	}
	return "", false
}

func (poolTriage) Diagnose(in *state.Incident, _ *state.Evidence, now time.Time) state.Diagnosis {
	return state.Diagnosis{Cause: state.Unknown, At: now, Scope: in.Scope}
}

func (poolTriage) SplitOff(*state.Incident, func() []*state.AlertRecord, *state.Evidence) []*state.AlertRecord {
	return nil
}
func (poolTriage) Absorbs(_, _ *state.Incident) bool { return false }

func (poolTriage) Channels(*state.Incident) []state.Channel {
	return []state.Channel{state.ChannelConsole}
}

// A handClock is advanced by the test.
type handClock struct {
	mu      sync.Mutex
	now     time.Time
	waiters map[chan time.Time]time.Time
}

func newHandClock() *handClock {
	return &handClock{now: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), waiters: map[chan time.Time]time.Time{}}
}

func (c *handClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *handClock) After(d time.Duration) <-chan time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	ch := make(chan time.Time, 1)
	if d <= 0 {
		ch <- c.now
	} else {
		c.waiters[ch] = c.now.Add(d)
	}
	return ch
}

func (c *handClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	for ch, at := range c.waiters {
		if !at.After(c.now) {
			ch <- c.now
			delete(c.waiters, ch)
		}
	}
}

// A bot is a keeper that runs on a real store.
type bot struct {
	*keeper.Keeper
	store *jetstream.Store
	stop  func()
}

func start(t *testing.T, dir string, clock state.Clock) *bot {
	t.Helper()
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	b := run(t, store, newKeeper(store, clock))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	return b
}

// run runs a keeper on a store until the test ends or stops it.
func run(t *testing.T, store *jetstream.Store, k *keeper.Keeper) *bot {
	t.Helper()
	b := &bot{store: store, Keeper: k}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- b.Run(ctx) }()
	b.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(b.stop)
	return b
}

func newKeeper(store state.Store, clock state.Clock) *keeper.Keeper {
	return keeper.New(keeper.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}})
}

// until polls for an effect of another goroutine.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func alert(fp, pool string, at time.Time) state.Input {
	return state.Input{At: at, Cluster: "prod",
		Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: state.Fingerprint(fp), Status: state.Firing,
			StartsAt: at, Labels: map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "pool": pool}}}}}
}

func TestAcceptedInputsSurviveRestart(t *testing.T) {
	dir, clock := t.TempDir(), newHandClock()
	b := start(t, dir, clock)
	for _, fp := range []string{"a", "b", "c"} {
		if err := b.Append(t.Context(), alert(fp, "llama", clock.Now())); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "three alerts in one incident", func() bool { list := b.Incidents(); return len(list) == 1 && list[0].AlertCount == 3 })
	id := b.Incidents()[0].ID
	b.stop()

	b = start(t, dir, clock)
	in, ok := b.Incident(id)
	if !ok || in.AlertCount != 3 {
		t.Fatalf("after the restart: found %v, %d alerts", ok, in.AlertCount)
	}
	if got := len(b.Alerts(id)); got != 3 {
		t.Fatalf("%d alerts", got)
	}
	entries, err := b.Timeline(t.Context(), id)
	if err != nil || len(entries) == 0 || entries[0].Kind != "opened" {
		t.Fatalf("timeline %v: %v", entries, err)
	}
	if err := b.Append(t.Context(), alert("d", "llama", clock.Now())); err != nil {
		t.Fatal(err)
	}
	until(t, "the fourth alert in the same incident", func() bool { in, _ := b.Incident(id); return in.AlertCount == 4 })
}

func TestTimersFireWithoutInput(t *testing.T) {
	clock := newHandClock()
	b := start(t, t.TempDir(), clock)
	if err := b.Append(t.Context(), alert("a", "llama", clock.Now())); err != nil {
		t.Fatal(err)
	}
	until(t, "an incident", func() bool { return len(b.Incidents()) == 1 })
	told := func() bool {
		tasks, _ := b.Take(clock.Now(), func(l agenda.Lane) int {
			if l.Kind == state.EffectNotify {
				return 1
			}
			return 0
		})
		return len(tasks) == 1
	}
	if told() {
		t.Fatal("told at once")
	}
	clock.advance(30 * time.Second)
	until(t, "people are told after 30 s", told)
}

func TestFencedReaderLoadsAgain(t *testing.T) {
	clock := newHandClock()
	b := start(t, t.TempDir(), clock)
	rival := newKeeper(b.store, clock)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- rival.Run(ctx) }()
	until(t, "the rival is ready", func() bool { return rival.Ready(t.Context()) == nil })
	for i, fp := range []string{"a", "b", "c", "d", "e", "f"} {
		if err := b.Append(t.Context(), alert(fp, "llama", clock.Now())); err != nil {
			t.Fatal(err)
		}
		until(t, "one of them has counted it", func() bool {
			clock.advance(time.Second) // the fenced keeper waits before it loads again
			return max(count(b.Keeper), count(rival)) == i+1
		})
	}
	cancel()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if got := max(count(b.Keeper), count(rival)); got != 6 {
		t.Fatalf("%d alerts counted of 6", got)
	}
}

func count(k *keeper.Keeper) int {
	n := 0
	for _, in := range k.Incidents() {
		n += in.AlertCount
	}
	return n
}

func TestSubscribersReceiveEveryEntry(t *testing.T) {
	clock := newHandClock()
	b := start(t, t.TempDir(), clock)
	ctx, cancel := context.WithCancel(t.Context())
	entries := b.Subscribe(ctx)
	if err := b.Append(t.Context(), alert("a", "llama", clock.Now())); err != nil {
		t.Fatal(err)
	}
	if e := <-entries; e.Kind != "opened" {
		t.Fatalf("first entry %q", e.Kind)
	}
	cancel()
	until(t, "the channel is closed", func() bool {
		select {
		case _, open := <-entries:
			return !open
		default:
			return false
		}
	})
}

// An input may change more records than one batch of the store takes, for instance a halt of a
// cluster with many incidents.
func TestInputOfManyChangesIsApplied(t *testing.T) {
	dir, clock := t.TempDir(), newHandClock()
	b := start(t, dir, clock)
	const pools = 600
	batch := &state.AlertBatch{}
	for i := range pools {
		one := alert(fmt.Sprint("fp-", i), fmt.Sprint("pool-", i), clock.Now())
		batch.Alerts = append(batch.Alerts, one.Alerts.Alerts...)
	}
	if err := b.Append(t.Context(), state.Input{Cluster: "prod", Alerts: batch}); err != nil {
		t.Fatal(err)
	}
	until(t, "each pool has an incident", func() bool { return b.Ready(t.Context()) == nil && len(b.Incidents()) == pools })
	b.stop()
	b = start(t, dir, clock)
	defer b.stop()
	until(t, "they are remembered", func() bool { return b.Ready(t.Context()) == nil && len(b.Incidents()) == pools })
}
