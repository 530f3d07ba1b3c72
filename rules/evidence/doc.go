// Package evidence arranges the samples of one scope so that conditions can be evaluated for the
// scope and for each of its pods, GPUs and nodes. It fills texts with the values found, and reports
// the symptoms that samples show without an alert.
//
// Samples that are stale or no number count as missing. A [View] is used by one goroutine, and has
// to be released.
package evidence
