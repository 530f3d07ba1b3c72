package notify

// A Probe is the result of one check of a channel. A check shows nothing to people.
type Probe struct {
	What string
	// Err is what is wrong and how to fix it; nil if nothing is wrong.
	Err error
	// Off is what the operator left out on purpose, and the setting that enables it.
	Off string
}
