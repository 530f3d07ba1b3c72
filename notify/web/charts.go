package web

import (
	"cmp"
	"slices"

	"paramedic/state"
)

// keySignals are charted where the evidence has them, in this order, after those that decided the verdict.
var keySignals = []string{"kv_usage", "requests_waiting", "ttft_p95", "preemption_rate", "requests_running", "itl_p95", "generation_tokens_rate",
	"arrival_rate", "prefix_hit_ratio", "container_memory", "error_rate", "gpu_util", "kv_idle_usage", "prompt_length_p95"}

// maxCharts keeps the page a page.
const maxCharts = 6

// charts picks the signals worth drawing: those that speak for the verdict, strongest first, then the key signals.
func (h *Handler) charts(in state.Incident, ev state.Evidence, checks []Check, marks []Mark) []Chart {
	bySignal := map[string][]state.Sample{}
	for _, s := range ev.Samples {
		if len(s.Series) > 1 {
			bySignal[s.Signal] = append(bySignal[s.Signal], s)
		}
	}
	var order []string
	for _, f := range in.Diagnosis.Findings {
		order = append(order, f.Signal)
	}
	order = append(order, keySignals...)
	var rest []string
	for id := range bySignal {
		rest = append(rest, id)
	}
	slices.Sort(rest)
	order = append(order, rest...)

	var out []Chart
	done, colors := map[string]bool{}, map[string]int{}
	for _, id := range order {
		if done[id] || len(bySignal[id]) == 0 || len(out) == maxCharts {
			continue
		}
		done[id] = true
		c := h.chart(id, bySignal[id], in.Scope)
		c.Marks = marks
		for _, a := range in.Diagnosis.Anomalies {
			if a.Signal == id {
				c.Usual = a.Text
			}
		}
		for i, l := range c.Series {
			if _, known := colors[l.Name]; !known {
				colors[l.Name] = len(colors)
			}
			c.Series[i].Color = colors[l.Name]
		}
		for _, check := range checks {
			if check.Signal == id && check.Threshold != nil {
				c.Threshold = check.Threshold
			}
		}
		if _, ok := c.bounds(); ok {
			out = append(out, c)
		}
	}
	return out
}

// chart takes the series that matter most: those of the broken pods, then the highest.
func (h *Handler) chart(id string, samples []state.Sample, scope state.Scope) Chart {
	if slices.ContainsFunc(samples, func(s state.Sample) bool { return s.Entity.Pod != "" }) {
		samples = slices.DeleteFunc(slices.Clone(samples), func(s state.Sample) bool { return s.Entity.Pod == "" })
	}
	broken := func(s state.Sample) int {
		if i := slices.Index(scope.Pods, s.Entity.Pod); i >= 0 {
			return i
		}
		return len(scope.Pods)
	}
	slices.SortStableFunc(samples, func(a, b state.Sample) int {
		return cmp.Or(broken(a)-broken(b), cmp.Compare(b.Value, a.Value), cmp.Compare(a.Entity.Pod, b.Entity.Pod))
	})
	c := Chart{ID: "chart-" + id, Title: h.signalTitle(id), Unit: samples[0].Unit, Hidden: max(len(samples)-maxSeries, 0)}
	for _, s := range samples[:min(len(samples), maxSeries)] {
		c.Series = append(c.Series, Line{Name: entity(s.Entity), Points: s.Series})
	}
	return c
}

// entity is the most telling name of what a sample is about.
func entity(e state.Entity) string {
	switch {
	case e.GPU != "" && e.Pod != "":
		return e.Pod + " GPU " + e.GPU
	case e.GPU != "" && e.Node != "":
		return e.Node + " GPU " + e.GPU
	}
	return cmp.Or(e.Pod, e.Node, e.Instance, e.Pool, e.Model, "all")
}
