// Package rulestest has helpers for tests of the rules: the built-in catalogue, a pool of any size,
// and pools whose engines span several pods.
package rulestest
