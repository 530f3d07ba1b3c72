package enrich

import (
	"slices"

	"paramedic/rules/signals"
	"paramedic/state"
)

// origin is a sample's source, and the model that the source named.
type origin struct {
	reading int
	model   string
}

// differs reports whether one source has the same signal of two models.
func (o origin) differs(first origin) bool {
	return first.model != "" && o.model != "" && o.model != first.model && o.reading == first.reading
}

// together combines a worker's samples of several models into one, because the engines of one pod
// may each serve a model.
func (m *merge) together(have *state.Sample, more state.Sample) {
	how := signals.CombineMax // of quantiles and ratios the highest counts
	if i := slices.IndexFunc(m.wanted, func(s signals.Signal) bool { return s.ID == have.Signal }); i >= 0 &&
		!m.wanted[i].Pooled {
		how = m.wanted[i].Combine
	}
	have.Value = Combine(how, have.Value, more.Value)
	if more.At.Before(have.At) {
		have.At = more.At // the value is not newer than its oldest part
	}
	for _, past := range [...]struct {
		have **float64
		more *float64
	}{{&have.Baseline, more.Baseline}, {&have.DayAgo, more.DayAgo}, {&have.WeekAgo, more.WeekAgo}} {
		if *past.have == nil || past.more == nil {
			*past.have = nil // the past of one model is not the worker's
			continue
		}
		v := Combine(how, **past.have, *past.more)
		*past.have = &v
	}
	have.Z, have.Series = nil, nil // these describe one model only
}
