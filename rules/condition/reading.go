package condition

import (
	"errors"
	"math"

	"paramedic/state"
)

// Present returns v, or nil if it is missing or not a number.
func Present(v *float64) *float64 {
	if !Optional(v).OK {
		return nil
	}
	return v
}

// Pointer returns the value of a number, or nil if it is missing.
func Pointer(n Number) *float64 {
	if !n.OK {
		return nil
	}
	return &n.V
}

// Round returns x rounded to a number of decimal digits.
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
	OK bool
}

// Some returns a value as a number; NaN is missing.
func Some(v float64) Number { return Number{V: v, OK: !math.IsNaN(v)} }

// Optional returns the value that p points to; nil and NaN are missing.
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

// CurrentValue returns the present value.
func (r *Reading) CurrentValue() Number { return Some(r.Value) }

// BaselineValue returns the value an hour before the onset.
func (r *Reading) BaselineValue() Number { return Optional(r.Baseline) }

// HourAgoValue returns the value an hour before the onset, the same moment for every signal.
func (r *Reading) HourAgoValue() Number {
	if r.HourAgo != nil {
		return Optional(r.HourAgo)
	}
	return r.BaselineValue()
}

// HasText reports whether the value is a word.
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

// Reading returns the reading that the aggregate holds, without a value.
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
	if !n.OK {
		return nil, errAbsent
	}
	return n.V, nil
}

// Field returns the number that an expression reads as this field; the empty field is the value.
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
