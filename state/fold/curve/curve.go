// Package curve keeps the charts of an incident small: few signals, few entities, and few points,
// most of them around the onset.
package curve

import (
	"cmp"
	"math"
	"slices"
	"time"

	"paramedic/state"
)

// The limits of an incident's curves, about 50 kB as JSON.
const (
	maxSignals  = 8
	maxEntities = 8
	maxLate     = 3 // of these, at most this many for workers that appeared after the verdict
	maxPoints   = 100
	maxNear     = 70 // of these, around the onset of a long incident
)

// The part of a long incident that keeps most points: the onset, and the response to it.
const (
	beforeOnset = 15 * time.Minute
	afterOnset  = 45 * time.Minute
)

// Archived returns the evidence of a resolved incident. It keeps the curves and drops the series,
// because nothing is diagnosed from it again.
func Archived(e *state.Evidence) *state.Evidence {
	c := *e
	c.Curves, c.Gone = e.Charted(), nil
	c.Samples = slices.Clone(e.Samples)
	for i := range c.Samples {
		c.Samples[i].Series = nil
	}
	return &c
}

// key identifies a curve. A pod stays the same on another node, and the model is only another
// name.
type key struct{ signal, namespace, pool, pod, instance, node, gpu string }

func keyOf(signal string, e state.Entity) key {
	if e.Pod != "" {
		return key{signal: signal, namespace: e.Namespace, pod: e.Pod, gpu: e.GPU}
	}
	return key{signal, e.Namespace, e.Pool, "", e.Instance, e.Node, e.GPU}
}

// A draft is a curve during a merge.
type draft struct {
	signal, unit string
	entity       state.Entity
	points       []state.Point
	far          float64 // distance of its newest value from the usual value, in standard deviations
}

// Merge merges the series of a gathering into the curves of those before it. It keeps the
// curves of the signals that the verdict rests on, and then of those that are furthest from their
// usual values.
func Merge(old []state.Curve, ev *state.Evidence, in *state.Incident) []state.Curve {
	all := map[key]*draft{}
	var order []key
	add := func(signal, unit string, e state.Entity, points []state.Point, z *float64) {
		points = slices.DeleteFunc(slices.Clone(points),
			func(p state.Point) bool { return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) })
		if len(points) == 0 {
			return
		}
		k := keyOf(signal, e)
		d := all[k]
		if d == nil {
			d = &draft{signal: signal, unit: unit, entity: e}
			all[k] = d
			order = append(order, k)
		}
		d.points = mergePoints(d.points, points)
		if z != nil {
			d.far = math.Abs(*z)
		}
	}
	for _, c := range old {
		add(c.Signal, c.Unit, c.Entity, c.Points(), nil)
	}
	for _, samples := range [][]state.Sample{ev.Gone, ev.Samples} {
		for _, s := range samples {
			if len(s.Series) > 1 {
				add(s.Signal, s.Unit, s.Entity, s.Series, s.Z)
			}
		}
	}
	bySignal := map[string][]*draft{}
	far := map[string]float64{}
	var signals []string
	for _, k := range order {
		d := all[k]
		if bySignal[d.signal] == nil {
			signals = append(signals, d.signal)
		}
		bySignal[d.signal] = append(bySignal[d.signal], d)
		far[d.signal] = math.Max(far[d.signal], d.far)
	}
	told := verdictSignals(in)
	rank := func(signal string) int {
		if i := slices.Index(told, signal); i >= 0 {
			return i
		}
		return len(told)
	}
	slices.SortStableFunc(signals,
		func(a, b string) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(far[b], far[a])) })
	var out []state.Curve
	for _, signal := range signals[:min(maxSignals, len(signals))] {
		for _, d := range kept(bySignal[signal], in) {
			out = append(out, state.NewCurve(d.signal, d.unit, d.entity, downsample(d.points, in.StartedAt)))
		}
	}
	return out
}

// verdictSignals returns the signals in the verdict's text, the heaviest first.
func verdictSignals(in *state.Incident) []string {
	var out []string
	for _, f := range in.Diagnosis.Findings {
		out = append(out, f.Signal)
	}
	for _, l := range in.Diagnosis.Chain {
		out = append(out, l.Signal)
	}
	for _, a := range in.Diagnosis.Anomalies {
		out = append(out, a.Signal)
	}
	for _, c := range in.Diagnosis.Correlations {
		out = append(out, c.Signal, c.With)
	}
	return out
}

// kept selects the curves of a signal to keep: those of the pods that the verdict names, then
// the pool's own, then those furthest from their usual values. Some places are for workers that
// appeared after the verdict, because they show whether the trouble is over.
func kept(all []*draft, in *state.Incident) []*draft {
	if len(all) <= maxEntities {
		return all
	}
	rank := func(d *draft) int {
		pod := d.entity.Pod
		named := func(f state.Finding) bool { return f.Signal == d.signal && f.Pod != "" && f.Pod == pod }
		switch {
		case slices.ContainsFunc(in.Diagnosis.Findings, named):
			return 0
		case pod == "" && d.entity.Instance == "" && d.entity.GPU == "":
			return 1
		case slices.Contains(in.Scope.Pods, pod), slices.Contains(in.Diagnosis.Scope.Pods, pod):
			return 2
		}
		return 3
	}
	sorted := slices.Clone(all)
	slices.SortStableFunc(sorted, func(a, b *draft) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(b.far, a.far)) })
	verdict := in.DiagnosedAt
	late := func(d *draft) bool { return !verdict.IsZero() && d.points[0].At.After(verdict) }
	var first, second []*draft
	for _, d := range sorted {
		if late(d) {
			second = append(second, d)
		} else {
			first = append(first, d)
		}
	}
	n := max(maxEntities-min(len(second), maxLate), 0)
	first = first[:min(n, len(first))]
	return append(first, second[:min(maxEntities-len(first), len(second))]...)
}

// minSpacing is the least time between two points. Points of two gatherings that are closer count
// as one.
const minSpacing = 5 * time.Second

// mergePoints merges newer points into older ones. If both have a point, the newer one stays.
func mergePoints(old, more []state.Point) []state.Point {
	out := make([]state.Point, 0, len(old)+len(more))
	for i, j := 0, 0; i < len(old) || j < len(more); {
		switch {
		case j == len(more):
			out = append(out, old[i])
			i++
		case i == len(old) || more[j].At.Sub(old[i].At) < minSpacing:
			if i < len(old) && more[j].At.Sub(old[i].At) > -minSpacing {
				i++
				continue
			}
			out = append(out, more[j])
			j++
		default:
			out = append(out, old[i])
			i++
		}
	}
	return out
}

// downsample limits a curve to maxPoints points, most of them around the onset.
func downsample(points []state.Point, onset time.Time) []state.Point {
	if len(points) <= maxPoints {
		return points
	}
	near := func(p state.Point) bool {
		return p.At.After(onset.Add(-beforeOnset)) && p.At.Before(onset.Add(afterOnset))
	}
	from, _ := slices.BinarySearchFunc(points, onset.Add(-beforeOnset),
		func(p state.Point, t time.Time) int { return p.At.Compare(t) })
	to := from
	for to < len(points) && near(points[to]) {
		to++
	}
	around := peaks(points[from:to], maxNear)
	rest := maxPoints - len(around)
	before := peaks(points[:from], max(rest*from/max(from+len(points)-to, 1), 1))
	out := slices.Concat(before, around, peaks(points[to:], rest-len(before)))
	out[len(out)-1] = points[len(points)-1] // the curve ends at the last point of the gathering
	return out
}

// peaks returns at most n points. Of each interval it keeps the point that differs most from the
// point kept before it.
func peaks(points []state.Point, n int) []state.Point {
	if len(points) <= n {
		return points
	}
	if n <= 0 {
		return nil
	}
	from, to := points[0].At, points[len(points)-1].At
	of := func(p state.Point) int {
		return min(int(int64(n)*int64(p.At.Sub(from))/max(int64(to.Sub(from)), 1)), n-1)
	}
	out := make([]state.Point, 0, n)
	for i := 0; i < len(points); {
		best, last := points[i], points[max(i-1, 0)]
		if len(out) > 0 {
			last = out[len(out)-1]
		}
		j := i
		for ; j < len(points) && of(points[j]) == of(points[i]); j++ {
			if math.Abs(points[j].Value-last.Value) > math.Abs(best.Value-last.Value) {
				best = points[j]
			}
		}
		out = append(out, best)
		i = j
	}
	return out
}
