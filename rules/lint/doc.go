// Package lint finds what is wrong with a fleet's own alerting rules: metrics that no target
// exports, thresholds that can never be crossed, ranges shorter than two scrapes, and expressions
// that are always true. It never changes a rule; each finding has a suggested fix.
package lint
