package lab

import (
	"fmt"
	"math"
	"slices"
)

// A Shape is the course of a fault's strength over time. It affects faults of traffic and of limits
// only.
type Shape string

// The shapes.
const (
	Step     Shape = "step"     // full strength at once
	Gradual  Shape = "ramp"     // grows over Ramp, default three minutes, and stays
	Pulse    Shape = "pulse"    // on for the first half of each period
	Sawtooth Shape = "sawtooth" // grows over each period and falls to zero
)

// Shapes returns all shapes.
func Shapes() []Shape { return []Shape{Step, Gradual, Pulse, Sawtooth} }

func (s Shape) validate() error {
	if s != "" && !slices.Contains(Shapes(), s) {
		return fmt.Errorf("shape %q is unknown: use one of %s", s, joined(Shapes()))
	}
	return nil
}

// at returns the share of the full strength at a time since the onset, in seconds.
func (s Shape) at(since, period float64) float64 {
	phase := math.Mod(since, period) / period
	switch s {
	case Pulse:
		if phase < 0.5 {
			return 1
		}
		return 0
	case Sawtooth:
		return phase
	}
	return 1
}
