package service

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/enrich"
	"paramedic/rules/health"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A hung engine's metrics may all be in bounds, so a pool's health follows its open incidents.
func TestPoolHealthFollowsOpenIncidents(t *testing.T) {
	on := func(pool string, severity state.Severity, status state.Status, cause state.Cause) state.Incident {
		return state.Incident{Cluster: "prod", Severity: severity, Status: status, Scope: state.Scope{Namespace: "llm", Pool: pool},
			Diagnosis: state.Diagnosis{Cause: cause}}
	}
	incidents := []state.Incident{
		on("hung", state.Warning, state.StatusOpen, "engine_hang"), on("hung", state.Critical, state.StatusAcked, "engine_hang"),
		on("slow", state.Warning, state.StatusOpen, state.Unknown),
		on("fine", state.Critical, state.StatusResolved, "gpu_fault"), on("fine", state.Critical, state.StatusOpen,
			state.BenignAlert), on("", state.Critical, state.StatusOpen, state.Unknown),
	}
	for pool, want := range map[string]health.Status{"hung": health.HealthCritical, "slow": health.HealthWarning,
		"fine": health.Unknown} {
		if got := openTrouble(incidents, health.Pool{Cluster: "prod", Namespace: "llm", Pool: pool}); got != want {
			t.Errorf("%s: %s, want %s", pool, got, want)
		}
	}
}

// A heldSource answers when the test releases it, unless its context ends first.
type heldSource struct {
	asked chan struct{} // a token for each reading
	letGo chan struct{}
}

func (h heldSource) Read(ctx context.Context, _ enrich.Query) enrich.Reading {
	h.asked <- struct{}{}
	select {
	case <-h.letGo:
		return enrich.Reading{Workers: []state.Worker{{Namespace: "llm", Pool: "vllm-llama", Instance: "10.0.0.1:8000"}}}
	case <-ctx.Done():
		return enrich.Reading{}
	}
}

func (heldSource) Ping(context.Context) error { return nil }

// A reader that cancels returns at once, and others still get the report.
func TestCancelledFleetReaderKeepsTheReport(t *testing.T) {
	source := heldSource{asked: make(chan struct{}, 2), letGo: make(chan struct{})}
	s, err := New(config.Default(), Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	known, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	s.gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: source}}, Signals: known,
		Deadline: time.Minute})
	impatient, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() {
		_, err := s.fleetHealth(impatient)
		left <- err
	}()
	<-source.asked
	leave()
	if err := <-left; !errors.Is(err, context.Canceled) {
		t.Errorf("who left got %v", err)
	}
	close(source.letGo)
	health, err := s.fleetHealth(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(health.Pools) != 1 {
		t.Errorf("what the first reader began was broken off: %+v", health)
	}
	if len(source.asked) > 0 {
		t.Error("it was gathered twice")
	}
}
