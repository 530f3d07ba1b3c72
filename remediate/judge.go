package remediate

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/state"
)

// judge compares the samples with the baseline. For a success every leading signal is better.
func judge(a *state.Action, metrics []metric, enough int) (state.Verdict, string) {
	var good, bad, breach, same, unread []string
	stays, leads := false, false // a leading signal is not better; one is
	for _, m := range applying(metrics, a) {
		leading := slices.Contains(a.Verify.Leading, m.signal)
		c, known := m.change(&a.Verify, a.Verify.Samples, enough)
		switch {
		case !known && (leading || m.guardrail && measured(a, m)):
			unread = append(unread, m.signal)
		case !known:
		case c.worse && m.guardrail:
			breach = append(breach, c.text)
		case c.worse:
			bad = append(bad, c.text)
		case c.better && (leading || !m.guardrail):
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
		return state.Inconclusive, strings.Join(unread, ", ") + " could not be read often enough after the change; " + text
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
func measured(a *state.Action, m metric) bool {
	_, ok := a.Verify.Baseline[m.signal]
	return ok
}

// unseen lists what a success rests on that a reading lacks: enough earlier samples do not tell how
// it ended.
func unseen(a *state.Action, metrics []metric, got map[string]float64) (out []string) {
	for _, m := range applying(metrics, a) {
		_, seen := got[m.signal]
		leading := slices.Contains(a.Verify.Leading, m.signal)
		if !seen && (leading || m.guardrail && measured(a, m)) {
			out = append(out, m.signal)
		}
	}
	return out
}

// informative reports whether a sampling has anything but guardrails.
func informative(metrics []metric, a *state.Action, got map[string]float64) bool {
	return slices.ContainsFunc(applying(metrics, a), func(m metric) bool {
		_, ok := got[m.signal]
		return ok && !m.guardrail
	})
}

// keep adds one reading to the samples.
func keep(to *map[string][]float64, got map[string]float64) {
	if *to == nil {
		*to = map[string][]float64{}
	}
	for k, v := range got {
		(*to)[k] = append((*to)[k], v)
	}
}

// wantedSignal is how many workers the pool should have. An autoscaler may change it at any time.
const wantedSignal = "replicas_desired"

// wanted returns the numbers of ready workers plus those that the pool no longer wants, so that an
// autoscaler that takes a worker does no harm.
func wanted(v *state.Verification, samples map[string][]float64, ready []float64) []float64 {
	before, now := v.Baseline[wantedSignal], samples[wantedSignal]
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
func recovered(a *state.Action, metrics []metric, enough, watched int) (again, still, unread []string) {
	v := &a.Verify
	for _, m := range applying(metrics, a) {
		was, _ := m.change(v, v.Samples, enough)
		if !was.worse && len(v.Watched[m.signal]) < watched {
			continue
		}
		now, known := m.change(v, v.Undone, enough)
		value := state.FormatValue(now.now, m.unit)
		switch {
		case !known:
			unread = append(unread, m.signal)
		case now.worse:
			still = append(still, fmt.Sprintf("%s is still %s, and was %s", m.signal, value,
				state.FormatValue(v.Baseline[m.signal], m.unit)))
		default:
			again = append(again, fmt.Sprintf("%s is %s again", m.signal, value))
		}
	}
	return again, still, unread
}
