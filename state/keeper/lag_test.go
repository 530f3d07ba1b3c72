package keeper_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
)

// A gatedTriage classifies one alert for each value from its gate, and all after the gate is
// closed.
type gatedTriage struct {
	poolTriage
	gate chan struct{}
}

func (g gatedTriage) Classify(a state.Alert, cluster string) state.Sign {
	<-g.gate
	return g.poolTriage.Classify(a, cluster)
}

// pairOf returns an input of two alerts.
func pairOf(n int) state.Input {
	alert := func(i int) state.Alert {
		return state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%08x", i)), Status: state.Firing, StartsAt: newHandClock().now,
			Labels: map[string]string{"symptom": "kv_pressure", "pool": fmt.Sprint("pool-", i)}}
	}
	return state.Input{ID: fmt.Sprint("pair-", n), Cluster: "prod",
		Alerts: &state.AlertBatch{Alerts: []state.Alert{alert(2 * n), alert(2*n + 1)}}}
}

// startGated runs a keeper with a gated triage on a store.
func startGated(t *testing.T, store state.Store, clock state.Clock, gate chan struct{}) (k *keeper.Keeper, stop func()) {
	t.Helper()
	k = keeper.New(keeper.Config{Store: store, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: gatedTriage{gate: gate}, Routing: poolTriage{}, Settings: state.DefaultSettings()}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	return k, func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// Lag reports the number of waiting alerts, since when they wait, and their expected time at the
// measured speed. That includes what waited at the start.
func TestLagCountsWaitingAlertsAndTime(t *testing.T) {
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: t.TempDir(), Retain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := store.Close(context.Background()); err != nil {
			t.Error(err)
		}
	}()
	clock := newHandClock()
	gate := make(chan struct{})
	k, stop := startGated(t, store, clock, gate)
	until(t, "ready", func() bool { return k.Ready(t.Context()) == nil })
	if got := k.LagOf("prod"); got != (state.Lag{Partition: store.Partition("prod")}) {
		t.Fatalf("before anything came: %+v", got)
	}
	for n := range 3 {
		if err := k.Append(t.Context(), pairOf(n)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "all are known", func() bool { return k.LagOf("prod").Inputs == 3 })
	gate <- struct{}{} // the first is being applied
	clock.advance(90 * time.Second)
	if got := k.LagOf("prod"); got.Alerts != 6 || got.Age != 90*time.Second || got.Work != 0 {
		t.Errorf("while the first is applied: %+v", got)
	}
	gate <- struct{}{} // two alerts took 90 s: four more take 180 s
	until(t, "the first is applied", func() bool { return k.LagOf("prod").Inputs == 2 })
	if got := k.LagOf("prod"); got.Alerts != 4 || got.Work.Round(time.Second) != 180*time.Second || got.Behind() < 180*time.Second {
		t.Errorf("after the first: %+v", got)
	}
	if lag := k.LagOf("elsewhere"); lag.Behind() != 0 || lag.Inputs != 0 {
		t.Errorf("another partition: %+v", lag)
	}
	close(gate)
	until(t, "all are applied", func() bool { return k.LagOf("prod") == state.Lag{Partition: store.Partition("prod")} })
	stop()

	inputs := make([]state.Input, 900)
	for n := range inputs {
		inputs[n] = pairOf(10 + n)
		inputs[n].At = clock.Now()
	}
	if err := store.Append(t.Context(), inputs...); err != nil { // while no keeper runs
		t.Fatal(err)
	}
	clock.advance(time.Hour)
	gate = make(chan struct{})
	k, stop = startGated(t, store, clock, gate)
	until(t, "what waited is known, and since when", func() bool {
		got := k.LagOf("prod")
		return got.Inputs >= 900 && got.Age == time.Hour // a tick may have come
	})
	close(gate)
	until(t, "the rest is applied", func() bool { return k.LagOf("prod").Behind() == 0 })
	stop()
}

// Inputs that the log refused do not wait.
func TestRefusedInputsDoNotCountAsLag(t *testing.T) {
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: t.TempDir(), Retain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	k := newKeeper(store, newHandClock())
	if err := store.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
	if err := k.Append(t.Context(), pairOf(1)); err == nil {
		t.Fatal("a closed log took an input")
	}
	if got := k.LagOf("prod"); got.Inputs != 0 || got.Alerts != 0 {
		t.Errorf("%+v", got)
	}
}

// The keeper is busy while it triages many alerts in a second, and while a few wait.
func TestAlertsMakeTheKeeperBusy(t *testing.T) {
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: t.TempDir(), Retain: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close(context.Background())
	clock, gate := newHandClock(), make(chan struct{})
	k, stop := startGated(t, store, clock, gate)
	defer stop()
	until(t, "ready", func() bool { return k.Ready(t.Context()) == nil })
	if err := k.Append(t.Context(), pairOf(1)); err != nil {
		t.Fatal(err)
	}
	until(t, "two alerts that wait", func() bool { clock.advance(time.Second); return k.Busy() })
	close(gate)
	until(t, "idle", func() bool { return !k.Busy() })

	for n := range 400 {
		if err := k.Append(t.Context(), pairOf(2+n)); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "800 alerts in a second", func() bool { return k.LagOf("prod").Alerts == 0 && k.Busy() })
	clock.advance(2 * time.Second)
	until(t, "idle two seconds later", func() bool { return !k.Busy() })
}
