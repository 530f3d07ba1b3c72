package web

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"paramedic/state"
)

// keySignals lists the signals that are charted in this order, after those that decided the
// verdict, if the evidence has them.
var keySignals = []string{"kv_usage", "requests_waiting", "ttft_p95", "preemption_rate", "requests_running",
	"itl_p95", "generation_tokens_rate",
	"arrival_rate", "prefix_hit_ratio", "container_memory", "error_rate", "gpu_util", "kv_idle_usage",
	"prompt_length_p95"}

const (
	maxCharts = 6 // bounds the page's length

	// A chart shows as much time before the onset as the incident lasted, within these bounds.
	leastBefore = 30 * time.Minute
	mostBefore  = time.Hour
	// aliveWithin is the age of a line's end up to which its worker counts as existing.
	aliveWithin = 3 * time.Minute
)

// charts picks the signals to draw: those that support the verdict, strongest first, then the key
// signals.
func (h *Handler) charts(in state.Incident, ev state.Evidence, checks []Check, marks []Mark) []Chart {
	bySignal := map[string][]state.Curve{}
	var order, rest []string
	for _, f := range in.Diagnosis.Findings {
		order = append(order, f.Signal)
	}
	order = append(order, keySignals...)
	for _, c := range ev.Charted() {
		if bySignal[c.Signal] == nil {
			rest = append(rest, c.Signal)
		}
		bySignal[c.Signal] = append(bySignal[c.Signal], c)
	}
	slices.Sort(rest)
	order = append(order, rest...)

	from, to := window(in, ev, marks)
	var out []Chart
	done, colors := map[string]bool{}, map[string]int{}
	for _, id := range order {
		if done[id] || len(bySignal[id]) == 0 || len(out) == maxCharts {
			continue
		}
		done[id] = true
		c := h.chart(id, bySignal[id], in, from)
		c.Marks, c.To = marks, to
		for i, l := range c.Series {
			if _, known := colors[l.Name]; !known && !l.pooled {
				colors[l.Name] = len(colors)
			}
			c.Series[i].Color = colors[l.Name]
			c.Series[i].Gone = !l.whole && ev.At.Sub(l.end()) > aliveWithin
		}
		for _, check := range checks {
			if check.Signal == id && check.Threshold != nil {
				c.Threshold = check.Threshold
			}
		}
		c.Said = captions(c, in, ev)
		if _, ok := c.bounds(); ok {
			out = append(out, c)
		}
	}
	return out
}

// window returns the time range of every chart of a page: some time before the onset, and all after
// it.
func window(in state.Incident, ev state.Evidence, marks []Mark) (from, to time.Time) {
	to = ev.At
	for _, m := range marks {
		// an incident is resolved some time after its last gathering
		if m.At.After(to) && m.At.Sub(ev.At) < 15*time.Minute {
			to = m.At
		}
	}
	lasted := min(max(to.Sub(in.StartedAt), leastBefore), mostBefore)
	return in.StartedAt.Add(-lasted), to
}

// chart picks the most important curves: those of the broken pods, then the pool's own if the
// verdict uses its numbers, then the highest.
func (h *Handler) chart(id string, curves []state.Curve, in state.Incident, from time.Time) Chart {
	c := Chart{ID: "chart-" + id, Title: h.signalTitle(id), Unit: curves[0].Unit}
	byPod := slices.ContainsFunc(curves, func(x state.Curve) bool { return x.Entity.Pod != "" })
	whole := slices.ContainsFunc(in.Diagnosis.Anomalies,
		func(a state.Anomaly) bool { return a.Signal == id && a.Pod == "" })
	rank := map[string]int{}
	for _, pods := range [][]string{in.Diagnosis.Scope.Pods, in.Scope.Pods} {
		for _, pod := range pods {
			if _, ok := rank[pod]; !ok {
				rank[pod] = len(rank)
			}
		}
	}
	var lines []Line
	for _, curve := range curves {
		pooled := curve.Entity.Pod == "" && byPod
		if pooled && (!whole || curve.Unit == "requests" || curve.Unit == "1/s") {
			continue // a sum beside its parts would flatten them
		}
		l := Line{Name: entity(curve.Entity), Points: since(curve.Points(), from), whole: curve.Entity.Pod == "",
			rank: len(rank)}
		if i, ok := rank[curve.Entity.Pod]; ok {
			l.rank = i
		}
		if pooled {
			l.Name, l.rank, l.pooled = "all workers", len(rank)-1, true
		}
		if len(l.Points) > 0 {
			lines = append(lines, l)
		}
	}
	slices.SortStableFunc(lines, func(a, b Line) int {
		return cmp.Or(a.rank-b.rank, cmp.Compare(b.peak(), a.peak()), cmp.Compare(a.Name, b.Name))
	})
	c.Series, c.Hidden = lines[:min(len(lines), maxSeries)], max(len(lines)-maxSeries, 0)
	return c
}

// since drops the points before a moment.
func since(points []state.Point, from time.Time) []state.Point {
	n, _ := slices.BinarySearchFunc(points, from, func(p state.Point, t time.Time) int { return p.At.Compare(t) })
	return points[n:]
}

// captions returns the sentences of a chart's caption with their times: the anomalies at the
// verdict, and how the signal ended.
func captions(c Chart, in state.Incident, ev state.Evidence) []Saying {
	var out []Saying
	read := cmp.Or(in.Diagnosis.EvidenceAt, in.Diagnosis.At)
	for _, a := range in.Diagnosis.Anomalies {
		if "chart-"+a.Signal == c.ID {
			out = append(out, Saying{read, a.Text})
		}
	}
	low, high, last := math.Inf(1), math.Inf(-1), time.Time{}
	for _, l := range c.Series {
		if v, ok := l.last(); ok && !l.Gone {
			low, high = math.Min(low, v), math.Max(high, v)
			if l.end().After(last) {
				last = l.end()
			}
		}
	}
	if len(out) == 0 || last.Sub(read) < 2*time.Minute {
		return out
	}
	text := state.FormatValue(high, c.Unit)
	if least := state.FormatValue(low, c.Unit); least != text {
		text = least + " to " + text
	}
	return append(out, Saying{last, fmt.Sprintf("%s by then", text)})
}

// entity returns the most specific name of a curve's entity.
func entity(e state.Entity) string {
	switch {
	case e.GPU != "" && e.Pod != "":
		return e.Pod + " GPU " + e.GPU
	case e.GPU != "" && e.Node != "":
		return e.Node + " GPU " + e.GPU
	}
	return cmp.Or(e.Pod, e.Node, e.Instance, e.Pool, e.Model, "all")
}
