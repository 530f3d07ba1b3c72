package deviation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strconv"

	"paramedic/internal/text"
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/signals"
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
var keySignals = append(slices.Clone(felt), "arrival_rate", "abort_rate", "requests_running", "kv_usage",
	"preemption_rate",
	"generation_tokens_rate", "prefix_hit_ratio", "prompt_length_mean", "output_length_mean", "container_memory", "gpu_util",
	"gpu_sm_clock")

// Subject returns the entity whose numbers the explanation shows. It is the most unusual broken
// worker if the verdict marks at most half of the workers, and else the whole scope.
func Subject(v *evidence.View, pods []string) *evidence.Subject {
	if n := v.EnginesOf(pods); n == 0 || 2*n > v.Workers() {
		return v.Whole()
	}
	far := func(g *evidence.Subject) float64 {
		most := 0.0
		for _, id := range keySignals {
			if r := g.Reading(id); r != nil {
				most = math.Max(most, math.Abs(condition.Optional(r.Z).V))
			}
		}
		return most
	}
	best := v.Whole()
	for _, g := range v.Pods() {
		if slices.Contains(pods, g.Pod()) && (best == v.Whole() || far(g) > far(best)) {
			best = g
		}
	}
	return best
}

// Anomalies returns the key signals with unusual values: those of the verdict first, then latency,
// errors and the queue, then the rest.
func Anomalies(c *catalog.Catalog, g *evidence.Subject, findings []state.Finding) []state.Anomaly {
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
		if a, ok := anomaly(c, g, id); ok {
			out = append(out, a)
		}
	}
	return out
}

// anomaly returns a signal with its usual values. ok reports whether it is unusual.
func anomaly(c *catalog.Catalog, g *evidence.Subject, signal string) (state.Anomaly, bool) {
	r := g.Reading(signal)
	if r == nil || !r.CurrentValue().OK {
		return state.Anomaly{}, false
	}
	a := state.Anomaly{Signal: signal, Pod: g.Pod(), Value: r.Value, Unit: c.Units()[signal],
		Baseline: condition.Present(r.Baseline), DayAgo: condition.Present(r.DayAgo),
		WeekAgo: condition.Present(r.WeekAgo), Z: condition.Present(r.Z)}
	if _, side := departure(r, a.Unit); side == 0 {
		return state.Anomaly{}, false
	}
	hour, day := condition.Optional(r.Baseline), condition.Optional(r.DayAgo)
	week, z := condition.Optional(r.WeekAgo), condition.Optional(r.Z)
	a.Text = fmt.Sprintf("%s: %s", c.Titles()[signal], quantity(g, signal, r.Value, a.Unit))
	if than := against(r.Value, a.Unit, [3]condition.Number{hour, day, week}, g.View().WhyMissing("baseline") != ""); than != "" {
		a.Text += ", " + than
	}
	if z.OK && math.Abs(z.V) > anomalous {
		a.Text += " (" + deviations(z.V) + ")"
	}
	return a, true
}

// departure returns the usual value that a reading is far from, if one is known, and the side: 1 is
// above, -1 is below, and 0 means that the reading is usual.
func departure(r *condition.Reading, unit string) (from condition.Number, side int) {
	hour, day := condition.Optional(r.Baseline), condition.Optional(r.DayAgo)
	week, z := condition.Optional(r.WeekAgo), condition.Optional(r.Z)
	grain := signals.Negligible(unit)
	switch {
	case hour.OK && differs(r.Value, hour.V, grain):
		return hour, cmp.Compare(r.Value, hour.V)
	case z.OK && math.Abs(z.V) > anomalous && !(hour.OK && same(r.Value, hour.V, grain)):
		return hour, cmp.Compare(z.V, 0)
	case day.OK && week.OK && differs(r.Value, day.V, grain) && differs(r.Value, week.V, grain) &&
		(r.Value > day.V) == (r.Value > week.V):
		return day, cmp.Compare(r.Value, day.V)
	}
	return condition.Number{}, 0
}

// quantity returns a value of a signal with its unit and its entity.
func quantity(g *evidence.Subject, signal string, value float64, unit string) string {
	out := signals.Quantity(value, unit)
	if g.Key() == "" && g.Reading(signal).Count > 1 && signals.IsCount(unit) && !g.View().Series(signal).OfPool() {
		out += " per worker"
	}
	return out + on(g)
}

// on returns the words for an entity after a value; empty for the whole scope.
func on(g *evidence.Subject) string {
	if g.Key() == "" {
		return ""
	}
	return " on " + text.Phrase(g.Name())
}

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
		n = "at least 100"
	}
	if z < 0 {
		return n + " σ below usual"
	}
	return n + " σ above usual"
}

// against compares a value with those an hour, a day and a week ago: "×6 vs an hour ago, ×5.8 vs
// this hour yesterday and ×6.1 vs this hour last week", or "×3 vs an hour ago, but the same as this
// hour yesterday". If the history is shorter than an hour, the first values replace those of an
// hour ago.
func against(v float64, unit string, usual [3]condition.Number, watchedSince bool) string {
	moments := [3]string{"an hour ago", "this hour yesterday", "this hour last week"}
	if watchedSince {
		moments[0] = "before"
	}
	var changed, still []string
	for i, m := range moments {
		was := usual[i]
		switch {
		case !was.OK:
		case same(v, was.V, signals.Negligible(unit)):
			still = append(still, m)
		case times(v, was.V, unit) == "":
			changed = append(changed, direction(v, was.V)+signals.Quantity(was.V, unit)+" "+m)
		default:
			changed = append(changed, times(v, was.V, unit)+" vs "+m)
		}
	}
	out := text.Enumerate(changed)
	if len(still) > 0 && out != "" {
		out += ", but "
	}
	if len(still) > 0 {
		out += "the same as " + text.Enumerate(still)
	}
	return out
}

// direction returns the words before an earlier value.
func direction(v, was float64) string {
	if v < was {
		return "down from "
	}
	return "up from "
}

// times returns a value as a multiple of another; "" if the ratio is not meaningful.
func times(v, was float64, unit string) string {
	if was <= signals.Negligible(unit) || v <= signals.Negligible(unit) {
		return ""
	}
	switch x := v / was; {
	case x >= 100 || x < 0.01:
		return ""
	case x >= 10:
		return "×" + strconv.FormatFloat(math.Round(x), 'f', 0, 64)
	case x >= 1:
		return "×" + strconv.FormatFloat(condition.Round(x, 1), 'f', -1, 64)
	default:
		return "×" + strconv.FormatFloat(condition.Round(x, 2), 'f', -1, 64)
	}
}
