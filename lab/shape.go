package lab

import (
	"fmt"
	"math"
	"slices"
)

// A Shape is how a fault's strength goes over time. It matters to the faults that are in the
// traffic or in a limit; a process that died has died.
type Shape string

// The shapes.
const (
	Step     Shape = "step"     // full strength from its first moment on
	Gradual  Shape = "ramp"     // it grows over Ramp, three minutes by default, and stays
	Pulse    Shape = "pulse"    // on for half of each period, then off
	Sawtooth Shape = "sawtooth" // it grows over each period and falls back to nothing
)

// Shapes lists the shapes.
func Shapes() []Shape { return []Shape{Step, Gradual, Pulse, Sawtooth} }

func (s Shape) validate() error {
	if s != "" && !slices.Contains(Shapes(), s) {
		return fmt.Errorf("shape %q is unknown: use one of %v", s, Shapes())
	}
	return nil
}

// at is the share of the full strength so many seconds after the onset.
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
