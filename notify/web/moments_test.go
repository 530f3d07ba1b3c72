package web

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// mended returns a view of an incident that a rollout ended: the old workers' lines end where the
// new ones begin.
func mended(t *testing.T) (*fakeView, state.Incident) {
	t.Helper()
	v := fixture()
	in, ev, act := kvIncident()
	in.Status, in.ResolvedAt, in.ResolvedBy, in.ActiveAlerts, in.NamedAt = state.StatusResolved, at(-1), "alerts", 0, at(-11)
	in.Diagnosis.EvidenceAt = at(-11)
	act.State = state.Succeeded
	act.Steps = []state.ActionStep{{State: state.Proposed, At: at(-10.5)}, {State: state.Intent, At: at(-10)},
		{State: state.Applied, At: at(-9.9)}, {State: state.Succeeded, At: at(-3)}}
	ev.At = at(-2)
	curve := func(pod string, from, to float64, value func(m float64) float64) {
		c := state.Curve{Signal: "kv_usage", Unit: "ratio", Entity: state.Entity{Namespace: "llm", Pool: "vllm-llama", Pod: pod},
			Begin: at(from).Unix()}
		for m := from; m <= to; m += 0.5 {
			if m > from {
				c.Steps = append(c.Steps, 30)
			}
			c.Values = append(c.Values, value(m))
		}
		ev.Curves = append(ev.Curves, c)
	}
	for _, pod := range pods[:2] {
		curve(pod, -60, -8, func(m float64) float64 {
			if m < -15 {
				return 0.61
			}
			return 0.98
		})
	}
	curve("vllm-llama-5c4b-new1", -7, -2, func(float64) float64 { return 0.55 })
	curve("vllm-llama-5c4b-new2", -6, -2, func(float64) float64 { return 0.57 })
	v.incidents, v.actions = []state.Incident{in}, []state.Action{act}
	v.evidence = map[state.IncidentID]state.Evidence{in.ID: ev}
	return v, in
}

func TestResolvedIncidentShowsItsFault(t *testing.T) {
	v, in := mended(t)
	_, body := get(t, handler(t, v, nil), "/incidents/"+string(in.ID), nil)
	charts := regexp.MustCompile(`(?s)data-testid="chart-chart-kv_usage".*?</figure>`).FindString(body)
	contains(t, charts, ">onset<", ">verdict<", ">write<", ">verified<", ">resolved<", `class="mark alert"`, "× replaced", "x2k4p was replaced", "new2</title>", "limit 95 %",
		"03:01</time> KV cache in use 98 %", "03:10</time> 55 % to 57 % by then")
	if n := strings.Count(charts, `class="line`) - strings.Count(charts, `d="M0 3H16"`); n != 4 {
		t.Errorf("%d workers are drawn, want those before and those after the rollout", n)
	}
	contains(t, body, "to the end</h2>", "<b>write</b>", "max_num_seqs 256 → 128", "<b>verdict</b>", "kv exhaustion")
}

// The lines show a caption's value at the caption's time.
func TestCaptionsAgreeWithTheLines(t *testing.T) {
	v, in := mended(t)
	h := handler(t, v, nil)
	c := h.charts(in, v.evidence[in.ID], nil, h.moments(in, nil))[0]
	if len(c.Said) != 2 {
		t.Fatalf("the caption says %v", c.Said)
	}
	for i, want := range []struct{ low, high float64 }{{0.98, 0.98}, {0.55, 0.57}} {
		for _, l := range c.Series {
			for _, p := range l.Points {
				if d := p.At.Sub(c.Said[i].At); d.Abs() < 20*time.Second && (p.Value < want.low || p.Value > want.high) {
					t.Errorf("%q, but %s has %v at %v", c.Said[i].Text, l.Name, p.Value, p.At)
				}
			}
		}
	}
}

func TestLabelsOfMomentsDoNotOverlap(t *testing.T) {
	var labels []label
	for i, text := range []string{"onset", "verdict", "write", "undone", "write", "verified", "resolved"} {
		labels = append(labels, label{x: 60 + float64(i*i)*9, text: text})
	}
	shown := placeLabels(labels)
	if len(shown) < 5 {
		t.Errorf("only %d of %d labels find room", len(shown), len(labels))
	}
	for i, a := range shown {
		for _, b := range shown[:i] {
			if a.row == b.row && a.left < b.right {
				t.Errorf("%q lies on %q", a.text, b.text)
			}
		}
		if a.left < 0 || a.right > chartW {
			t.Errorf("%q leaves the chart", a.text)
		}
	}
}
