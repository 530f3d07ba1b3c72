package evidence

import (
	"math"
	"strings"

	"paramedic/rules/condition"
	"paramedic/state"
)

// A series is one signal over the scope, by entity.
type series struct {
	signal  string
	samples []state.Sample // the slice with its samples
	pool    *state.Sample  // the pool's own series
	// by is indexed by the ID of pods, GPUs and nodes in the view: index of the sample, from 1; 0:
	// none. It may end before the last ID.
	by       []int32
	measured int                // number of samples in by
	Whole    *condition.Reading // over all of by, or the pool's if by is empty
	index    int                // of the readings in a group's cache
}

// LacksPast reports whether an expression reads the past of the signal and it is missing.
func (s *series) LacksPast(src string) bool {
	asks := strings.Contains(src, s.signal+".baseline") || strings.Contains(src, s.signal+".hour_ago")
	return asks && !s.Whole.BaselineValue().Ok
}

// OfPool reports whether the pool has a series of its own.
func (s *series) OfPool() bool { return s.pool != nil }

// of returns the sample of an ID; nil if there is none.
func (s *series) of(id int) *state.Sample {
	if id < 0 || id >= len(s.by) || s.by[id] == 0 {
		return nil
	}
	return &s.samples[s.by[id]-1]
}

// summarise computes the statistics over all entities. It adds values in the order of the entities'
// names, since floating-point sums depend on the order.
func (s *series) summarise(order []int, into *condition.Aggregate) {
	r := into.Reading()
	var total float64
	var baseline, hourAgo, dayAgo, weekAgo mean
	for left, i := s.measured, 0; left > 0 && i < len(order); i++ {
		o := s.of(order[i])
		if o == nil {
			continue
		}
		left--
		if r.Text == "" {
			r.Text = o.Text
		}
		if z := condition.Optional(o.Z); z.Ok && (r.Z == nil || math.Abs(z.V) > math.Abs(*r.Z)) {
			r.Z = o.Z
		}
		baseline.add(o.Baseline)
		if hourAgo.add(o.HourAgo); o.HourAgo == nil {
			hourAgo.add(o.Baseline)
		}
		dayAgo.add(o.DayAgo)
		weekAgo.add(o.WeekAgo)
		v := condition.Some(o.Value)
		if !v.Ok {
			continue
		}
		r.Count++
		total += v.V
		if !r.Max.Ok || v.V > r.Max.V {
			r.Max = v
		}
		if !r.Min.Ok || v.V < r.Min.V {
			r.Min = v
		}
	}
	if r.Count > 0 {
		r.Sum, r.Avg = condition.Some(total), condition.Some(total/float64(r.Count))
		r.Value = r.Avg.V
	}
	r.Baseline, r.HourAgo, r.DayAgo, r.WeekAgo = baseline.value(), hourAgo.value(), dayAgo.value(), weekAgo.value()
	if s.pool != nil {
		s.overlayPool(r)
	}
	s.Whole = r
}

// A mean is the mean of the values that are not missing.
type mean struct {
	sum float64
	n   int
}

func (m *mean) add(v *float64) {
	if n := condition.Optional(v); n.Ok {
		m.sum += n.V
		m.n++
	}
}

func (m *mean) value() *float64 {
	if m.n == 0 {
		return nil
	}
	v := m.sum / float64(m.n)
	return &v
}

// overlayPool replaces values of the whole scope by those of the pool's own series.
func (s *series) overlayPool(r *condition.Reading) {
	p := s.pool
	if v := condition.Some(p.Value); v.Ok {
		r.Value = p.Value
		if r.Count == 0 {
			r.Max, r.Min, r.Avg, r.Sum, r.Count = v, v, v, v, 1
		}
		// The mean of the pods' baselines is not the baseline of the pool's own series.
		r.Baseline, r.HourAgo, r.DayAgo, r.WeekAgo = p.Baseline, p.HourAgo, p.DayAgo, p.WeekAgo
	}
	if condition.Optional(p.Z).Ok {
		r.Z = p.Z
	}
	if p.Text != "" {
		r.Text = p.Text
	}
}
