package remediate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"paramedic/remediate/verify"
	"paramedic/state"
)

// errorsToGiveUp limits how many readings in a row may return nothing.
const errorsToGiveUp = 4

// verify takes one sample, and decides when it is time: for harm as soon as there are enough
// samples, unless it is a queue that drains, and otherwise at the end of the window.
func (r *Runner) verify(ctx context.Context, st *stage, kind action) advance {
	a, t := st.act, r.cfg.Timing
	if st.now.Before(a.Verify.Settle) {
		return st.stay(a.Verify.Settle.Sub(st.now))
	}
	gone, err := kind.still(ctx, st)
	if gone.to != "" {
		return gone
	}
	metrics, got := r.cfg.metrics(kind), map[string]float64{}
	if err == nil {
		got = r.sample(ctx, st, a.Verify.Settle)
	}
	if !verify.Informative(metrics, a, got) {
		a.Verify.Errors++
		a.Verify.Text = "no metric of the pool could be read"
		if a.Verify.Errors >= errorsToGiveUp {
			a.Verify.Verdict = state.VerifyError
			return st.person(fmt.Sprintf("verification read no metric of the pool %d times in a row; the change stays",
				a.Verify.Errors))
		}
	} else {
		a.Verify.Errors = 0
		verify.Keep(&a.Verify.Samples, got)
	}
	until := a.Verify.Until
	verdict, text := verify.Judge(a, metrics, t.Samples, !st.now.Before(until))
	if dark := verify.Unseen(a, metrics, got); verdict == state.Better && len(dark) > 0 {
		verdict, text = state.Inconclusive, strings.Join(dark, ", ")+": no value at the end; "+text
		until = until.Add(errorsToGiveUp * t.Interval) // one or two failed scrapes may be the cause
	}
	a.Verify.Text = text
	if verdict != state.Worse && st.now.Before(until) {
		return st.stay(min(t.Interval, until.Sub(st.now)))
	}
	a.Verify.Verdict = verdict
	switch {
	case verdict == state.Better:
		return advance{to: state.Succeeded, text: text}
	case verdict == state.Worse && kind.reversible():
		return advance{to: state.RollbackIntent, text: text}
	case verdict == state.Worse:
		return advance{to: state.NeedsHuman, text: text + "; this action has no rollback"}
	}
	return st.person("inconclusive, the change stays: " + text)
}

// sample returns the action's metrics as they are now. It ignores values older than settled.
func (r *Runner) sample(ctx context.Context, st *stage, settled time.Time) map[string]float64 {
	a := st.act
	s := r.cfg.survey(ctx, st.in, a)
	s.PeersEvidence(ctx)
	oldest := max(settled.UnixNano(), st.now.Add(-s.Rule.EvidenceAge).UnixNano())
	return s.Measure(cmp.Or(a.Journal[keyReplacement], a.Target.Name), oldest)
}
