// Package casetest runs cases: txtar archives with alerts, workers and evidence, and the verdict
// that they want. A case also lists the causes that it must not be mistaken for. The format is
// described in docs/own-rules.md, and testdata/cases has the built-in ones.
package casetest
