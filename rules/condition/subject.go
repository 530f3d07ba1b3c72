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
	Role() string
	Pod() string
}

type Activation = cel.Activation
