// Package diagnose turns evidence into a verdict. Every cause of the catalogue is weighed in
// decibans. The best one is named if its score reaches [Threshold] and exceeds the next by
// [Margin].
//
// A name is withheld, and the verdict is unknown, if a signal that is missing could change it. The
// story explains the sum, and lists what is missing.
package diagnose
