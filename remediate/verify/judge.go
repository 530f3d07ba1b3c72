package verify

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/state"
)

// A tally sorts the texts of the metrics by how they moved.
type tally struct {
	better, worse, breach, draining, same, unread []string

	leads bool // a leading signal is better
	stays bool // a leading signal is not better
}

// Judge compares the samples with the baseline. For a success every leading signal is better. If
// ends is true, the window is over, and a queue that still drains is harm, too.
func Judge(a *state.Action, metrics []Metric, enough int, ends bool) (state.Verdict, string) {
	var t tally
	for _, m := range Applying(metrics, a) {
		t.add(a, m, enough, ends)
	}
	return t.verdict(enough)
}

// add counts one metric of the run.
func (t *tally) add(a *state.Action, m Metric, enough int, ends bool) {
	leading := slices.Contains(a.Verify.Leading, m.Signal)
	c, known := m.change(&a.Verify, a.Verify.Samples, enough)
	switch {
	case !known && (leading || m.Guardrail && measured(a, m)):
		t.unread = append(t.unread, m.name())
	case !known:
	case c.worse && m.Drains && !ends && falls(a.Verify.Samples[m.Signal]):
		t.draining = append(t.draining, c.text)
	case c.worse && m.Guardrail:
		t.breach = append(t.breach, c.text)
	case c.worse:
		t.worse = append(t.worse, c.text)
	case c.better && (leading || !m.Guardrail):
		t.better, t.leads = append(t.better, c.text), t.leads || leading
	default:
		t.same, t.stays = append(t.same, c.text), t.stays || leading
	}
}

// summary lists the metrics that were read and breach no guardrail.
func (t *tally) summary() string {
	var parts []string
	for _, part := range []struct {
		is   string
		what []string
	}{{"no clear change: ", t.same}, {"better: ", t.better}, {"worse: ", t.worse}} {
		if len(part.what) > 0 {
			parts = append(parts, part.is+strings.Join(part.what, ", "))
		}
	}
	return strings.Join(parts, "; ")
}

// verdict weighs the metrics. Harm goes first, then what could not be read.
func (t *tally) verdict(enough int) (state.Verdict, string) {
	text := t.summary()
	switch {
	case len(t.breach) > 0:
		return state.Worse, "guardrail breached: " + strings.Join(t.breach, ", ")
	case len(t.worse) > len(t.better):
		return state.Worse, "worse: " + strings.Join(t.worse, ", ")
	case len(t.draining) > 0:
		return state.Inconclusive, "worse, and falling: " + strings.Join(t.draining, ", ")
	case len(t.unread) > 0 && len(t.better)+len(t.worse)+len(t.same) > 0:
		return state.Inconclusive, "too few samples of " + strings.Join(t.unread, ", ") + " after the change; " + text
	case t.leads && !t.stays && len(t.worse) == 0:
		return state.Better, strings.Join(t.better, ", ")
	case t.stays && len(t.better) > 0:
		return state.Inconclusive, "the symptoms continue: " + text
	case len(t.better) > 0 && len(t.worse) == 0:
		return state.Inconclusive, "no signal that supports the verdict improved; " + text
	case text != "":
		return state.Inconclusive, text
	}
	return state.Inconclusive, fmt.Sprintf("every signal that would show an improvement has fewer than %d samples", enough)
}

// measured reports whether a metric was read before the write.
func measured(a *state.Action, m Metric) bool {
	_, ok := a.Verify.Baseline[m.Signal]
	return ok
}

// Unseen names the signals that a success needs and that a reading lacks. Earlier samples do not
// show how it ended.
func Unseen(a *state.Action, metrics []Metric, got map[string]float64) (out []string) {
	for _, m := range Applying(metrics, a) {
		_, seen := got[m.Signal]
		leading := slices.Contains(a.Verify.Leading, m.Signal)
		if !seen && (leading || m.Guardrail && measured(a, m)) {
			out = append(out, m.name())
		}
	}
	return out
}

// Informative reports whether a reading has a metric other than guardrails.
func Informative(metrics []Metric, a *state.Action, got map[string]float64) bool {
	return slices.ContainsFunc(Applying(metrics, a), func(m Metric) bool {
		_, ok := got[m.Signal]
		return ok && !m.Guardrail
	})
}

// Keep adds one reading to the samples.
func Keep(to *map[string][]float64, got map[string]float64) {
	if *to == nil {
		*to = map[string][]float64{}
	}
	for k, v := range got {
		(*to)[k] = append((*to)[k], v)
	}
}

// WantedSignal is the number of workers that the pool should have. An autoscaler may change it at
// any time.
const WantedSignal = "replicas_desired"

// wanted returns the numbers of ready workers, plus the workers that the pool no longer wants. So
// an autoscaler that removes a worker does no harm.
func wanted(v *state.Verification, samples map[string][]float64, ready []float64) []float64 {
	before, now := v.Baseline[WantedSignal], samples[WantedSignal]
	if len(now) != len(ready) {
		return ready // an older version sampled only those that are ready
	}
	out := slices.Clone(ready)
	for i := range out {
		out[i] += max(0, before-now[i])
	}
	return out
}

// Recovered sorts the metrics that the change had made worse by their values since the rollback:
// recovered, still worse, or unknown.
func Recovered(a *state.Action, metrics []Metric, enough, watched int) (again, still, unread []string) {
	v := &a.Verify
	for _, m := range Applying(metrics, a) {
		was, _ := m.change(v, v.Samples, enough)
		if !was.worse && len(v.Watched[m.Signal]) < watched {
			continue
		}
		now, known := m.change(v, v.Undone, enough)
		value := state.FormatValue(now.now, m.Unit)
		switch {
		case !known:
			unread = append(unread, m.name())
		case now.worse:
			still = append(still, fmt.Sprintf("%s is still %s, and was %s", m.name(), value,
				state.FormatValue(v.Baseline[m.Signal], m.Unit)))
		default:
			again = append(again, fmt.Sprintf("%s is %s again", m.name(), value))
		}
	}
	return again, still, unread
}
