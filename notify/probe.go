package notify

// A Probe is one thing that a channel was asked to prove, and the answer. Asking tells nobody
// anything.
type Probe struct {
	What string
	// Err says what is wrong and what to click to put it right; nil where nothing is.
	Err error
	// Off says what the operator left out on purpose, and what to set to have it.
	Off string
}
