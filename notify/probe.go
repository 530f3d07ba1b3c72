package notify

// A Probe is the result of one check of a channel. A check shows nothing to people.
type Probe struct {
	What string
	// Err describes the fault and its remedy. It is nil if nothing is wrong.
	Err error
	// Off names a part that the operator left out on purpose, and the setting that enables it.
	Off string
}
