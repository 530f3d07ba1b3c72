package condition

import "cel.dev/cel-go/cel"

// A Subject is the entity that a condition is evaluated for.
type Subject interface {
	Activation
	Facts() *Facts                     // what the alerts report
	ReadingAt(signal int) *Reading     // by the signal's number; nil if the scope has none
	LowerBound(signal string) *Reading // the truncated reading; nil if the signal is not truncated
	PoolKnown() bool                   // reports whether the alerts name the pool
	Workers() int                      // in the scope
	TroubleAge() float64               // returns the seconds within which the trouble began
	Role() string
	Pod() string
}

// Activation is CEL's interface of variables by name.
type Activation = cel.Activation
