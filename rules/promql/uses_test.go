package promql

import "testing"

// A '*' matches any text at every position of a pattern.
func TestMetricPatternWildcards(t *testing.T) {
	for pattern, names := range map[string]map[string]bool{
		"a_b":      {"a_b": true, "a_b_c": false, "": false},
		"*":        {"a": true, "": true},
		"a_*":      {"a_b": true, "a_": true, "b_a_": false},
		"*_b":      {"a_b": true, "a_b_c": false},
		"*mid*":    {"a_mid_b": true, "mid": true, "a_b": false},
		"a_*_rq*":  {"a_x_rq_xx": true, "a_x_rq": true, "a_rq": false, "x_a_y_rq": false},
		"a*_total": {"a_b_total": true, "a_total": true, "a_totals": false, "total": false},
		"a*a":      {"aa": true, "a": false, "abba": true},
	} {
		for name, want := range names {
			if goesBy(name, pattern) != want {
				t.Errorf("%q goes by %q: %v", name, pattern, !want)
			}
		}
	}
}
