package fold

import (
	"cmp"
	"math"
	"slices"
	"time"

	"paramedic/state"
)

// The bounds of what is kept to draw an incident: about 50 kB as JSON.
const (
	curvesSignals  = 8
	curvesEntities = 8
	curvesLate     = 3 // of these, for those that came after the verdict where there are as many
	curvesPoints   = 100
	curvesNear     = 70 // of these, around the onset where the incident is long
)

// The part of a long incident that keeps most points: what led to it, and what was done about it.
const (
	beforeOnset = 15 * time.Minute
	afterOnset  = 45 * time.Minute
)

// withoutSeries returns the evidence of an incident that is over: nothing is diagnosed from it
// again, and its curves draw it.
func withoutSeries(e *state.Evidence) *state.Evidence {
	c := *e
	c.Curves, c.Gone = e.Charted(), nil
	c.Samples = slices.Clone(e.Samples)
	for i := range c.Samples {
		c.Samples[i].Series = nil
	}
	return &c
}

// curveKey tells curves apart. A pod is one wherever it runs, and a model is only another name.
type curveKey struct{ signal, namespace, pool, pod, instance, node, gpu string }

func keyOf(signal string, e state.Entity) curveKey {
	if e.Pod != "" {
		return curveKey{signal: signal, namespace: e.Namespace, pod: e.Pod, gpu: e.GPU}
	}
	return curveKey{signal, e.Namespace, e.Pool, "", e.Instance, e.Node, e.GPU}
}

// A drawing is a curve while gatherings are merged into it.
type drawing struct {
	signal, unit string
	entity       state.Entity
	points       []state.Point
	far          float64 // how far its newest value is from its usual one
}

// mergeCurves adds what a gathering read to the curves of those before it, and keeps those that
// tell the incident's story: of the signals that the verdict rests on, then of those that are
// furthest from their usual values.
func mergeCurves(old []state.Curve, ev *state.Evidence, in *state.Incident) []state.Curve {
	all := map[curveKey]*drawing{}
	var order []curveKey
	add := func(signal, unit string, e state.Entity, points []state.Point, z *float64) {
		points = slices.DeleteFunc(slices.Clone(points), func(p state.Point) bool { return math.IsNaN(p.Value) || math.IsInf(p.Value, 0) })
		if len(points) == 0 {
			return
		}
		key := keyOf(signal, e)
		d := all[key]
		if d == nil {
			d = &drawing{signal: signal, unit: unit, entity: e}
			all[key] = d
			order = append(order, key)
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
	bySignal := map[string][]*drawing{}
	far := map[string]float64{}
	var signals []string
	for _, key := range order {
		d := all[key]
		if bySignal[d.signal] == nil {
			signals = append(signals, d.signal)
		}
		bySignal[d.signal] = append(bySignal[d.signal], d)
		far[d.signal] = math.Max(far[d.signal], d.far)
	}
	told := toldSignals(in)
	rank := func(signal string) int {
		if i := slices.Index(told, signal); i >= 0 {
			return i
		}
		return len(told)
	}
	slices.SortStableFunc(signals, func(a, b string) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(far[b], far[a])) })
	var out []state.Curve
	for _, signal := range signals[:min(curvesSignals, len(signals))] {
		for _, d := range chosen(bySignal[signal], in) {
			out = append(out, state.NewCurve(d.signal, d.unit, d.entity, thin(d.points, in.StartedAt)))
		}
	}
	return out
}

// toldSignals are the signals that the verdict's text speaks of, the weightiest first.
func toldSignals(in *state.Incident) []string {
	var out []string
	for _, f := range in.Diagnosis.Findings {
		out = append(out, f.Signal)
	}
	for _, a := range in.Diagnosis.Anomalies {
		out = append(out, a.Signal)
	}
	for _, c := range in.Diagnosis.Correlations {
		out = append(out, c.Signal, c.With)
	}
	return out
}

// chosen are the curves of a signal that are kept: those of the pods that the verdict names, the
// pool's own, and those furthest from their usual; among them some of the workers that came later,
// which show whether the trouble is over.
func chosen(all []*drawing, in *state.Incident) []*drawing {
	if len(all) <= curvesEntities {
		return all
	}
	rank := func(d *drawing) int {
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
	slices.SortStableFunc(sorted, func(a, b *drawing) int { return cmp.Or(rank(a)-rank(b), cmp.Compare(b.far, a.far)) })
	verdict := in.DiagnosedAt
	late := func(d *drawing) bool { return !verdict.IsZero() && d.points[0].At.After(verdict) }
	var first, second []*drawing
	for _, d := range sorted {
		if late(d) {
			second = append(second, d)
		} else {
			first = append(first, d)
		}
	}
	n := max(curvesEntities-min(len(second), curvesLate), 0)
	first = first[:min(n, len(first))]
	return append(first, second[:min(curvesEntities-len(first), len(second))]...)
}

// apart is how far points of two gatherings have to be from each other to be two.
const apart = 5 * time.Second

// mergePoints puts newer points among older ones. Where both have one, the newer stands.
func mergePoints(old, more []state.Point) []state.Point {
	out := make([]state.Point, 0, len(old)+len(more))
	for i, j := 0, 0; i < len(old) || j < len(more); {
		switch {
		case j == len(more):
			out = append(out, old[i])
			i++
		case i == len(old) || more[j].At.Sub(old[i].At) < apart:
			if i < len(old) && more[j].At.Sub(old[i].At) > -apart {
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

// thin keeps as many points as a curve may have, most of them around the onset.
func thin(points []state.Point, onset time.Time) []state.Point {
	if len(points) <= curvesPoints {
		return points
	}
	near := func(p state.Point) bool {
		return p.At.After(onset.Add(-beforeOnset)) && p.At.Before(onset.Add(afterOnset))
	}
	from, _ := slices.BinarySearchFunc(points, onset.Add(-beforeOnset), func(p state.Point, t time.Time) int { return p.At.Compare(t) })
	to := from
	for to < len(points) && near(points[to]) {
		to++
	}
	around := buckets(points[from:to], curvesNear)
	rest := curvesPoints - len(around)
	before := buckets(points[:from], max(rest*from/max(from+len(points)-to, 1), 1))
	out := slices.Concat(before, around, buckets(points[to:], rest-len(before)))
	out[len(out)-1] = points[len(points)-1] // a line ends where the gathering did
	return out
}

// buckets keeps n points at most: of each stretch of time the one that differs most from the one
// kept before it, so that no peak is lost.
func buckets(points []state.Point, n int) []state.Point {
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
