package keeper_test

import (
	"bytes"
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
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

// A safeBuffer is a log that several goroutines write.
type safeBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *safeBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *safeBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// An input on which the rules panic, and one that cannot be decoded, are set aside. The alerts
// before and behind them count once, also after the next start.
func TestPoisonInputsAreSetAside(t *testing.T) {
	url, logged := natstest.Start(t), &safeBuffer{}
	start := func() (*keeper.Keeper, *jetstream.Store, func()) {
		store, err := jetstream.Open(t.Context(), jetstream.Config{URL: url, Replicas: 1, Logger: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		k := keeper.New(keeper.Config{Store: store, Clock: state.SystemClock{}, Logger: slog.New(slog.NewTextHandler(logged, nil)),
			Fold: &fold.Fold{Triage: fragile{}, Routing: fragile{}, Settings: state.DefaultSettings()}})
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		return k, store, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
			if err := store.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}
	k, store, stop := start()
	began := time.Now()
	send := func(pools ...string) {
		var inputs []state.Input
		for _, pool := range pools {
			inputs = append(inputs, state.Input{Cluster: "prod", Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: state.Fingerprint(pool),
				Status: state.Firing, StartsAt: began, Labels: map[string]string{"alertname": "KVFull", "pool": pool}}}}})
		}
		if err := k.Append(t.Context(), inputs...); err != nil {
			t.Fatal(err)
		}
	}
	send("a", "poison", "b")
	natstest.AppendRaw(t, url, store.Partition("prod"), "{")
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
	stop()
	k, _, stop = start()
	defer stop()
	until(t, "the next start has them", func() bool { return k.Ready(t.Context()) == nil && shown() == "c1 b1 a1" })
	if k.SetAside() != 0 {
		t.Errorf("the next start met %d of them again", k.SetAside())
	}
}
