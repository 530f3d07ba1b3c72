package pattern

import (
	"strings"
	"testing"
)

func TestPatternsHaveLimits(t *testing.T) {
	for expr, want := range map[string]string{
		strings.Repeat("vllm-pool|", 100): "",
		`5..|429`:                         "",
		`(?i)\pL{1,100}`:                  "",
		strings.Repeat("x", 1025):         "has 1025 characters, and 1024 is the most",
		`(a?){1000}`:                      "instructions, and 2000 is the most: repeat less",
		strings.Repeat(`.{1000}`, 100):    "instructions, and 2000 is the most",
		strings.Repeat(`\pL{1000}`, 100):  "and 2000 is the most",
		`((a{30}){30}){30}`:               "invalid repeat count",
		`(`:                               "missing closing )",
	} {
		re, err := Compile(expr)
		if want == "" && err == nil && re.String() == expr {
			continue
		}
		if err == nil || want == "" || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30s: %v, want %q", expr, err, want)
		}
	}
}
