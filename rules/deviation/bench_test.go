package deviation

import (
	"slices"
	"testing"

	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// charted returns a pool with the charts of gathered evidence: six lines of sixty points of each
// charted signal, half of which leave their course.
func charted(b *testing.B) (*evidence.View, *state.Evidence) {
	in, ev := rulestest.Fleet(mustLoadOnce(), 64)
	lines := map[string]int{}
	for i := range ev.Samples {
		if s := &ev.Samples[i]; slices.Contains(felt, s.Signal) || slices.Contains(movers, s.Signal) {
			if lines[s.Signal]++; lines[s.Signal] <= 6 {
				s.Series = chartOf(60, func(i int) float64 { return ripple(1+4*float64(i/40*(len(s.Signal)%2)), 0.05, i) })
			}
		}
	}
	v := evidence.ArrangeScope(in, in.Scope, ev, mustLoadOnce())
	b.Cleanup(v.Release)
	return v, ev
}

func BenchmarkCorrelations64Workers(b *testing.B) {
	v, _ := charted(b)
	b.ReportAllocs()
	for b.Loop() {
		Correlations(mustLoadOnce(), v.Whole(), nil)
	}
}

// BenchmarkChain64Workers looks for the links of every cause, on the whole pool and on one worker.
func BenchmarkChain64Workers(b *testing.B) {
	v, ev := charted(b)
	c := mustLoadOnce()
	b.ReportAllocs()
	for b.Loop() {
		for _, cause := range c.Causes() {
			for _, pods := range [][]string{nil, {ev.Workers[0].Pod}} {
				Chain(c, v, Fault{Cause: cause, Pods: pods, Rests: func(string) bool { return false }})
			}
		}
	}
}
