package remediate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// An aggregate makes one value of the workers'.
type aggregate int

const (
	aggMax aggregate = iota
	aggSum
	aggReady // how many workers are ready, as Kubernetes says
)

// A metric is one measure of whether the patient got better. A run with no metric that is not a
// guardrail cannot be verified.
type metric struct {
	signal    string
	also      []string // signals of a verdict that this one stands for
	unit      string   // the signal's, as the catalogue of signals has it
	agg       aggregate
	target    bool // of the treated worker and its replacement, with the pool's others as peers; else of the pool, with other pools as peers
	guardrail bool // shows harm; one that has better as well has to get better if the verdict rests on it
	ends      bool // the remedy is there to end it, so it has to get better wherever it is measured
	higher    bool // higher is better
	// better and worse are factors of the baseline; noise is a difference that means nothing.
	better, worse, noise float64
	rolling              rolling     // what is harm while the change takes effect
	cause                state.Cause // only for this cause
	direction            string      // only for this direction of the remedy
}

// rolling holds the worse and the noise of a guardrail while a change takes effect. A guardrail
// without it is not watched then, because the change itself costs it.
type rolling struct{ worse, noise float64 }

func (m metric) applies(a *state.Action) bool {
	return (m.cause == "" || m.cause == a.Cause) && (m.direction == "" || m.direction == a.Params["direction"])
}

// applying returns the metrics of a run's cause and of its remedy's direction.
func applying(all []metric, a *state.Action) []metric {
	return slices.DeleteFunc(slices.Clone(all), func(m metric) bool { return !m.applies(a) })
}

// peerPrefix marks the baseline and the samples of untouched peers.
const peerPrefix = "peers:"

// errorsToGiveUp is how many samplings in a row may come back with nothing.
const errorsToGiveUp = 4

// measure reads each metric off the scene's evidence; pod is the treated worker for metrics of one.
// It returns nothing if the pool could not be read, because any value may then be another pool's.
func (s *scene) measure(pod string, oldest int64) map[string]float64 {
	if s.unread != nil {
		return nil
	}
	out := map[string]float64{}
	for _, m := range applying(s.kind.metrics(), s.act) {
		if m.agg == aggReady {
			out[m.signal], out[wantedSignal] = float64(ready(s.pods)), float64(s.w.Replicas)
			continue
		}
		mine, peer, need := s.inPool, s.inOther, 1
		if m.target {
			mine = func(e state.Entity) bool { return e.Pod == pod }
			peer = func(e state.Entity) bool { return e.Pod != pod && s.inPool(e) }
		} else if m.agg == aggSum {
			need = max(1, ready(s.pods)) // a sum that lacks a worker looks like an improvement
		}
		if v, ok := m.of(s.ev, oldest, need, mine); ok {
			out[m.signal] = v
		} else if v, ok := s.newest(m.signal, ""); ok && !m.target && v.Entity.Pool == s.w.Name && v.At.UnixNano() >= oldest {
			out[m.signal] = v.Value // some gateways tell it of the pool only
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
		if s.inOther(v.Entity) {
			s.ev.Samples = append(s.ev.Samples, v)
		}
	}
}

// inOther reports whether an entity is of another pool. A worker of this pool that is gone by now
// is not.
func (s *scene) inOther(e state.Entity) bool {
	return e.Pool != "" && e.Pool != s.w.Name && !s.inPool(e)
}

// A change tells how one metric moved since the baseline.
type change struct {
	text          string
	better, worse bool
	now           float64
}

// change compares samples with the baseline; it reports false where either is not known.
//
// A metric is better if its median and the last third of its samples are. Of a guardrail the last
// third decides, because a rollout may cost it most of the window. Peers that got worse make
// nothing better, because the trouble then goes on. A metric is worse only if its last sample still
// is: rates and quantiles look back over the rollout, so the first samples show its cost.
func (m metric) change(v *state.Verification, samples map[string][]float64, enough int) (change, bool) {
	base, ok := v.Baseline[m.signal]
	got := samples[m.signal]
	if !ok || len(got) < enough {
		return change{}, false
	}
	corrected := expected(v, samples, m.signal, base, enough)
	if m.agg == aggReady {
		got, corrected = wanted(v, samples, got), base
	}
	better := func(now float64) bool {
		by, _ := m.compare(base, now)
		than, _ := m.compare(corrected, now)
		return by && than
	}
	c := change{now: median(got)}
	end := median(got[len(got)-max(1, len(got)/3):])
	_, worse := m.compare(corrected, c.now)
	_, still := m.compare(corrected, got[len(got)-1])
	c.better, c.worse = better(end) && (m.guardrail || better(c.now)), worse && still
	if m.guardrail && c.better || better(c.now) && !better(end) {
		c.now = end
	}
	c.text = fmt.Sprintf("%s %s → %s", m.signal, state.FormatValue(base, m.unit), state.FormatValue(c.now, m.unit))
	if math.Abs(corrected-base) > 1e-9 {
		c.text += fmt.Sprintf(" (by its peers it would be %s untouched)", state.FormatValue(corrected, m.unit))
	}
	return c, true
}

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

// expected is what the baseline would have become untouched, going by the peers. They correct it by
// a factor of two at most.
func expected(v *state.Verification, samples map[string][]float64, signal string, base float64, enough int) float64 {
	pb, ok := v.Baseline[peerPrefix+signal]
	pv := samples[peerPrefix+signal]
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

// verify takes one sample, and the verdict when it is time: harm as soon as there are enough
// samples, anything else at the end.
func (r *Runner) verify(ctx context.Context, st *stage, kind action) advance {
	a, t := st.act, r.cfg.Timing
	if st.now.Before(a.Verify.Settle) {
		return st.stay(a.Verify.Settle.Sub(st.now))
	}
	gone, err := kind.still(ctx, st)
	if gone.to != "" {
		return gone
	}
	got := map[string]float64{}
	if err == nil {
		got = r.sample(ctx, st, a.Verify.Settle)
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
		keep(&a.Verify.Samples, got)
	}
	verdict, text := judge(a, kind.metrics(), t.Samples)
	until := a.Verify.Until
	if dark := unseen(a, kind.metrics(), got); verdict == state.Better && len(dark) > 0 {
		verdict, text = state.Inconclusive, strings.Join(dark, ", ")+" cannot be read at the end; "+text
		until = until.Add(errorsToGiveUp * t.Interval) // a failed scrape or two may be all of it
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
		return advance{to: state.NeedsHuman, text: text + "; it cannot be undone"}
	}
	return st.person("inconclusive, the change is kept: " + text)
}

// sample returns the action's metrics as they are now. It takes no value older than settled.
func (r *Runner) sample(ctx context.Context, st *stage, settled time.Time) map[string]float64 {
	a := st.act
	s := r.cfg.survey(ctx, st.in, a)
	s.peersEvidence(ctx)
	oldest := max(settled.UnixNano(), st.now.Add(-s.rule.EvidenceAge).UnixNano())
	return s.measure(or(a.Journal["replacement"], a.Target.Name), oldest)
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

// informative reports whether a sampling has anything but guardrails.
func informative(kind action, a *state.Action, got map[string]float64) bool {
	return slices.ContainsFunc(applying(kind.metrics(), a), func(m metric) bool {
		_, ok := got[m.signal]
		return ok && !m.guardrail
	})
}
