// Package verify compares the metrics of a run with its baseline, and decides whether the change
// helped, did harm, or neither.
//
// It reads nothing: package guard reads the samples, and the run records them. A metric that was
// not read never counts as better.
package verify
