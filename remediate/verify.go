package remediate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	"paramedic/state"
)

// An aggregate makes one value of the workers'.
type aggregate int

const (
	aggMax aggregate = iota
	aggSum
	aggReady // how many workers are ready, as Kubernetes says
)

// A metric is one measure of whether the patient got better. A run with no metric that is not a guardrail cannot be verified.
type metric struct {
	signal    string
	unit      string // the signal's, as the catalogue of signals has it
	agg       aggregate
	target    bool // of the treated worker and its replacement, with the pool's others as peers; else of the pool, with other pools as peers
	guardrail bool // can only show harm
	higher    bool // higher is better
	// better and worse are factors of the baseline; noise is a difference that means nothing.
	better, worse, noise float64
	cause                state.Cause // only for this cause
	direction            string      // only for this direction of the remedy
}

func (m metric) applies(a *state.Action) bool {
	return (m.cause == "" || m.cause == a.Cause) && (m.direction == "" || m.direction == a.Params["direction"])
}

// peerPrefix marks the baseline and the samples of untouched peers.
const peerPrefix = "peers:"

// errorsToGiveUp is how many samplings in a row may come back with nothing.
const errorsToGiveUp = 4

// baseline is what the action's metrics are now, before the write.
func (s *scene) baseline() map[string]float64 {
	return s.measure(s.act.Target.Name, s.now.Add(-s.rule.EvidenceAge).UnixNano())
}

// measure reads each metric off the scene's evidence; pod is the treated worker for metrics of one.
func (s *scene) measure(pod string, oldest int64) map[string]float64 {
	out := map[string]float64{}
	for _, m := range s.kind.metrics() {
		if !m.applies(s.act) {
			continue
		}
		if m.agg == aggReady {
			out[m.signal] = float64(ready(s.pods))
			continue
		}
		mine := s.inPool
		if m.target {
			mine = func(e state.Entity) bool { return e.Pod == pod }
		}
		peer := func(e state.Entity) bool { return !mine(e) && (!m.target || s.inPool(e)) }
		need := 1
		if m.agg == aggSum && !m.target {
			need = max(1, ready(s.pods)) // a sum that lacks a worker looks like an improvement
		}
		if v, ok := m.of(s.ev, oldest, need, mine); ok {
			out[m.signal] = v
		}
		if v, ok := m.of(s.ev, oldest, 1, peer); ok {
			out[peerPrefix+m.signal] = v
		}
	}
	return out
}

func (m metric) of(ev state.Evidence, oldest int64, need int, take func(state.Entity) bool) (float64, bool) {
	var v []float64
	for _, x := range ev.Samples {
		if x.Signal == m.signal && x.Entity.Pod != "" && x.At.UnixNano() >= oldest && !math.IsNaN(x.Value) && !math.IsInf(x.Value, 0) && take(x.Entity) {
			v = append(v, x.Value)
		}
	}
	if len(v) < need {
		return 0, false
	}
	if m.agg == aggSum {
		return sum(v), true
	}
	return slices.Max(v), true
}

// peersEvidence adds what the same metrics are on the model's other pools.
func (s *scene) peersEvidence(ctx context.Context) {
	if s.act.Target.Kind == "Pod" || s.in.Scope.Model == "" {
		return
	}
	sc := state.Scope{Cluster: s.act.Target.Cluster, Namespace: s.act.Target.Namespace, Model: s.in.Scope.Model}
	for _, v := range s.cfg.Gauge.Read(ctx, sc.Cluster, sc, s.in.StartedAt, names(s.kind.metrics())).Samples {
		if !s.inPool(v.Entity) && v.Entity.Pool != "" && v.Entity.Pool != s.w.Name {
			s.ev.Samples = append(s.ev.Samples, v)
		}
	}
}

// judge compares the samples with the baseline. Worse is only what has not got well again since: rates and quantiles look back over the
// rollout, so that the first samples show what it cost.
func judge(a *state.Action, metrics []metric, enough int) (state.Verdict, string) {
	var good, bad, breach, same []string
	for _, m := range metrics {
		if !m.applies(a) {
			continue
		}
		base, ok := a.Verify.Baseline[m.signal]
		v := a.Verify.Samples[m.signal]
		if !ok || len(v) < enough {
			continue
		}
		now, corrected := median(v), expected(a, m.signal, base, enough)
		text := fmt.Sprintf("%s %s → %s", m.signal, state.FormatValue(base, m.unit), state.FormatValue(now, m.unit))
		if math.Abs(corrected-base) > 1e-9 {
			text += fmt.Sprintf(" (by its peers it would be %s untouched)", state.FormatValue(corrected, m.unit))
		}
		better, worse := m.compare(corrected, now)
		if _, still := m.compare(corrected, v[len(v)-1]); !still {
			worse = false
		}
		switch {
		case worse && m.guardrail:
			breach = append(breach, text)
		case worse:
			bad = append(bad, text)
		case better && !m.guardrail:
			good = append(good, text)
		default:
			same = append(same, text)
		}
	}
	switch {
	case len(breach) > 0:
		return state.Worse, "guardrail breached: " + strings.Join(breach, ", ")
	case len(bad) > len(good):
		return state.Worse, "worse: " + strings.Join(bad, ", ")
	case len(good) > 0 && len(bad) == 0:
		return state.Better, "better: " + strings.Join(good, ", ")
	case len(bad) > 0:
		return state.Inconclusive, fmt.Sprintf("better: %s; worse: %s", strings.Join(good, ", "), strings.Join(bad, ", "))
	case len(same) > 0:
		return state.Inconclusive, "no clear change: " + strings.Join(same, ", ")
	}
	return state.Inconclusive, fmt.Sprintf("fewer than %d samples of anything that would show an improvement", enough)
}

// expected is what the baseline would have become untouched, going by the peers. They correct it by a factor of two at most.
func expected(a *state.Action, signal string, base float64, enough int) float64 {
	pb, ok := a.Verify.Baseline[peerPrefix+signal]
	pv := a.Verify.Samples[peerPrefix+signal]
	if !ok || len(pv) < enough || pb <= 0 {
		return base
	}
	return base * min(2, max(.5, median(pv)/pb))
}

func (m metric) compare(base, now float64) (better, worse bool) {
	d := now - base
	if m.higher {
		return now >= base*m.better && m.better > 0 && d > m.noise, now <= base*m.worse && -d > m.noise
	}
	return now <= base*m.better && -d > m.noise, now >= base*m.worse && d > m.noise
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// verify takes one sample, and the verdict when it is time: harm as soon as there are enough samples, anything else at the end.
func (r *Runner) verify(ctx context.Context, st *stage, kind action) advance {
	a, t := st.act, r.cfg.Timing
	if st.now.Before(a.Verify.Settle) {
		return st.stay(a.Verify.Settle.Sub(st.now))
	}
	gone, err := kind.still(ctx, st)
	if gone.to != "" {
		return gone
	}
	s := r.cfg.survey(ctx, st.in, a)
	if err == nil && s.problem != nil && a.Target.Kind != "Pod" {
		err = s.problem
	}
	pod := or(a.Journal["replacement"], a.Target.Name)
	oldest := max(a.Verify.Settle.UnixNano(), st.now.Add(-s.rule.EvidenceAge).UnixNano())
	got := map[string]float64{}
	if err == nil {
		s.peersEvidence(ctx)
		got = s.measure(pod, oldest)
	}
	if !informative(kind, a, got) {
		a.Verify.Errors++
		a.Verify.Text = "nothing could be read"
		if a.Verify.Errors >= errorsToGiveUp {
			a.Verify.Verdict = state.VerifyError
			return st.person(fmt.Sprintf("verification could not read anything %d times in a row; the change is kept", a.Verify.Errors))
		}
	} else {
		a.Verify.Errors = 0
		if a.Verify.Samples == nil {
			a.Verify.Samples = map[string][]float64{}
		}
		for k, v := range got {
			a.Verify.Samples[k] = append(a.Verify.Samples[k], v)
		}
	}
	verdict, text := judge(a, kind.metrics(), t.Samples)
	a.Verify.Text = text
	if verdict != state.Worse && st.now.Before(a.Verify.Until) {
		return st.stay(min(t.Interval, a.Verify.Until.Sub(st.now)))
	}
	a.Verify.Verdict = verdict
	switch {
	case verdict == state.Better:
		return advance{to: state.Succeeded, text: text}
	case verdict == state.Worse && kind.reversible():
		return advance{to: state.RollbackIntent, text: text}
	case verdict == state.Worse:
		return advance{to: state.NeedsHuman, text: text + "; it cannot be undone"}
	}
	return st.person("inconclusive, the change is kept: " + text)
}

// informative says whether a sampling has anything but guardrails.
func informative(kind action, a *state.Action, got map[string]float64) bool {
	return slices.ContainsFunc(kind.metrics(), func(m metric) bool {
		_, ok := got[m.signal]
		return ok && !m.guardrail && m.applies(a)
	})
}
