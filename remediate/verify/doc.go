// Package verify compares the metrics of a run with its baseline, and returns whether the change
// helped, did harm, or neither.
//
// It judges only what it is given: samples are read by package guard and recorded in the run. A
// metric that was not read is never taken as better.
package verify
