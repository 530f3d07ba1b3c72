package state

import (
	"math"
	"time"
)

// A Curve holds the values of one signal on one entity over the whole incident. Each gathering of
// evidence is merged into it. A worker that a rollout replaced keeps its curve, although no
// gathering reads it again.
type Curve struct {
	Signal string    `json:"signal"`
	Unit   string    `json:"unit,omitempty"`
	Entity Entity    `json:"entity"`
	Begin  int64     `json:"begin"`          // time of the first point, in seconds since 1970
	Steps  []int64   `json:"steps,omitzero"` // seconds from each point to the next
	Values []float64 `json:"values"`         // rounded to four digits
}

// Points returns the curve's points, oldest first.
func (c Curve) Points() []Point {
	out := make([]Point, 0, len(c.Values))
	at := c.Begin
	for i, v := range c.Values {
		if i > 0 {
			at += c.Steps[i-1]
		}
		out = append(out, Point{At: time.Unix(at, 0).UTC(), Value: v})
	}
	return out
}

// NewCurve returns the curve of the points.
func NewCurve(signal, unit string, e Entity, points []Point) Curve {
	c := Curve{Signal: signal, Unit: unit, Entity: e}
	last := int64(0)
	for i, p := range points {
		at := p.At.Unix()
		if i == 0 {
			c.Begin = at
		} else {
			c.Steps = append(c.Steps, at-last)
		}
		last = at
		c.Values = append(c.Values, digits(p.Value))
	}
	return c
}

// digits rounds a value to four digits. A chart shows fewer.
func digits(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	if r := math.Round(v*scale) / scale; !math.IsNaN(r) && !math.IsInf(r, 0) {
		return r
	}
	return v
}

// Charted returns the curves to draw. Evidence of an older version has none: it returns the series
// of the samples.
func (e *Evidence) Charted() []Curve {
	if len(e.Curves) > 0 {
		return e.Curves
	}
	var out []Curve
	for _, s := range e.Samples {
		if len(s.Series) > 1 {
			out = append(out, NewCurve(s.Signal, s.Unit, s.Entity, s.Series))
		}
	}
	return out
}
