package enrich

import (
	"math"
	"testing"
)

func TestQuantileMatchesPrometheus(t *testing.T) {
	b := []Bucket{{math.Inf(1), 100}, {1, 50}, {2, 90}}
	for q, want := range map[float64]float64{0.25: 0.5, 0.5: 1, 0.7: 1.5, 0.99: 2} {
		if got, ok := Quantile(q, b); !ok || math.Abs(got-want) > 1e-9 {
			t.Errorf("quantile %g: %g, want %g", q, got, want)
		}
	}
	for name, none := range map[string][]Bucket{"nothing observed": {{1, 0}, {math.Inf(1), 0}},
		"no bucket of everything": {{1, 5}, {2, 9}}} {
		if v, ok := Quantile(0.5, none); ok {
			t.Errorf("%s: %g", name, v)
		}
	}
}
