package engine

import (
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// stale is the age from which a point no longer counts as current.
const stale = 5 * time.Minute

// slopePoints is the least number of points of a slope, as in PromQL.
const slopePoints = 10

// A slot is the entity that several series are combined into, with their text and address.
type slot struct {
	entity   state.Entity
	text     string
	instance string
}

func (s slot) key() string {
	e := s.entity
	return strings.Join([]string{e.Namespace, e.Model, e.Pool, e.Pod, e.Node, e.GPU, s.text, s.instance}, "\x00")
}

// group returns the key of the entity that the slot's value is a part of. A pod's values from all
// its addresses form one group.
func (s slot) group() string {
	if s.entity.Pod != "" {
		s.instance = ""
	}
	return s.key()
}

// An evaluation evaluates one source of one signal at one time, over any number of targets.
type evaluation struct {
	cluster string
	signal  signals.Signal
	source  signals.Source
	pool    bool
	to      time.Time
	unborn  bool // a counter without a value yet has the rate zero
	slots   map[string]slot
	slotOf  map[seriesOf]string // cached, because an evaluation runs for many times
}

type seriesOf struct {
	target *target
	series int
}

type values map[string]float64

// run evaluates the source.
func (e *evaluation) run(targets []*target) values {
	s := e.source
	if e.slots == nil {
		e.slots, e.slotOf = map[string]slot{}, map[seriesOf]string{}
	}
	sum := signals.CombineSum
	var out values
	switch s.Fn {
	case signals.FnLast:
		out = e.collect(targets, s.Metric, s.Match, e.signal.Combine, signals.FnLast)
	case signals.FnQuantile:
		out = e.quantiles(targets)
	case signals.FnMean:
		out = divide(e.collect(targets, s.Metric+"_sum", s.Match, sum, signals.FnRate),
			e.collect(targets, s.Metric+"_count", s.Match, sum, signals.FnRate))
	case signals.FnRatio:
		out = e.ratio(targets)
	case signals.FnRest:
		out = e.rest(targets)
	case signals.FnShare, signals.FnLess:
		out = e.pair(targets)
	case signals.FnTotal, signals.FnExcess:
		out = e.total(targets)
	case signals.FnAge, signals.FnRollout:
		out = e.collect(targets, s.Metric, s.Match, signals.CombineMax, signals.FnLast)
		for k, v := range out {
			out[k] = float64(e.to.UnixMilli())/1000 - v
		}
	case signals.FnFlow:
		out = e.flow(targets)
	case signals.FnNews:
		out = e.news(targets)
	case signals.FnRise:
		out = e.whileIdle(targets)
	case signals.FnMin:
		if len(s.With) > 0 {
			out = e.whileIdle(targets)
			break
		}
		fallthrough
	default:
		out = e.collect(targets, s.Metric, s.Match, e.signal.Combine, s.Fn)
	}
	for k, v := range out {
		if math.IsNaN(v) || math.IsInf(v, 0) || s.Nonzero && v == 0 {
			delete(out, k)
			continue
		}
		out[k] = v * s.Scale
	}
	return out
}

// ratio divides the rate of a part by that of the whole. A part without a series is zero.
func (e *evaluation) ratio(targets []*target) values {
	s, sum := e.source, signals.CombineSum
	whole := e.collect(targets, s.Over, s.Denominator(), sum, signals.FnRate)
	for _, counter := range s.With {
		for k, more := range e.collect(targets, counter, s.Denominator(), sum, signals.FnRate) {
			whole[k] += more
		}
	}
	part := e.collect(targets, s.Metric, s.Match, sum, signals.FnRate)
	for k := range whole {
		if _, ok := part[k]; !ok {
			part[k] = 0
		}
	}
	return divide(part, whole)
}

// rest subtracts one rate from another, down to zero.
func (e *evaluation) rest(targets []*target) values {
	s, sum := e.source, signals.CombineSum
	out := e.collect(targets, s.Metric, s.Match, sum, signals.FnRate)
	for k, less := range e.collect(targets, s.Over, s.Denominator(), sum, signals.FnRate) {
		if v, ok := out[k]; ok {
			out[k] = math.Max(v-less, 0)
		}
	}
	return out
}

// news counts how often an entity's value changed, over all its series.
func (e *evaluation) news(targets []*target) values {
	courses := map[string]map[float64]float64{} // by entity: seconds → value
	e.each(targets, e.source.Metric, e.source.Match, func(t *target, i int, k string) {
		if courses[k] == nil {
			courses[k] = map[float64]float64{}
		}
		for _, p := range t.points(i, e.to, e.source.Window) {
			v := p.value
			if have, ok := courses[k][p.seconds]; ok {
				v = enrich.Combine(e.signal.Combine, have, v)
			}
			courses[k][p.seconds] = v
		}
	})
	out := values{}
	for k, course := range courses {
		var points []at
		for _, seconds := range slices.Sorted(maps.Keys(course)) {
			points = append(points, at{seconds, course[seconds]})
		}
		if v, ok := over(signals.FnChanges, points, e.source.Window); ok {
			out[k] = v
		}
	}
	return out
}

func divide(part, whole values) values {
	out := values{}
	for k, w := range whole {
		if p, ok := part[k]; ok && w > 0 {
			out[k] = p / w
		}
	}
	return out
}

func (e *evaluation) pair(targets []*target) values {
	s := e.source
	one := e.collect(targets, s.Metric, s.Match, signals.CombineMax, signals.FnLast)
	other := e.collect(targets, s.Over, s.Denominator(), signals.CombineMax, signals.FnLast)
	out := values{}
	for k, a := range one {
		b, ok := other[k]
		switch {
		case !ok:
		case s.Fn == signals.FnShare:
			out[k] = a / (a + b)
		case a < b:
			out[k] = 1
		default:
			out[k] = 0
		}
	}
	return out
}

func (e *evaluation) total(targets []*target) values {
	s := e.source
	out := e.collect(targets, s.Metric, s.Match, signals.CombineSum, signals.FnLast)
	add := func(sign float64, other values) {
		for k := range out {
			v, ok := other[k]
			if !ok {
				delete(out, k)
				continue
			}
			out[k] += sign * v
		}
	}
	for _, gauge := range s.With {
		add(1, e.collect(targets, gauge, s.Match, signals.CombineSum, signals.FnLast))
	}
	if s.Fn == signals.FnExcess {
		add(-1, e.collect(targets, s.Over, s.Denominator(), signals.CombineSum, signals.FnLast))
	}
	for k, v := range out {
		out[k] = math.Max(v, 0)
	}
	return out
}

func (e *evaluation) flow(targets []*target) values {
	s := e.source
	out := e.collect(targets, s.Metric, s.Match, signals.CombineSum, signals.FnRate)
	for _, gauge := range s.With {
		growth := e.derivative(targets, gauge)
		for k := range out {
			g, ok := growth[k]
			if !ok {
				delete(out, k)
				continue
			}
			out[k] += g
		}
	}
	for k, v := range out {
		out[k] = math.Max(v, 0)
	}
	return out
}

// derivative returns the slope of a gauge over the source's window, from at least two points.
func (e *evaluation) derivative(targets []*target, metric string) values {
	out := values{}
	e.each(targets, metric, e.source.Match, func(t *target, i int, k string) {
		if v, ok := over(signals.FnSlope, t.points(i, e.to, e.source.Window), e.source.Window); ok {
			out[k] += v
		}
	})
	return out
}

// collect applies a function to each series of a metric and combines the results by entity.
func (e *evaluation) collect(
	targets []*target, metric string, match []signals.Matcher, how signals.Combine, fn signals.Fn,
) values {
	out := values{}
	e.each(targets, metric, match, func(t *target, i int, k string) {
		v, ok := e.one(t, i, fn)
		if !ok {
			return
		}
		if have, ok := out[k]; ok {
			v = enrich.Combine(how, have, v)
		}
		out[k] = v
	})
	return out
}

func (e *evaluation) one(t *target, i int, fn signals.Fn) (float64, bool) {
	last, alive := t.last(i, e.to)
	switch fn {
	case signals.FnLast:
		if e.source.Value != "" && alive {
			return labelValue(t.history.series[i].labels[e.source.Value])
		}
		return last, alive
	case signals.FnSlope:
		points := t.points(i, e.to, e.source.Window)
		if !alive || len(points) < slopePoints {
			return 0, false
		}
		return over(fn, points, e.source.Window)
	case signals.FnRate:
		points := t.points(i, e.to, e.source.Window)
		if e.unborn && len(points) == 0 && len(t.history.between(e.to.Add(-e.source.Window), e.to)) > 1 {
			return 0, true
		}
		return over(fn, points, t.watched(e.to, e.source.Window))
	default:
		if e.source.Engine == "target" && !alive {
			return 0, false // the page has a pod name now, so a newer series replaces this one
		}
		return over(fn, t.points(i, e.to, e.source.Window), e.source.Window)
	}
}

// each visits every matching series of a metric.
func (e *evaluation) each(
	targets []*target, metric string, match []signals.Matcher, visit func(t *target, series int, slot string),
) {
	for _, t := range targets {
		for _, i := range t.history.byMetric[metric] {
			if s := t.history.series[i]; matches(match, s.labels) {
				visit(t, i, e.slot(t, i))
			}
		}
	}
}

func matches(match []signals.Matcher, labels map[string]string) bool {
	for _, m := range match {
		if !m.Matches(labels[m.Label]) {
			return false
		}
	}
	return true
}

func (e *evaluation) slot(t *target, series int) string {
	if k, ok := e.slotOf[seriesOf{t, series}]; ok {
		return k
	}
	labels := t.history.series[series].labels
	src := e.source
	if e.pool {
		src.Per = signals.PerPool
	}
	s := slot{entity: enrich.Identify(e.cluster, e.signal, src, t.with(labels))}
	if src.Label != "" {
		s.text = src.Text(labels[src.Label])
	}
	if s.entity.Instance != "" {
		s.instance = s.entity.Instance
	}
	k := s.key()
	e.slots[k], e.slotOf[seriesOf{t, series}] = s, k
	return k
}

func (e *evaluation) quantiles(targets []*target) values {
	buckets := map[string]map[float64]float64{}
	e.each(targets, e.source.Metric+"_bucket", e.source.Match, func(t *target, i int, k string) {
		v, ok := over(signals.FnRate, t.points(i, e.to, e.source.Window), e.source.Window)
		if !ok {
			return
		}
		if buckets[k] == nil {
			buckets[k] = map[float64]float64{}
		}
		buckets[k][t.history.series[i].le] += v
	})
	out := values{}
	for k, by := range buckets {
		list := make([]enrich.Bucket, 0, len(by))
		for le, n := range by {
			list = append(list, enrich.Bucket{Le: le, Count: n})
		}
		if v, ok := enrich.Quantile(e.source.Q, list); ok {
			out[k] = v
		}
	}
	return out
}
