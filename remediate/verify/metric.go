package verify

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"paramedic/state"
)

// An aggregate makes one value of the workers' values.
type aggregate int

// The aggregates.
const (
	AggMax aggregate = iota
	AggSum
	AggReady // the number of ready workers, from Kubernetes
)

// A Metric is one measure of whether the pool got better. A run needs one that is not a guardrail,
// or it cannot be verified.
type Metric struct {
	Signal string
	Also   []string // signals of a verdict that this one stands for
	Unit   string   // the signal's, from the catalogue of signals
	Agg    aggregate
	// Target metrics are of the treated worker and its replacement, and the pool's other workers
	// are the peers. Other metrics are of the pool, and other pools are the peers.
	Target bool
	// A Guardrail shows harm. If it has Better too and the verdict rests on it, it has to get
	// better.
	Guardrail bool
	// MustEnd marks a symptom that the remedy has to end: it has to get better wherever it is
	// measured.
	MustEnd bool
	// Drains marks the effect of a queue that the change lengthens before it empties. While the
	// values fall, a breach is no harm before the window ends.
	Drains bool
	Higher bool // higher is better
	// Better and Worse are factors of the baseline. Noise is the largest difference without
	// meaning.
	Better, Worse, Noise float64
	Rolling              Rolling     // the harm while the change takes effect
	Cause                state.Cause // only for this cause
	Direction            string      // only for this direction of the remedy

	title string // of the signal, from Titles; empty: unknown
}

// name returns the signal's title, or its ID.
func (m Metric) name() string { return cmp.Or(m.title, m.Signal) }

// Rolling holds the Worse and the Noise of a guardrail while a change takes effect. A guardrail
// without it is not watched then, because the change itself costs it.
type Rolling struct{ Worse, Noise float64 }

func (m Metric) applies(a *state.Action) bool {
	return (m.Cause == "" || m.Cause == a.Cause) && (m.Direction == "" || m.Direction == a.Params["direction"])
}

// Applying returns the metrics for a run's cause and its remedy's direction.
func Applying(all []Metric, a *state.Action) []Metric {
	return slices.DeleteFunc(slices.Clone(all), func(m Metric) bool { return !m.applies(a) })
}

// PeerPrefix marks the baseline and the samples of untouched peers.
const PeerPrefix = "peers:"

// Of returns the aggregate of the samples that take accepts. It reports false if they are fewer
// than need.
func (m Metric) Of(ev state.Evidence, oldest int64, need int, take func(state.Entity) bool) (float64, bool) {
	var v []float64
	for _, x := range ev.Samples {
		if x.Signal == m.Signal && x.Entity.Pod != "" && x.At.UnixNano() >= oldest && !math.IsNaN(x.Value) &&
			!math.IsInf(x.Value, 0) && take(x.Entity) {
			v = append(v, x.Value)
		}
	}
	if len(v) < need {
		return 0, false
	}
	if m.Agg == AggSum {
		var total float64
		for _, x := range v {
			total += x
		}
		return total, true
	}
	return slices.Max(v), true
}

// A change is the movement of one metric since the baseline.
type change struct {
	text          string
	better, worse bool
	now           float64
}

// change compares samples with the baseline. It reports false if either is unknown.
//
// A metric is better if its median is, and the median of the last third of its samples. For a
// guardrail only the last third counts, because a rollout may cost it most of the window. If the
// peers got worse, nothing is better for it, because the symptoms continue. A metric is worse only
// if its last sample still is: rates and quantiles look back over the rollout, so the first samples
// show its cost.
func (m Metric) change(v *state.Verification, samples map[string][]float64, enough int) (change, bool) {
	base, ok := v.Baseline[m.Signal]
	got := samples[m.Signal]
	if !ok || len(got) < enough {
		return change{}, false
	}
	corrected := expected(v, samples, m.Signal, base, enough)
	if m.Agg == AggReady {
		got, corrected = wanted(v, samples, got), base
	}
	better := func(now float64) bool {
		by, _ := m.Compare(base, now)
		than, _ := m.Compare(corrected, now)
		return by && than
	}
	c := change{now: Median(got)}
	end := Median(got[len(got)-max(1, len(got)/3):])
	_, worse := m.Compare(corrected, c.now)
	_, still := m.Compare(corrected, got[len(got)-1])
	c.better, c.worse = better(end) && (m.Guardrail || better(c.now)), worse && still
	if m.Guardrail && c.better || better(c.now) && !better(end) {
		c.now = end
	}
	c.text = m.Moved(base, c.now)
	if math.Abs(corrected-base) > 1e-9 {
		c.text += fmt.Sprintf(" (without the change it would be %s, by its peers)", state.FormatValue(corrected, m.Unit))
	}
	return c, true
}

// falls reports whether the last third of the samples is lower than the first third, by a
// twentieth at least.
func falls(samples []float64) bool {
	third := max(1, len(samples)/3)
	return Median(samples[len(samples)-third:]) <= .95*Median(samples[:third])
}

// Moved returns the text of a metric's movement.
func (m Metric) Moved(from, to float64) string {
	return fmt.Sprintf("%s %s → %s", m.name(), state.FormatValue(from, m.Unit), state.FormatValue(to, m.Unit))
}

// Compare reports whether a value is better or worse than the baseline, by more than the noise.
func (m Metric) Compare(base, now float64) (better, worse bool) {
	d := now - base
	if m.Higher {
		return now >= base*m.Better && m.Better > 0 && d > m.Noise, now <= base*m.Worse && -d > m.Noise
	}
	return now <= base*m.Better && -d > m.Noise, now >= base*m.Worse && d > m.Noise
}

// expected returns what the baseline would be now without the change, going by the peers. They
// correct it by a factor of two at most.
func expected(v *state.Verification, samples map[string][]float64, signal string, base float64, enough int) float64 {
	pb, ok := v.Baseline[PeerPrefix+signal]
	pv := samples[PeerPrefix+signal]
	if !ok || len(pv) < enough || pb <= 0 {
		return base
	}
	return base * min(2, max(.5, Median(pv)/pb))
}

// Median returns the median of at least one value.
func Median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	n := len(s)
	if n%2 == 1 {
		return s[n/2]
	}
	return (s[n/2-1] + s[n/2]) / 2
}

// Signals returns the metrics' signals, each once.
func Signals(ms []Metric) []string {
	out := make([]string, 0, len(ms))
	for _, m := range ms {
		if !slices.Contains(out, m.Signal) {
			out = append(out, m.Signal)
		}
	}
	return out
}
