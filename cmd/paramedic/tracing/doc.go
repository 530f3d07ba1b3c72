// Package tracing sends traces of an alert's journey to an OpenTelemetry collector (OTLP over
// HTTP).
//
// A trace begins with a payload of Alertmanager. The incident that the payload opens keeps the
// trace's context, so that everything that is done for the incident is in the same trace, also
// after a restart:
//
//	POST /webhook/alertmanager
//	├ append
//	├ triage
//	├ gather evidence
//	│ └ verdict
//	├ deliver slack
//	├ plan first aid
//	│ └ apply
//	└ first aid
//	  └ apply
//
// A later payload of the same incident is a trace of its own. Its triage links to the incident's.
//
// Spans have the incident's ID, its cluster, namespace and cause, names of alert rules, and IDs of
// actions: no other labels, no texts, no errors, no secrets. A collector that hangs or refuses
// delays nothing. Spans that it does not take are dropped.
package tracing
