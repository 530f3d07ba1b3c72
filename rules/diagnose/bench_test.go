package diagnose

import (
	"slices"
	"testing"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

func BenchmarkDiagnose64Workers(b *testing.B) {
	c := rulestest.MustLoad(b)
	in, ev := rulestest.Fleet(c, 64)
	b.ReportAllocs()
	for b.Loop() {
		Diagnose(c, in, ev, rulestest.Now)
	}
}

// withCharts adds the charts of gathered evidence: six lines of sixty points of each charted
// signal, half of which leave their course.
func withCharts(ev *state.Evidence) {
	lines := map[string]int{}
	for i := range ev.Samples {
		if s := &ev.Samples[i]; slices.Contains(felt, s.Signal) || slices.Contains(movers, s.Signal) {
			if lines[s.Signal]++; lines[s.Signal] <= 6 {
				s.Series = chartOf(60, func(i int) float64 { return ripple(1+4*float64(i/40*(len(s.Signal)%2)), 0.05, i) })
			}
		}
	}
}

func BenchmarkDiagnose64WorkersWithCharts(b *testing.B) {
	c := rulestest.MustLoad(b)
	in, ev := rulestest.Fleet(c, 64)
	withCharts(ev)
	b.ReportAllocs()
	for b.Loop() {
		Diagnose(c, in, ev, rulestest.Now)
	}
}

// BenchmarkChain64Workers looks for the links of every cause, on the whole pool and on one worker.
func BenchmarkChain64Workers(b *testing.B) {
	c := rulestest.MustLoad(b)
	in, ev := rulestest.Fleet(c, 64)
	withCharts(ev)
	v := bestVerdict(c, in, ev)
	defer v.release()
	b.ReportAllocs()
	for b.Loop() {
		for _, cause := range c.Causes() {
			for _, pods := range [][]string{nil, {ev.Workers[0].Pod}} {
				chain(c, &verdict{view: v.view, ranked: []causeScore{{cause: cause, pods: pods}}})
			}
		}
	}
}
