package jetstream_test

import (
	"context"
	"log/slog"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/keeper"
	"paramedic/state/statetest"
)

// oneTrouble correlates every alert with the same incident.
type oneTrouble struct{}

func (oneTrouble) Classify(state.Alert, string) state.Sign { return state.Sign{Symptom: "kv_pressure"} }
func (oneTrouble) Correlate(_ state.Sign, _ []state.Worker, open []*state.Incident, _ time.Time) (state.IncidentID, bool) {
	for _, in := range open {
		return in.ID, true
	}
	return "", false
}
func (oneTrouble) Diagnose(*state.Incident, *state.Evidence, time.Time) state.Diagnosis {
	return state.Diagnosis{Cause: state.Unknown}
}
func (oneTrouble) SplitOff(*state.Incident, func() []*state.AlertRecord, *state.Evidence) []*state.AlertRecord {
	return nil
}
func (oneTrouble) Absorbs(_, _ *state.Incident) bool        { return false }
func (oneTrouble) Channels(*state.Incident) []state.Channel { return nil }

// Keep, issue 4155: after its Redis had dropped the connection, the workers of its queue stayed
// dead until a restart. Here the server stops under a running bot. Meanwhile nothing is accepted.
// Afterwards the same process has everything that was accepted, and reads new inputs.
func TestKeep4155ReadersOutliveTheServer(t *testing.T) {
	opts := server.Options{JetStream: true, SyncAlways: true, MaxPayload: jetstream.MaxValue + 64<<10}
	first := natstest.Serve(t, opts)
	store := openStore(t, jetstream.Config{URL: first.ClientURL(), Replicas: 1, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	defer closeStore(t, store)
	k := keeper.New(keeper.Config{Store: store, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: oneTrouble{}, Routing: oneTrouble{}, Settings: state.DefaultSettings()}})
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- k.Run(ctx) }()
	defer func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	began := time.Now()
	alert := func(fp state.Fingerprint) error {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return k.Append(ctx,
			state.Input{Cluster: "prod", Alerts: &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: fp, Status: state.Firing,
				StartsAt: began, Labels: map[string]string{"alertname": "KVFull"}}}}})
	}
	counted := func() int {
		n := 0
		for _, in := range k.Incidents() {
			n += in.AlertCount
		}
		return n
	}
	statetest.Until(t, "the keeper is ready", func() bool { return k.Ready(ctx) == nil })
	if err := alert("a"); err != nil {
		t.Fatal(err)
	}
	statetest.Until(t, "the first alert is counted", func() bool { return counted() == 1 })

	opts.Host, opts.Port, opts.StoreDir, opts.NoSigs, opts.NoLog = "127.0.0.1", port(t, first), filepath.Dir(first.StoreDir()), true, true
	first.Shutdown()
	first.WaitForShutdown()
	if err := alert("b"); !isUnavailable(err) {
		t.Fatalf("while the server is away an alert is answered %v", err)
	}
	again, err := server.NewServer(&opts)
	if err != nil {
		t.Fatal(err)
	}
	again.Start()
	defer func() {
		again.Shutdown()
		again.WaitForShutdown()
	}()
	statetest.Until(t, "an alert is taken again", func() bool { return alert("c") == nil })
	statetest.Until(t, "and counted in the incident that was there", func() bool { return counted() == 2 && len(k.Incidents()) == 1 })
	late := openStore(t, jetstream.Config{URL: again.ClientURL(), Replicas: 1, Retain: time.Hour, Logger: slog.New(slog.DiscardHandler)})
	defer closeStore(t, late)
	if _, fence, err := late.Load(t.Context(), late.Partition("prod"), statetest.Raw); err != nil || fence.Position < 2 {
		t.Errorf("the server forgot what it had acknowledged: position %d, %v", fence.Position, err)
	}
}

func port(t *testing.T, s *server.Server) int {
	t.Helper()
	addr, ok := s.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("the server listens at %v", s.Addr())
	}
	return addr.Port
}
