package report

import (
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// start is the time at which every test begins.
var start = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func TestReportShowsCourseOfSignals(t *testing.T) {
	curve := func(pod string, from, to int, value func(minute int) float64) state.Curve {
		c := state.Curve{Signal: "kv_usage", Unit: "ratio", Entity: state.Entity{Pod: pod},
			Begin: start.Add(time.Duration(from) * time.Minute).Unix()}
		for m := from; m <= to; m++ {
			if m > from {
				c.Steps = append(c.Steps, 60)
			}
			c.Values = append(c.Values, value(m))
		}
		return c
	}
	old := curve("vllm|a", -60, 10, func(m int) float64 {
		if m >= 0 {
			return 0.98
		}
		return 0.4
	})
	young := curve("vllm-b", 11, 30, func(int) float64 { return 0.35 })
	in := state.Incident{ID: "INC-01KAAAAAAAAAAAAAAAAAAAAAAA", StartedAt: start, OpenedAt: start}
	text := Report(Case{Incident: in, Curves: []state.Curve{old, young},
		Titles: state.Titles{Signals: map[string]string{"kv_usage": "KV cache in use"}}}, start)
	for _, want := range []string{"| Signal | Before | Furthest | At the end | Course |", "| KV cache in use | 40 % | 98 % at 03:00:00 UTC on vllm\\|a | 35 % at 03:30:00 UTC |", "▄▄▄▄████", "███▃▃"} {
		if !strings.Contains(text, want) {
			t.Errorf("it does not say %q:\n%s", want, text)
		}
	}
	if strings.Contains(Report(Case{Incident: in}, start), "Course") {
		t.Error("a report of an incident without curves has a table of them")
	}
}
