package rules

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

const (
	anomalous     = 3.0  // standard deviations, as in published detectors
	different     = 1.5  // ratio of two values from which they differ
	alike         = 1.25 // ratio of two values up to which they are the same
	mostAnomalies = 5
)

// felt are the signals of latency, errors and the queue, the most important first.
var felt = []string{"error_rate", "ttft_p95", "itl_p95", "requests_waiting"}

// keySignals are the signals whose deviation from usual values is reported.
var keySignals = append(slices.Clone(felt), "arrival_rate", "abort_rate", "requests_running", "kv_usage", "preemption_rate",
	"generation_tokens_rate", "prefix_hit_ratio", "prompt_length_mean", "output_length_mean", "container_memory", "gpu_util", "gpu_sm_clock")

// Grain returns the change of a quantity in this unit that is negligible.
func Grain(unit string) float64 {
	switch unit {
	case "ratio", "1/s":
		return 0.01
	case "s":
		return 0.001
	case "%", "requests", "tokens", "blocks", "pods", "events":
		return 1
	}
	return 1e-6
}

// looked returns the entity whose numbers the explanation shows. It is the most unusual broken
// worker if the verdict marks at most half of the workers, and else the whole scope.
func (v *view) looked(pods []string) *group {
	if n := v.enginesOf(pods); n == 0 || 2*n > v.workers {
		return v.whole
	}
	far := func(g *group) float64 {
		most := 0.0
		for _, id := range keySignals {
			if r := g.reading(id); r != nil {
				most = math.Max(most, math.Abs(optional(r.Z).v))
			}
		}
		return most
	}
	best := v.whole
	for _, g := range v.pods {
		if slices.Contains(pods, g.pod) && (best == v.whole || far(g) > far(best)) {
			best = g
		}
	}
	return best
}

// anomalies returns the key signals with unusual values: those of the verdict first, then latency,
// errors and the queue, then the rest.
func (c *Catalog) anomalies(g *group, findings []state.Finding) []state.Anomaly {
	order := make([]string, 0, len(findings)+len(keySignals))
	for _, f := range findings {
		if f.Weight > 0 && slices.Contains(keySignals, f.Signal) {
			order = append(order, f.Signal)
		}
	}
	var out []state.Anomaly
	done := map[string]bool{}
	for _, id := range append(order, keySignals...) {
		if done[id] || len(out) == mostAnomalies {
			continue
		}
		done[id] = true
		if a, ok := c.anomaly(g, id); ok {
			out = append(out, a)
		}
	}
	return out
}

// anomaly returns a signal with its usual values. ok reports whether it is unusual.
func (c *Catalog) anomaly(g *group, signal string) (state.Anomaly, bool) {
	r := g.reading(signal)
	if r == nil || !r.value().ok {
		return state.Anomaly{}, false
	}
	a := state.Anomaly{Signal: signal, Pod: g.pod, Value: r.Value, Unit: c.units[signal],
		Baseline: present(r.Baseline), DayAgo: present(r.DayAgo), WeekAgo: present(r.WeekAgo), Z: present(r.Z)}
	hour, day, week, z := optional(r.Baseline), optional(r.DayAgo), optional(r.WeekAgo), optional(r.Z)
	grain := Grain(a.Unit)
	jumped := hour.ok && differs(r.Value, hour.v, grain) || z.ok && math.Abs(z.v) > anomalous && !(hour.ok && same(r.Value, hour.v, grain))
	for24h := day.ok && week.ok && differs(r.Value, day.v, grain) && differs(r.Value, week.v, grain) && (r.Value > day.v) == (r.Value > week.v)
	if !jumped && !for24h {
		return state.Anomaly{}, false
	}
	value := quantity(r.Value, a.Unit)
	if g.key == "" && r.count > 1 && Counted(a.Unit) && !g.view.series(signal).ofPool() {
		value += " a worker"
	}
	if g.key != "" {
		value += " on " + text.Phrase(g.name())
	}
	a.Text = fmt.Sprintf("%s %s", c.titles[signal], value)
	if than := against(r.Value, a.Unit, [3]number{hour, day, week}, g.view.whyMissing("baseline") != ""); than != "" {
		a.Text += ": " + than
	}
	if z.ok && math.Abs(z.v) > anomalous {
		a.Text += " (" + deviations(z.v) + ")"
	}
	return a, true
}

// Counted reports whether the pool's value of a unit is the sum of its workers. Texts then have to
// name a mean over workers as such.
func Counted(unit string) bool { return unit == "requests" || unit == "1/s" }

func differs(a, b, grain float64) bool {
	lo, hi := math.Min(a, b), math.Max(a, b)
	return hi-lo > 2*grain && (lo <= 0 || hi/lo >= different)
}

func same(a, b, grain float64) bool {
	lo, hi := math.Min(a, b), math.Max(a, b)
	return hi-lo <= grain || lo > 0 && hi/lo < alike
}

// deviations formats a standard score.
func deviations(z float64) string {
	n := strconv.FormatFloat(math.Round(math.Abs(z)), 'f', 0, 64)
	if math.Abs(z) >= 100 {
		n = "100 and more"
	}
	if z < 0 {
		return n + " σ below its usual"
	}
	return n + " σ above its usual"
}

// against compares a value with those an hour, a day and a week ago: "×6 of an hour ago, ×5.8 of
// this hour yesterday and ×6.1 of this hour last week", or "×3 of an hour ago, but as at this hour
// yesterday". If the history is shorter than an hour, the first values replace those of an hour
// ago.
func against(v float64, unit string, usual [3]number, watchedSince bool) string {
	moments := [3]struct{ of, from string }{ // as it follows "×6 of" and "from 0"
		{"an hour ago", "an hour ago"}, {"this hour yesterday", "at this hour yesterday"}, {"this hour last week", "at this hour last week"},
	}
	if watchedSince {
		moments[0].of, moments[0].from = "what it was", "before"
	}
	var changed, still []string
	for i, m := range moments {
		was := usual[i]
		switch {
		case !was.ok:
		case same(v, was.v, Grain(unit)):
			still = append(still, m.from)
		case times(v, was.v, unit) == "":
			changed = append(changed, "from "+quantity(was.v, unit)+" "+m.from)
		default:
			changed = append(changed, times(v, was.v, unit)+" of "+m.of)
		}
	}
	out := enumerate(changed)
	if len(still) > 0 && out != "" {
		out += ", but "
	}
	if len(still) > 0 {
		out += "as " + enumerate(still)
	}
	return out
}

// times returns a value as a multiple of another; "" if the ratio is not meaningful.
func times(v, was float64, unit string) string {
	if was <= Grain(unit) || v <= Grain(unit) {
		return ""
	}
	switch x := v / was; {
	case x >= 100 || x < 0.01:
		return ""
	case x >= 10:
		return "×" + strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	case x >= 1:
		return "×" + strconv.FormatFloat(round(x, 1), 'f', -1, 64)
	default:
		return "×" + strconv.FormatFloat(round(x, 2), 'f', -1, 64)
	}
}

// enumerate joins a list with commas and "and".
func enumerate(parts []string) string {
	if len(parts) < 2 {
		return strings.Join(parts, "")
	}
	return strings.Join(parts[:len(parts)-1], ", ") + " and " + parts[len(parts)-1]
}
