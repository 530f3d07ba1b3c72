package service

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/enrich/alertmanager"
	"paramedic/state"
)

// A loopStore returns appended inputs once and keeps nothing.
type loopStore struct {
	idleStore
	log chan state.Input

	mu       sync.Mutex
	seq      uint64
	vanished int // inputs of that kind
}

func (l *loopStore) Append(_ context.Context, inputs ...state.Input) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, in := range inputs {
		l.seq++
		in.Seq = l.seq
		if in.Vanished != nil {
			l.vanished++
		}
		l.log <- in
	}
	return nil
}

func (l *loopStore) Load(context.Context, int, state.Decoder) ([]any, state.Fence, error) {
	return nil, state.Fence{}, nil
}

func (l *loopStore) Replace(context.Context, int, state.Fence, uint64, []state.Record) (state.Fence, error) {
	return state.Fence{}, nil
}

func (l *loopStore) Commit(_ context.Context, _ int, _ state.Fence, position uint64, _ []state.Record) (state.Fence, error) {
	return state.Fence{Position: position}, nil
}

func (l *loopStore) Inputs(context.Context, int, uint64) (state.InputReader, error) { return l, nil }

func (l *loopStore) Next(ctx context.Context) (state.Input, error) {
	select {
	case in := <-l.log:
		return in, nil
	case <-ctx.Done():
		return state.Input{}, ctx.Err()
	}
}

func (l *loopStore) Partition(string) int { return 0 }

func (l *loopStore) Buffered() int { return len(l.log) }
func (l *loopStore) Waiting() int  { return len(l.log) }
func (l *loopStore) End() uint64   { return 0 }
func (l *loopStore) Close()        {}

// The log records vanished alerts only, not listings, and Alertmanager is asked only while alerts
// fire.
func TestVanishedAlertsAloneAreRecorded(t *testing.T) {
	const silenced = "00000000000000aa"
	holds, asked := silenced, 0
	am := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		fmt.Fprintf(w, `[{"fingerprint":"00000000000000bb"},{"fingerprint":%q}]`, holds)
	}))
	defer am.Close()
	client, err := alertmanager.New(alertmanager.Config{URL: am.URL})
	if err != nil {
		t.Fatal(err)
	}
	store := &loopStore{log: make(chan state.Input, 100)}
	s, err := New(config.Default(), Deps{Store: store, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler), Out: io.Discard})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	entries := s.Keeper.Subscribe(ctx)
	go func() { ended <- s.Keeper.Run(ctx) }()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	missing := map[state.Fingerprint]time.Time{}
	look := func(wantAsked, wantRecorded int, when string) {
		t.Helper()
		if err := s.endVanished(ctx, "default", client, missing); err != nil {
			t.Fatal(err)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		if asked != wantAsked || store.vanished != wantRecorded {
			t.Errorf("%s: asked %d times, want %d; recorded %d times, want %d", when, asked, wantAsked, store.vanished, wantRecorded)
		}
	}
	// until waits until the keeper has the given number of firing alerts.
	until := func(firing int) {
		for len(s.Keeper.Firing("default")) != firing {
			<-entries
		}
	}

	look(0, 0, "while nothing fires")
	began := time.Now().Add(-time.Minute)
	if err := s.Keeper.Append(ctx, state.Input{At: began, Cluster: "default", Alerts: &state.AlertBatch{Alerts: []state.Alert{
		{Fingerprint: silenced, Status: state.Firing, StartsAt: began,
			Labels: map[string]string{"alertname": "HighTTFT", "severity": "warning"}}}}}); err != nil {
		t.Fatal(err)
	}
	until(1)
	look(1, 0, "while Alertmanager holds it")
	holds = "00000000000000cc"
	look(2, 0, "when it has just vanished, as after a restart of Alertmanager")
	missing[silenced] = time.Now().Add(-vanishedFor)
	holds = silenced
	look(3, 0, "when it is back")
	holds = "00000000000000cc"
	look(4, 0, "when it has vanished again")
	missing[silenced] = missing[silenced].Add(-vanishedFor)
	look(5, 1, "when it has been missing for long")
	until(0)
	look(5, 1, "after it ended")
}
