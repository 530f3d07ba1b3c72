package threshold

import (
	"fmt"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"

	"paramedic/rules/promql"
)

func binary(t *testing.T, expr string) *parser.BinaryExpr {
	t.Helper()
	e, err := promql.Parser.ParseExpr(expr)
	if err != nil {
		t.Fatal(err)
	}
	x, ok := promql.Unwrap(e).(*parser.BinaryExpr)
	if !ok {
		t.Fatalf("%s has no operator", expr)
	}
	return x
}

// The arithmetic around a value goes into the limit, and the limit keeps its written form.
func TestThresholdIsInTheValuesOwnUnit(t *testing.T) {
	for expr, want := range map[string]string{
		"a > 5":                         "a > 5; 5; false false false",
		"5 < a":                         "a > 5; 5; false false false",
		"a / 1024 >= 2":                 "a >= 2048; 2 (that is 2048); false false false",
		"100 * a / b > 90":              "a / b > 0.9; 90 (that is 0.9); false false false",
		"1 - a < 0.05":                  "a > 0.95; 0.05 (that is 0.95); false false false",
		"-a * 2 + 1 < 7":                "a > -3; 7 (that is -3); false false false",
		"max(avg_over_time(a[5m])) > 1": "a > 1; 1; true true false",
		"(a or vector(0)) == 0":         "a == 0; 0; false false true",
		"1 - 0.99 < 2 * a":              "a > 0.005; 0.01 (that is 0.005); false false false",
	} {
		c, ok := Parse(binary(t, expr))
		got := fmt.Sprintf("%s %s %s; %s; %v %v %v", c.Of, c.Op, Format(c.Limit), c.Text(), c.Spread, c.Mean, c.Filled)
		if !ok || got != want {
			t.Errorf("%s is %s, %v; want %s", expr, got, ok, want)
		}
	}
}

func TestOtherComparisonsAreNoThresholds(t *testing.T) {
	for _, expr := range []string{"a > b", "1 > bool 2", "a + 1", "a and b"} {
		if c, ok := Parse(binary(t, expr)); ok {
			t.Errorf("%s is a threshold of %s", expr, c.Of)
		}
	}
}

// A value from 0 to 1 decides a comparison if no value changes its result.
func TestRangeDecidesComparison(t *testing.T) {
	for expr, want := range map[string][2]bool{
		"a > 1": {true, false}, "a >= 1": {}, "a > -1": {true, true}, "a >= 0": {true, true}, "a > 0": {},
		"a < 0": {true, false}, "a <= 0": {}, "a < 2": {true, true}, "a <= 1": {true, true}, "a < 1": {},
		"a == 2": {true, false}, "a == 1": {}, "a != 2": {true, true}, "100 * a > 100": {true, false},
	} {
		c, ok := Parse(binary(t, expr))
		decided, always := c.Decided(0, 1)
		if !ok || decided != want[0] || decided && always != want[1] {
			t.Errorf("%s: decided %v, always %v, want %v", expr, decided, always, want)
		}
	}
}
