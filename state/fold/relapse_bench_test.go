package fold

import (
	"fmt"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold/index"
)

// BenchmarkRelapse looks for the trouble of a new verdict among the ends of a storm: 27 causes with
// as many ends as are remembered, each on 64 pods of one pool, none of them its own.
func BenchmarkRelapse(b *testing.B) {
	now := time.Date(2026, 11, 26, 3, 0, 0, 0, time.UTC)
	board := NewBoard()
	incident := func(cause, n int) *state.Incident {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprint("INC-", cause, "-", n)), Cluster: "prod", Status: state.StatusResolved,
			ResolvedBy: byAlerts, ResolvedAt: now.Add(-time.Duration(n) * time.Second), Scope: state.Scope{Pool: "llama"}}
		in.Diagnosis.Cause = state.Cause(fmt.Sprint("cause_", cause))
		for pod := range 64 {
			in.Diagnosis.Scope.Pods = append(in.Diagnosis.Scope.Pods, fmt.Sprintf("llama-7d9f8b6c5-%05d-%02d", n, pod))
		}
		return in
	}
	for cause := range 27 {
		for n := range 10 * index.MaxCandidates {
			board.rememberEnd(incident(cause, n))
		}
	}
	x := &step{Fold: &Fold{}, Board: board, now: now}
	in := incident(3, 100_000)
	b.ReportAllocs()
	for b.Loop() {
		if x.relapsed(in) != nil {
			b.Fatal("found the end of another trouble")
		}
	}
}
