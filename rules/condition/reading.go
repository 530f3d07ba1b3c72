package condition

import (
	"errors"
	"math"

	"paramedic/state"
)

// Present returns v, or nil if it is missing or not a number.
func Present(v *float64) *float64 {
	if !Optional(v).Ok {
		return nil
	}
	return v
}

func Pointer(n Number) *float64 {
	if !n.Ok {
		return nil
	}
	return &n.V
}

func Round(x float64, digits int) float64 {
	p := math.Pow(10, float64(digits))
	return math.Round(x*p) / p
}

// ReadingFields are the fields of a signal in expressions.
var ReadingFields = []string{"value", "max", "min", "avg", "sum", "count", "baseline", "hour_ago", "day_ago",
	"week_ago", "z", "text", "least"}

// A Number is a value that may be missing.
type Number struct {
	V  float64
	Ok bool
}

func Some(v float64) Number { return Number{V: v, Ok: !math.IsNaN(v)} }

func Optional(p *float64) Number {
	if p == nil {
		return Number{}
	}
	return Some(*p)
}

// A Reading is one signal of one entity, with the statistics over all entities. A missing value is
// NaN.
type Reading struct {
	*state.Sample
	*Peers
}

func (r *Reading) CurrentValue() Number  { return Some(r.Value) }
func (r *Reading) BaselineValue() Number { return Optional(r.Baseline) }

// HourAgoValue returns the value an hour before the onset, the same moment for every signal.
func (r *Reading) HourAgoValue() Number {
	if r.HourAgo != nil {
		return Optional(r.HourAgo)
	}
	return r.BaselineValue()
}
func (r *Reading) HasText() bool { return r.Text != "" }

// Peers holds the statistics over all entities of a signal.
type Peers struct {
	Max, Min, Avg, Sum Number
	Count              int
}

// Aggregate is the storage of a reading over all entities.
type Aggregate struct {
	r      Reading
	sample state.Sample
	peers  Peers
}

func (w *Aggregate) Reading() *Reading {
	w.sample.Value = math.NaN()
	w.r = Reading{Sample: &w.sample, Peers: &w.peers}
	return &w.r
}

// Nothing is the sample of an entity on which the signal was not measured, unlike on others.
var Nothing = &state.Sample{Value: math.NaN()}

var errAbsent = errors.New("not there")

func readField(target any, i int) (any, error) {
	r, ok := target.(*Reading)
	if bound, is := target.(*LowerBound); is {
		r, ok = bound.Reading, ReadingFields[i] == "least"
	}
	if !ok {
		return nil, errAbsent
	}
	if ReadingFields[i] == "text" {
		if !r.HasText() {
			return nil, errAbsent
		}
		return r.Text, nil
	}
	n := r.Field(ReadingFields[i])
	if !n.Ok {
		return nil, errAbsent
	}
	return n.V, nil
}

func (r *Reading) Field(field string) Number {
	if field == "" {
		return r.CurrentValue()
	}
	if of := fields[field]; of != nil {
		return of(r)
	}
	return Number{}
}

// fields maps the names in expressions to the numbers of a reading.
var fields = map[string]func(*Reading) Number{
	"value":    (*Reading).CurrentValue,
	"max":      func(r *Reading) Number { return r.Max },
	"min":      func(r *Reading) Number { return r.Min },
	"avg":      func(r *Reading) Number { return r.Avg },
	"sum":      func(r *Reading) Number { return r.Sum },
	"count":    func(r *Reading) Number { return Some(float64(r.Count)) },
	"baseline": (*Reading).BaselineValue,
	"hour_ago": (*Reading).HourAgoValue,
	"day_ago":  func(r *Reading) Number { return Optional(r.DayAgo) },
	"week_ago": func(r *Reading) Number { return Optional(r.WeekAgo) },
	"z":        func(r *Reading) Number { return Optional(r.Z) },
	"least":    (*Reading).CurrentValue, // of a lower bound
}

// A LowerBound is a signal whose values are too short: only its field least has a value.
type LowerBound struct{ *Reading }
