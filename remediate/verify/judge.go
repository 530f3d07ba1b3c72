package verify

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/state"
)

// judge compares the samples with the baseline. For a success every leading signal is better.
func Judge(a *state.Action, metrics []Metric, enough int) (state.Verdict, string) {
	var good, bad, breach, same, unread []string
	stays, leads := false, false // a leading signal is not better; one is
	for _, m := range Applying(metrics, a) {
		leading := slices.Contains(a.Verify.Leading, m.Signal)
		c, known := m.change(&a.Verify, a.Verify.Samples, enough)
		switch {
		case !known && (leading || m.Guardrail && measured(a, m)):
			unread = append(unread, m.Signal)
		case !known:
		case c.worse && m.Guardrail:
			breach = append(breach, c.text)
		case c.worse:
			bad = append(bad, c.text)
		case c.better && (leading || !m.Guardrail):
			good, leads = append(good, c.text), leads || leading
		default:
			same, stays = append(same, c.text), stays || leading
		}
	}
	text := ""
	for _, part := range []struct {
		is   string
		what []string
	}{{"no clear change: ", same}, {"better: ", good}, {"worse: ", bad}} {
		if len(part.what) > 0 {
			text += "; " + part.is + strings.Join(part.what, ", ")
		}
	}
	text = strings.TrimPrefix(text, "; ")
	switch {
	case len(breach) > 0:
		return state.Worse, "guardrail breached: " + strings.Join(breach, ", ")
	case len(bad) > len(good):
		return state.Worse, "worse: " + strings.Join(bad, ", ")
	case len(unread) > 0 && len(good)+len(bad)+len(same) > 0:
		return state.Inconclusive, strings.Join(unread, ", ") + " could not be read often enough after the change; " +
			text
	case leads && !stays && len(bad) == 0:
		return state.Better, "better: " + strings.Join(good, ", ")
	case stays && len(good) > 0:
		return state.Inconclusive, "the trouble goes on: " + text
	case len(good) > 0 && len(bad) == 0:
		return state.Inconclusive, "nothing that the verdict rests on shows it; " + text
	case text != "":
		return state.Inconclusive, text
	}
	return state.Inconclusive, fmt.Sprintf("fewer than %d samples of anything that would show an improvement", enough)
}

// measured reports whether a metric was read before the write.
func measured(a *state.Action, m Metric) bool {
	_, ok := a.Verify.Baseline[m.Signal]
	return ok
}

// unseen lists what a success rests on that a reading lacks: enough earlier samples do not tell how
// it ended.
func Unseen(a *state.Action, metrics []Metric, got map[string]float64) (out []string) {
	for _, m := range Applying(metrics, a) {
		_, seen := got[m.Signal]
		leading := slices.Contains(a.Verify.Leading, m.Signal)
		if !seen && (leading || m.Guardrail && measured(a, m)) {
			out = append(out, m.Signal)
		}
	}
	return out
}

// informative reports whether a sampling has anything but guardrails.
func Informative(metrics []Metric, a *state.Action, got map[string]float64) bool {
	return slices.ContainsFunc(Applying(metrics, a), func(m Metric) bool {
		_, ok := got[m.Signal]
		return ok && !m.Guardrail
	})
}

// keep adds one reading to the samples.
func Keep(to *map[string][]float64, got map[string]float64) {
	if *to == nil {
		*to = map[string][]float64{}
	}
	for k, v := range got {
		(*to)[k] = append((*to)[k], v)
	}
}

// wantedSignal is how many workers the pool should have. An autoscaler may change it at any time.
const WantedSignal = "replicas_desired"

// wanted returns the numbers of ready workers plus those that the pool no longer wants, so that an
// autoscaler that takes a worker does no harm.
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

// recovered sorts the metrics that the change had made worse by what they are since the rollback:
// as they were, still worse, or not known.
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
			unread = append(unread, m.Signal)
		case now.worse:
			still = append(still, fmt.Sprintf("%s is still %s, and was %s", m.Signal, value,
				state.FormatValue(v.Baseline[m.Signal], m.Unit)))
		default:
			again = append(again, fmt.Sprintf("%s is %s again", m.Signal, value))
		}
	}
	return again, still, unread
}
