package jetstream_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/keeper"
	"paramedic/state/outbox"
	"paramedic/state/statetest"
)

// A replica is one of several bots on a store.
type replica struct {
	*keeper.Keeper
	store *jetstream.Store
	stop  context.CancelFunc
	done  chan error
}

// deliveries counts the deliveries of each turn of each effect, of all replicas.
type deliveries struct {
	mu    sync.Mutex
	turns map[string]int
}

func (d *deliveries) Deliver(_ context.Context, e state.Effect) outbox.Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.turns[fmt.Sprintf("%s turn %d", e.ID, e.Turn)]++
	return outbox.Result{Outcome: state.Outcome{Done: true}}
}

func (d *deliveries) count() (all int, twice []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for turn, n := range d.turns {
		all++
		if n > 1 {
			twice = append(twice, turn)
		}
	}
	return all, twice
}

// eachItsOwn gives each alert an incident of its own, with a notification.
type eachItsOwn struct{ oneTrouble }

func (eachItsOwn) Correlate(state.Sign, []state.Worker, []*state.Incident, time.Time) (state.IncidentID, bool) {
	return "", false
}
func (eachItsOwn) Channels(*state.Incident) []state.Channel {
	return []state.Channel{state.ChannelConsole}
}

func startReplica(t *testing.T, url string, d *deliveries) *replica {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	r := &replica{store: openStore(t, jetstream.Config{URL: url, Replicas: 1, Retain: time.Hour, Logger: quiet}), done: make(chan error, 2)}
	settings := state.DefaultSettings()
	settings.Settle = time.Millisecond
	r.Keeper = keeper.New(keeper.Config{Store: r.store, Clock: state.SystemClock{}, Logger: quiet, Lease: r.store,
		Fold: &fold.Fold{Triage: eachItsOwn{}, Routing: eachItsOwn{}, Settings: settings}})
	handlers := map[state.EffectKind]outbox.Handler{state.EffectPrepare: &deliveries{turns: map[string]int{}}} // may come again
	for _, kind := range []state.EffectKind{state.EffectEnrich, state.EffectNotify, state.EffectNote, state.EffectPlan} {
		handlers[kind] = d
	}
	out, err := outbox.New(outbox.Config{Source: r.Keeper, Log: r.Keeper, Lease: r.store, Clock: state.SystemClock{}, Handlers: handlers, Logger: quiet})
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, r.stop = context.WithCancel(context.Background())
	go func() { r.done <- r.Run(ctx) }()
	go func() { r.done <- out.Run(ctx) }()
	return r
}

func (r *replica) end(t *testing.T) {
	t.Helper()
	r.stop()
	for range 2 {
		if err := <-r.done; err != nil {
			t.Error(err)
		}
	}
	closeStore(t, r.store)
}

// Three bots on one NATS server take alerts. One of them delivers, the others show the same
// incidents. When it ends, another one goes on, and nothing is delivered twice.
func TestReplicasDeliverEachEffectOnce(t *testing.T) {
	url := natstest.Start(t)
	d := &deliveries{turns: map[string]int{}}
	bots := []*replica{startReplica(t, url, d), startReplica(t, url, d), startReplica(t, url, d)}
	const each = 20
	sent := 0
	send := func() {
		for range each {
			for _, b := range bots {
				sent++
				if err := b.Append(t.Context(), state.Input{Cluster: "prod", Alerts: &state.AlertBatch{Alerts: []state.Alert{{
					Fingerprint: state.Fingerprint(fmt.Sprint(sent)), Status: state.Firing, StartsAt: time.Now(),
					Labels: map[string]string{"alertname": "KVFull", "pod": fmt.Sprint(sent)}}}}}); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	for len(bots) > 0 {
		for _, b := range bots {
			statetest.Until(t, "a bot is ready", func() bool { return b.Ready(t.Context()) == nil })
		}
		send()
		for _, b := range bots {
			statetest.Until(t, "each bot shows every incident", func() bool { return len(b.Incidents()) == sent })
			statetest.Until(t, "every effect is delivered", func() bool {
				all, _ := d.count()
				_, due := b.OldestDue()
				return all >= sent && due == 0
			})
		}
		if _, twice := d.count(); len(twice) > 0 {
			t.Fatalf("delivered more than once: %v", twice)
		}
		holder := -1
		statetest.Until(t, "a bot holds the lease", func() bool {
			holder = slices.IndexFunc(bots, func(b *replica) bool { return b.store.Held() })
			return holder >= 0
		})
		bots[holder].end(t)
		bots = slices.Delete(bots, holder, holder+1)
	}
}
