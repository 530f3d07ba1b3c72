package remediate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// A rollback is over when the worsened metrics recovered, and never before the settling time.
func TestRollbackWaitsForRecovery(t *testing.T) {
	const settle, window = 2 * time.Minute, 10 * time.Minute
	run := func(restored time.Duration, harmed bool, sampled int, now float64) func() *runCase {
		return func() *runCase {
			base := map[string]float64{"error_rate": .01, "kv_usage": .5}
			during := map[string]float64{"kv_usage": .5, "error_rate": .01}
			if harmed {
				during["error_rate"] = .4
			}
			b := verified(setEngineArgKind, 10, base, during, map[string]float64{"kv_usage": .5, "error_rate": now})
			b.act.State, b.act.Steps[1].State = state.RollbackIntent, state.RollbackIntent
			b.p.w.Annotations[cluster.OpIDAnnotation], b.p.w.Containers[0].Args[0] = "op"+undone, b.act.Write.Old
			b.act.Verify.Undone = map[string][]float64{"error_rate": slices.Repeat([]float64{now}, sampled)}
			b.note(keyRestored, ago(restored))
			return b
		}
	}
	step := func(ctx context.Context, s *stage) advance { return (&Runner{cfg: s.cfg}).undo(ctx, s, setEngineArg{}) }
	for _, c := range []struct {
		name  string
		begin func() *runCase
		want  stepCase
		exact bool
	}{
		{"settling", run(settle-moment, true, 9, .01), stepCase{to: state.RollbackIntent, wait: moment}, false},
		{"settled", run(settle, true, 9, .01), stepCase{to: state.RolledBack, says: "the old value is live again (because); error_rate is 1 % again"}, true},
		{"nothing had got worse", run(settle, false, 0, .01), stepCase{to: state.RolledBack, says: "the old value is live again (because)"}, true},
		{"too few samples", run(settle, true, 8, .01), stepCase{to: state.RollbackIntent, wait: interval}, false},
		{"still bad", run(settle, true, 9, .4), stepCase{to: state.RollbackIntent, wait: interval}, false},
		{"still bad, nearly at the end", run(settle+window-moment, true, 9, .4), stepCase{to: state.RollbackIntent, wait: moment}, false},
		{"still bad at the end", run(settle+window, true, 9, .4), stepCase{to: state.NeedsHuman,
			says: "the old value is live again (because); the rollback did not help: error_rate is still 40 %, and was 1 %"}, true},
		{"too few samples at the end", run(settle+window, true, 8, .01), stepCase{to: state.NeedsHuman,
			says: "the old value is live again (because); no fresh samples show whether the rollback helped: error_rate"}, true},
	} {
		c.want.name = c.name
		runSteps(t, c.begin, step, []stepCase{c.want})
		if got := step(t.Context(), c.begin().stage).text; c.exact && got != c.want.says {
			t.Errorf("%s: %q", c.name, got)
		}
	}
}

// After a rollback only the metrics that the change had made worse have to recover.
func TestRecoveryChecksWorsenedMetrics(t *testing.T) {
	few := func(v float64) []float64 { return slices.Repeat([]float64{v}, 4) }
	v := func(watched int, now map[string][]float64) state.Verification {
		return state.Verification{
			Baseline: map[string]float64{"kv_usage": .5, "error_rate": 0, "ttft_p95": 1, "requests_waiting": 2},
			Samples:  map[string][]float64{"kv_usage": few(.5), "error_rate": few(.4), "ttft_p95": few(1), "requests_waiting": few(90)},
			Watched:  map[string][]float64{"ttft_p95": slices.Repeat([]float64{9}, watched)}, Undone: now}
	}
	for name, c := range map[string]struct {
		v                    state.Verification
		again, still, unread string
	}{
		"as it was":           {v(0, map[string][]float64{"error_rate": few(0), "kv_usage": few(.5)}), "error_rate is 0 % again", "", ""},
		"still worse":         {v(0, map[string][]float64{"error_rate": few(.4), "kv_usage": few(.99)}), "", "error_rate is still 40 %, and was 0 %", ""},
		"not read":            {v(0, nil), "", "", "error_rate"},
		"watched":             {v(3, map[string][]float64{"error_rate": few(0), "ttft_p95": few(1)}), "error_rate is 0 % again, ttft_p95 is 1 s again", "", ""},
		"watched, not enough": {v(2, map[string][]float64{"error_rate": few(0), "ttft_p95": few(9)}), "error_rate is 0 % again", "", ""},
	} {
		a := &state.Action{Params: map[string]string{"direction": "lower"}, Verify: c.v}
		again, still, unread := verify.Recovered(a, setEngineArg{}.Metrics(), 4, 3)
		slices.Sort(again)
		if got := []string{strings.Join(again, ", "), strings.Join(still, ", "), strings.Join(unread, ", ")}; !slices.Equal(got,
			[]string{c.again, c.still, c.unread}) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// A rollback that was not written yet is written, however late. If it conflicts with other changes,
// it is tried for ten minutes.
func TestLateRollbackIsWritten(t *testing.T) {
	begin := func() *runCase { return newRun(setEngineArgKind, state.RollbackIntent) }
	conflict := func(since time.Duration) func(*runCase) {
		return func(b *runCase) { b.p.patchErr = cluster.ErrConflict; b.note("undo_conflict", ago(since)) }
	}
	runSteps(t, begin, setEngineArg{}.undo, []stepCase{
		{name: "long ago", set: func(b *runCase) { b.act.Steps[1].At = noon.Add(-time.Hour) }, to: state.RollbackIntent, wrote: "inverse"},
		{name: "conflicts for less than ten minutes", set: conflict(10 * time.Minute), to: state.RollbackIntent, wait: time.Minute, wrote: "inverse"},
		{name: "conflicts for longer", set: conflict(10*time.Minute + moment), to: state.NeedsHuman, says: "the rollback conflicts with other changes", wrote: "inverse"},
	})
}
