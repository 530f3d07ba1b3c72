package report

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

const (
	courseSteps = 24              // number of bars
	courseClear = 5 * time.Minute // values older than this before the onset count as normal
	courseAlive = 3 * time.Minute // a worker whose curve ended longer ago than this was replaced
)

var courseBars = []rune("▁▂▃▄▅▆▇█")

// A course summarises one signal in an incident, at the worker that departed most from its normal
// value.
type course struct {
	signal, unit string
	before, far  float64
	farAt        time.Time
	farOn        string
	end          string
	bars         string
}

// courses writes the table of the charts' signals.
func (b *report) courses(in state.Incident, curves []state.Curve, titles state.Titles) {
	var order []string
	bySignal := map[string][]state.Curve{}
	for _, c := range curves {
		if len(c.Values) < 2 {
			continue
		}
		if bySignal[c.Signal] == nil {
			order = append(order, c.Signal)
		}
		bySignal[c.Signal] = append(bySignal[c.Signal], c)
	}
	if len(order) == 0 {
		return
	}
	b.line("\nSignals over time, of the worker that changed most:\n")
	b.line("| Signal | Before | Furthest | At the end | Course |\n|---|---:|---|---|---|")
	for _, signal := range order {
		c := courseOf(in, bySignal[signal])
		far := state.FormatValue(c.far, c.unit) + " at " + c.farAt.UTC().Format("15:04:05 UTC")
		if c.farOn != "" {
			far += " on " + c.farOn
		}
		b.line("| %s | %s | %s | %s | %s |", Markdown(titles.Signal(signal)), Markdown(state.FormatValue(c.before, c.unit)),
			Markdown(far), Markdown(c.end), c.bars)
	}
}

func courseOf(in state.Incident, curves []state.Curve) course {
	out := course{signal: curves[0].Signal, unit: curves[0].Unit}
	var last time.Time
	most := -1.0
	for _, c := range curves {
		points := c.Points()
		usual := normalValue(points, in.StartedAt)
		for _, p := range points {
			if d := math.Abs(p.Value - usual); d > most && !p.At.Before(in.StartedAt.Add(-courseClear)) {
				most, out.before, out.far, out.farAt, out.farOn = d, usual, p.Value, p.At, c.Entity.Pod
			}
		}
		if end := points[len(points)-1].At; end.After(last) {
			last = end
		}
	}
	out.end = endRange(curves, last)
	out.bars = bars(curves, in.StartedAt, last, out.far < out.before)
	return out
}

// normalValue returns the median of the values clearly before the onset, or else the first value.
func normalValue(points []state.Point, onset time.Time) float64 {
	var before []float64
	for _, p := range points {
		if p.At.Before(onset.Add(-courseClear)) {
			before = append(before, p.Value)
		}
	}
	if len(before) == 0 {
		return points[0].Value
	}
	slices.Sort(before)
	return before[len(before)/2]
}

// endRange returns a signal's range at the end, over the workers that still exist.
func endRange(curves []state.Curve, last time.Time) string {
	low, high := math.Inf(1), math.Inf(-1)
	for _, c := range curves {
		points := c.Points()
		if p := points[len(points)-1]; last.Sub(p.At) <= courseAlive {
			low, high = math.Min(low, p.Value), math.Max(high, p.Value)
		}
	}
	text := state.FormatValue(high, curves[0].Unit)
	if least := state.FormatValue(low, curves[0].Unit); least != text {
		text = least + " to " + text
	}
	return fmt.Sprintf("%s at %s", text, last.UTC().Format("15:04:05 UTC"))
}

// bars draws the highest worker over time, or the lowest if the signal fell. A dot marks a time
// without values.
func bars(curves []state.Curve, onset, last time.Time, fell bool) string {
	first := last
	values := make([]float64, courseSteps)
	for i := range values {
		values[i] = math.NaN()
	}
	for _, c := range curves {
		if at := c.Points()[0].At; at.Before(first) {
			first = at
		}
	}
	if lead := onset.Add(-max(last.Sub(onset), 30*time.Minute)); first.Before(lead) {
		first = lead // as long before the onset as after it
	}
	span := max(last.Sub(first), time.Second)
	low, high := 0.0, math.Inf(-1)
	for _, c := range curves {
		for _, p := range c.Points() {
			if p.At.Before(first) {
				continue
			}
			i := min(int(int64(courseSteps)*int64(p.At.Sub(first))/int64(span)), courseSteps-1)
			if v := values[i]; math.IsNaN(v) || (p.Value > v) != fell {
				values[i] = p.Value
			}
			low, high = math.Min(low, p.Value), math.Max(high, p.Value)
		}
	}
	var out strings.Builder
	for _, v := range values {
		switch {
		case math.IsNaN(v):
			out.WriteRune('·')
		case high <= low:
			out.WriteRune(courseBars[0])
		default:
			out.WriteRune(courseBars[min(int((v-low)/(high-low)*float64(len(courseBars))), len(courseBars)-1)])
		}
	}
	return out.String()
}
