package service

import (
	"context"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// asked keeps what a source was asked.
type asked struct{ query enrich.Query }

func (a *asked) Read(_ context.Context, q enrich.Query) enrich.Reading {
	a.query = q
	return enrich.Reading{}
}
func (*asked) Ping(context.Context) error { return nil }

// First aid needs the time of each value before it writes.
func TestFirstAidReadsFreshValues(t *testing.T) {
	known, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	source := &asked{}
	gather := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"prod": {Prometheus: source}}, Signals: known})
	gauge{gather, state.SystemClock{}}.Read(t.Context(), "prod", state.Scope{}, time.Time{}, []string{"requests_running"})
	if q := source.query; !q.Fresh || len(q.Signals) != 1 {
		t.Errorf("fresh %v, %d signals", q.Fresh, len(q.Signals))
	}
}
