package api

import (
	"context"
	"time"

	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/command"
	"paramedic/webhook/httpio"
)

// A Config wires the API. All fields but Fleet are required.
type Config struct {
	*command.Runner
	Access *access.Control
	// Fleet returns the health of every pool, as a value for JSON. It is nil if no source is
	// configured.
	Fleet func(ctx context.Context) (any, error)
	// Titles holds the titles of signals and symptoms, for reports.
	Titles state.Titles
	// Causes holds the IDs that feedback may name. Empty: any ID of the form of a cause's.
	Causes []state.Cause
	// Retain is the longest window of the statistics: a resolved incident is stored for this time.
	Retain time.Duration
	// BodyTimeout bounds how long a body may take to arrive.
	BodyTimeout time.Duration
	// ApplyWait bounds how long a write waits to be applied, before it is answered with 202.
	ApplyWait time.Duration
	// Streams bounds how many event streams are open at once.
	Streams int
	// Done ends the event streams when it is closed.
	Done <-chan struct{}
}

// An API serves /api/v1.
type API struct {
	Config
	streams chan struct{}
}

// New returns an API with the configuration c.
func New(c Config) *API {
	return &API{Config: c, streams: make(chan struct{}, c.Streams)}
}

// Routes returns the handlers by pattern. openapi.yaml describes each.
func (s *API) Routes() map[string]httpio.Handler {
	need := s.Access.Need
	return map[string]httpio.Handler{
		"GET /api/v1/incidents":                need(state.Viewer, s.listIncidents),
		"GET /api/v1/incidents/{id}":           need(state.Viewer, s.showIncident),
		"GET /api/v1/incidents/{id}/timeline":  need(state.Viewer, s.showTimeline),
		"GET /api/v1/incidents/{id}/report":    need(state.Viewer, s.showReport),
		"POST /api/v1/incidents/{id}/ack":      s.onIncident(state.VerbAck),
		"POST /api/v1/incidents/{id}/resolve":  s.onIncident(state.VerbResolve),
		"POST /api/v1/incidents/{id}/silence":  s.onIncident(state.VerbSilence),
		"POST /api/v1/incidents/{id}/feedback": s.onIncident(state.VerbFeedback),
		"POST /api/v1/incidents/{id}/diagnose": s.onIncident(state.VerbDiagnose),
		"GET /api/v1/actions":                  need(state.Viewer, s.listActions),
		"GET /api/v1/actions/{id}":             need(state.Viewer, s.showAction),
		"POST /api/v1/actions/{id}/approve":    s.onAction(state.VerbApprove),
		"POST /api/v1/actions/{id}/deny":       s.onAction(state.VerbDeny),
		"POST /api/v1/actions/{id}/cancel":     s.onAction(state.VerbCancel),
		"POST /api/v1/halt":                    s.onFleet(state.VerbHalt),
		"POST /api/v1/resume":                  s.onFleet(state.VerbResume),
		"GET /api/v1/stats":                    need(state.Viewer, s.stats),
		"GET /api/v1/fleet":                    need(state.Viewer, s.fleet),
		"GET /api/v1/events":                   need(state.Viewer, s.events),
	}
}
