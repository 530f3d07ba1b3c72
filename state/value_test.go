package state_test

import (
	"math"
	"testing"
	"time"

	"paramedic/state"
)

func TestFormatValueUsesReadableUnits(t *testing.T) {
	for _, c := range []struct {
		v    float64
		unit string
		want string
	}{
		{0.981, "ratio", "98.1 %"}, {0.00042, "ratio", "0.04 %"}, {0.07, "ratio", "7 %"}, {-1e-17, "ratio", "0 %"}, {42, "%", "42 %"},
		{0, "s", "0 s"}, {0.85, "s", "850 ms"}, {4.25, "s", "4.25 s"}, {119, "s", "119 s"}, {150, "s", "2.5 min"}, {3000, "s", "50 min"},
		{9000, "s", "2.5 h"}, {400000, "s", "4.63 d"},
		{44.5 * (1 << 30), "bytes", "44.5 GiB"}, {1 << 41, "bytes", "2 TiB"}, {512, "bytes", "512 B"}, {2 << 20, "bytes/s", "7.03 GiB/h"},
		{1, "bool", "yes"}, {0, "0/1", "no"}, {62, "code", "62"}, {62, "C", "62 °C"}, {3.5, "1/s", "3.5/s"},
		{1, "requests", "1 request"}, {2, "requests", "2 requests"}, {12345, "tokens/s", "12345 tokens/s"}, {1, "tokens/s",
			"1 tokens/s"}, {2.5e6, "tokens", "2.5M tokens"},
		{math.NaN(), "s", "no number"}, {math.Inf(1), "ratio", "no number"},
	} {
		if got := state.FormatValue(c.v, c.unit); got != c.want {
			t.Errorf("%v %s is %q, want %q", c.v, c.unit, got, c.want)
		}
	}
}

func TestFormatDurationDropsEmptyParts(t *testing.T) {
	for want, d := range map[string]time.Duration{"2m": 2 * time.Minute, "1h30m": 90 * time.Minute, "6h": 6 * time.Hour,
		"10m30s": 630 * time.Second, "1h0m5s": time.Hour + 5*time.Second,
		"20m": 20 * time.Minute, "500ms": 500 * time.Millisecond, "0s": 0} {
		if got := state.FormatDuration(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// Pages and reports show a finding's number only if one was measured: a "0" beside an alert or a
// text would read as a measurement.
func TestMeasuredExcludesAlertsAndText(t *testing.T) {
	for want, findings := range map[bool][]state.Finding{
		true:  {{Signal: "kv_usage", Unit: "ratio"}, {Signal: "gpu_xid", Unit: "code"}},
		false: {{Signal: "symptom:kv_pressure"}, {Signal: "symptoms"}, {Signal: "termination_reason", Unit: "text"}, {}},
	} {
		for _, f := range findings {
			if f.Measured() != want {
				t.Errorf("%q: %t, want %t", f.Signal, f.Measured(), want)
			}
		}
	}
}

func TestFormatShareIsNeverCertain(t *testing.T) {
	for share, want := range map[float64]string{0: "0 %", 0.0021: "under 1 %", 0.0071: "under 1 %", 0.01: "1 %", 0.9653: "97 %",
		0.9999: "99 %", 1: "99 %"} {
		if got := state.FormatShare(share); got != want {
			t.Errorf("%g is %q, want %q", share, got, want)
		}
	}
}

func TestTitleWithinASentenceBeginsSmall(t *testing.T) {
	for title, want := range map[string]string{"Requests queue up": "requests queue up", "KV cache in use": "KV cache in use",
		"ttft_p95": "ttft_p95", "A GPU is throttled": "a GPU is throttled", "Xid 79": "Xid 79",
		"Überlast": "überlast", "ÜÖ": "ÜÖ", "負荷が高い": "負荷が高い", "X": "x", "": ""} {
		if got := state.InSentence(title); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}
