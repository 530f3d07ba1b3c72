package remediate

import (
	"fmt"
	"math"
	"slices"

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
		var total float64
		for _, x := range v {
			total += x
		}
		return total, true
	}
	return slices.Max(v), true
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

func (m metric) compare(base, now float64) (better, worse bool) {
	d := now - base
	if m.higher {
		return now >= base*m.better && m.better > 0 && d > m.noise, now <= base*m.worse && -d > m.noise
	}
	return now <= base*m.better && -d > m.noise, now >= base*m.worse && d > m.noise
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

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

func names(ms []metric) []string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		if !slices.Contains(out, m.signal) {
			out = append(out, m.signal)
		}
	}
	return out
}
