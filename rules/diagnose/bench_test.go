package diagnose

import (
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
