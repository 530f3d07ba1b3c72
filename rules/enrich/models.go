package enrich

import (
	"slices"

	"paramedic/rules"
	"paramedic/state"
)

// origin is the source of a sample, and the model that it named there.
type origin struct {
	reading int
	model   string
}

// another reports whether one source gives the same of two models.
func (o origin) another(first origin) bool {
	return first.model != "" && o.model != "" && o.model != first.model && o.reading == first.reading
}

// together makes what a worker's engines have of a signal the worker's: the engines of one pod may
// serve a model each.
func (m *merge) together(have *state.Sample, more state.Sample) {
	how := rules.CombineMax // of quantiles and ratios the worst speaks
	if i := slices.IndexFunc(m.signals, func(s rules.Signal) bool { return s.ID == have.Signal }); i >= 0 && !m.signals[i].Pooled {
		how = m.signals[i].Combine
	}
	have.Value = Combine(how, have.Value, more.Value)
	if more.At.Before(have.At) {
		have.At = more.At // it is not newer than its oldest part
	}
	for _, past := range [...]struct {
		have **float64
		more *float64
	}{{&have.Baseline, more.Baseline}, {&have.DayAgo, more.DayAgo}, {&have.WeekAgo, more.WeekAgo}} {
		if *past.have == nil || past.more == nil {
			*past.have = nil // of one model alone it is not the worker's
			continue
		}
		v := Combine(how, **past.have, *past.more)
		*past.have = &v
	}
	have.Z, have.Series = nil, nil // of the one model
}
