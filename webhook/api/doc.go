// Package api serves API v1: the JSON of incidents and actions, the writes, and the event stream.
// Clients decode the same types.
//
// A write is answered with 200 if it is applied, with 202 if it is durable and not applied yet, and
// with 503 if it was not made durable.
package api
