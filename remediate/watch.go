package remediate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

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

// The journal's keys of this file.
const (
	keyWatched  = "watched"  // when guardrails were last read while the change takes effect
	keyRestored = "restored" // when a rollback was first seen to be live
)

// watch reads the guardrails while the change takes effect, and returns the breach or "". A rollout
// costs single bad readings, so a breach has to last for as many readings as the baseline has.
func (r *stage) watch(ctx context.Context, kind action) string {
	a, t := r.act, r.cfg.Timing
	last, _ := time.Parse(time.RFC3339Nano, a.Journal[keyWatched]) // before the first reading the zero time
	if r.now.Sub(last) < t.Interval {
		return ""
	}
	r.note(keyWatched, r.now.Format(time.RFC3339Nano))
	s := r.cfg.survey(ctx, r.in, a)
	got, v := s.reading(), &a.Verify
	var breached []string
	for _, m := range applying(kind.metrics(), a) {
		if m.rolling == (rolling{}) {
			continue
		}
		if !s.breaches(m, got) {
			delete(v.Watched, m.signal)
			continue
		}
		keep(&v.Watched, map[string]float64{m.signal: got[m.signal]})
		if len(v.Watched[m.signal]) >= t.readings() {
			breached = append(breached, fmt.Sprintf("%s %s → %s", m.signal,
				state.FormatValue(v.Baseline[m.signal], m.unit), state.FormatValue(got[m.signal], m.unit)))
		}
	}
	if len(breached) == 0 {
		return ""
	}
	v.Verdict = state.Worse
	v.Text = "guardrail breached while the change took effect: " + strings.Join(breached, ", ")
	return v.Text
}

// breaches reports whether a guardrail is worse than a change may cost while it takes effect. What
// cannot be read is no breach: the verification that follows judges it.
func (s *scene) breaches(m metric, got map[string]float64) bool {
	base, known := s.act.Verify.Baseline[m.signal]
	now, ok := got[m.signal]
	if !known || !ok {
		return false
	}
	if m.agg == aggReady {
		now += max(0, s.act.Verify.Baseline[wantedSignal]-got[wantedSignal])
		base -= float64(s.away())
	}
	m.worse, m.noise = m.rolling.worse, m.rolling.noise
	_, worse := m.compare(base, now)
	return worse
}

// away returns how many workers the change itself takes away at once.
func (s *scene) away() int {
	if s.act.Target.Kind == "Pod" {
		return 1
	}
	n, _ := s.lost()
	return n
}

// takeEffect waits until the change is in force, and ends it early if a guardrail is breached.
func (r *Runner) takeEffect(ctx context.Context, st *stage, kind action) advance {
	adv := kind.live(ctx, st)
	if adv.to != state.Applied {
		return adv
	}
	switch why := st.watch(ctx, kind); {
	case why == "":
		return adv
	case kind.reversible():
		return advance{to: state.RollbackIntent, text: why}
	default:
		return advance{to: state.NeedsHuman, text: why + "; it cannot be undone"}
	}
}

// undo takes back what was written, and verifies that what had got worse is as it was. If it is
// not, the change was not the only cause, and the run needs a person. The same holds if it cannot
// be read.
func (r *Runner) undo(ctx context.Context, st *stage, kind action) advance {
	adv := kind.undo(ctx, st)
	if adv.to != state.RolledBack {
		return adv
	}
	a, t := st.act, r.cfg.Timing
	settled := st.stamp(keyRestored).Add(t.Settle)
	if st.now.Before(settled) {
		return st.stay(settled.Sub(st.now))
	}
	keep(&a.Verify.Undone, r.sample(ctx, st, settled))
	again, still, unread := recovered(a, kind.metrics(), t)
	until := settled.Add(t.Window)
	switch {
	case len(still)+len(unread) == 0:
		if len(again) > 0 {
			adv.text += "; " + strings.Join(again, ", ")
		}
		return adv
	case st.now.Before(until):
		return st.stay(min(t.Interval, until.Sub(st.now)))
	case len(still) > 0:
		return advance{to: state.NeedsHuman, text: adv.text + ", and it did not help: " + strings.Join(still, ", ")}
	}
	return advance{to: state.NeedsHuman,
		text: adv.text + "; whether that helped could not be read: " + strings.Join(unread, ", ")}
}

// recovered sorts the metrics that the change had made worse by what they are since the rollback:
// as they were, still worse, or not known.
func recovered(a *state.Action, metrics []metric, t Timing) (again, still, unread []string) {
	v := &a.Verify
	for _, m := range applying(metrics, a) {
		was, _ := m.change(v, v.Samples, t.Samples)
		if !was.worse && len(v.Watched[m.signal]) < t.readings() {
			continue
		}
		now, known := m.change(v, v.Undone, t.Samples)
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
