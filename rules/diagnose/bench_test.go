package diagnose

import (
	"slices"
	"testing"

	"paramedic/rules/rulestest"
)

func BenchmarkDiagnose64Workers(b *testing.B) {
	c := rulestest.MustLoad(b)
	in, ev := rulestest.Fleet(c, 64)
	b.ReportAllocs()
	for b.Loop() {
		Diagnose(c, in, ev, rulestest.Now)
	}
}

// BenchmarkDiagnose64WorkersWithCharts adds the charts of gathered evidence: six lines of sixty
// points of each charted signal, half of which leave their course.
func BenchmarkDiagnose64WorkersWithCharts(b *testing.B) {
	c := rulestest.MustLoad(b)
	in, ev := rulestest.Fleet(c, 64)
	lines := map[string]int{}
	for i := range ev.Samples {
		if s := &ev.Samples[i]; slices.Contains(felt, s.Signal) || slices.Contains(movers, s.Signal) {
			if lines[s.Signal]++; lines[s.Signal] <= 6 {
				s.Series = chartOf(60, func(i int) float64 { return ripple(1+4*float64(i/40*(len(s.Signal)%2)), 0.05, i) })
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		Diagnose(c, in, ev, rulestest.Now)
	}
}
