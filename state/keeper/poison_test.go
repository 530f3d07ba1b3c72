package keeper_test

import (
	"log/slog"
	"strconv"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/keeper"
)

// fragile rules panic on one pool.
type fragile struct{ poolTriage }

func (f fragile) Classify(a state.Alert, cluster string) state.Sign {
	if a.Labels["pool"] == "poison" {
		panic("a mistake in the rules")
	}
	return f.poolTriage.Classify(a, cluster)
}

// An input on which the rules panic, and one that cannot be decoded, are set aside. The alerts
// before and behind them count once, also after the next start.
func TestPoisonInputsAreSetAside(t *testing.T) {
	url, logged := natstest.Start(t), &logBuffer{}
	start := func() *bot {
		store, err := jetstream.Open(t.Context(), jetstream.Config{URL: url, Replicas: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		return run(t, store, keeper.New(keeper.Config{Store: store, Clock: state.SystemClock{}, Logger: slog.New(slog.NewTextHandler(logged, nil)),
			Fold: &fold.Fold{Triage: fragile{}, Routing: fragile{}, Settings: state.DefaultSettings()}}))
	}
	k, began := start(), time.Now()
	send := func(pools ...string) {
		var inputs []state.Input
		for _, pool := range pools {
			inputs = append(inputs, alert(pool, pool, began))
		}
		if err := k.Append(t.Context(), inputs...); err != nil {
			t.Fatal(err)
		}
	}
	send("a", "poison", "b")
	natstest.AppendRaw(t, url, k.store.Partition("prod"), "{")
	send("c")
	shown := func() string {
		var pools []string
		for _, in := range k.Incidents() {
			pools = append(pools, in.Scope.Pool+strconv.Itoa(in.AlertCount))
		}
		return strings.Join(pools, " ")
	}
	until(t, "the other alerts count", func() bool { return shown() == "c1 b1 a1" && k.Ready(t.Context()) == nil })
	if k.SetAside() != 2 || strings.Count(logged.String(), "Paramedic sets it aside") != 2 {
		t.Errorf("%d inputs were set aside:\n%s", k.SetAside(), logged)
	}
	k.stop()
	k = start()
	until(t, "the next start has them", func() bool { return k.Ready(t.Context()) == nil && shown() == "c1 b1 a1" })
	if k.SetAside() != 0 {
		t.Errorf("the next start met %d of them again", k.SetAside())
	}
}
