package pagerdutytest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
)

// Secret is the secret of every webhook subscription.
const Secret = "0f5c2a7d9b1e4c6f8a3d"

// Subscribable lists the events that a webhook subscription may name
// (https://developer.pagerduty.com/docs/webhooks-overview).
var Subscribable = []string{
	"incident.acknowledged", "incident.annotated", "incident.conference_bridge.updated", "incident.custom_field_values.updated",
	"incident.delegated", "incident.escalated", "incident.incident_type.changed", "incident.priority_updated", "incident.reassigned",
	"incident.reopened", "incident.resolved", "incident.responder.added", "incident.responder.replied", "incident.service_updated",
	"incident.status_update_published", "incident.triggered", "incident.unacknowledged", "incident.workflow.completed",
	"incident.workflow.started", "service.created", "service.custom_field_values.updated", "service.deleted", "service.updated",
}

// A subscription is a request for V3 webhooks.
type subscription struct {
	Type, Description string
	Active            bool
	DeliveryMethod    struct {
		Type, URL     string
		CustomHeaders []struct{ Name, Value string } `json:"custom_headers"`
	} `json:"delivery_method"`
	Events []string
	Filter struct{ Type, ID string }
}

// check returns what is wrong with a subscription.
func (s *subscription) check() []string {
	var errs []string
	bad := func(format string, args ...any) { errs = append(errs, fmt.Sprintf(format, args...)) }
	if s.Type != "webhook_subscription" || s.DeliveryMethod.Type != "http_delivery_method" {
		bad("the types are %q and %q", s.Type, s.DeliveryMethod.Type)
	}
	if u, err := url.Parse(s.DeliveryMethod.URL); err != nil || u.Scheme != "https" || u.Host == "" {
		bad("url %q", s.DeliveryMethod.URL)
	}
	if len(s.Events) == 0 {
		bad("events is empty")
	}
	for i, e := range s.Events {
		if !slices.Contains(Subscribable, e) || slices.Contains(s.Events[:i], e) {
			bad("event %q", e)
		}
	}
	switch s.Filter.Type {
	case "service_reference", "team_reference":
		if s.Filter.ID == "" {
			bad("the filter has no id")
		}
	case "account_reference":
		if s.Filter.ID != "" {
			bad("the filter of an account has the id %q", s.Filter.ID)
		}
	default:
		bad("filter %q", s.Filter.Type)
	}
	return errs
}

// subscribe creates a webhook subscription. Only its answer shows the secret.
func (s *Server) subscribe(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Subscription subscription `json:"webhook_subscription"`
	}
	decoder := json.NewDecoder(io.LimitReader(r.Body, maxBody))
	decoder.DisallowUnknownFields()
	var errs []string
	if err := decoder.Decode(&body); err != nil {
		errs = []string{err.Error()}
	} else {
		errs = body.Subscription.check()
	}
	if len(errs) > 0 {
		s.Fail("%s: %v", r.URL.Path, errs)
		answer(w, http.StatusBadRequest, map[string]any{"error": map[string]any{"code": 2001, "message": "Invalid Input Provided",
			"errors": errs}})
		return
	}
	answer(w, http.StatusCreated, map[string]any{"webhook_subscription": map[string]any{"id": "PWEBHOOK",
		"type": "webhook_subscription", "active": body.Subscription.Active, "events": body.Subscription.Events,
		"delivery_method": map[string]any{"type": "http_delivery_method", "url": body.Subscription.DeliveryMethod.URL, "secret": Secret}}})
}
