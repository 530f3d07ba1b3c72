// Package httpio reads the bodies of requests and writes answers.
//
// A body is bounded in size and time, is valid UTF-8, and holds one JSON value. An error that a
// handler returns carries the status and the text of its answer; neither shows a secret.
package httpio
