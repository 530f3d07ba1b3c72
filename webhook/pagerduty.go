package webhook

import (
	"net/http"
	"slices"

	"paramedic/internal/incidentlog"
	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/httpio"
	"paramedic/webhook/pagerduty"
)

// PagerDuty holds the settings for PagerDuty's V3 webhooks.
type PagerDuty struct {
	// Secret is the webhook subscription's. If it is nil, the path answers 404.
	Secret *access.Secret
}

// pagerDuty handles a webhook. It answers 2xx only once the event is durable, and 5xx if PagerDuty
// should send it again.
func (s *Server) pagerDuty(w http.ResponseWriter, r *http.Request) error {
	if s.PagerDuty.Secret == nil {
		return httpio.Fail(http.StatusNotFound,
			"PagerDuty's webhooks are not configured: set notify.pagerduty.webhook_secret_file")
	}
	secret, err := s.PagerDuty.Secret.Value()
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "Paramedic cannot authenticate PagerDuty", "err", err)
		return httpio.Fail(http.StatusServiceUnavailable, "Paramedic cannot read PagerDuty's webhook secret now: try again")
	}
	body, err := httpio.ReadBody(w, r, pagerduty.MaxBody, s.Limits.ReadTimeout)
	if err != nil {
		return err
	}
	if err := pagerduty.Verify(r.Header, body, secret); err != nil {
		return err
	}
	delivery := r.Header.Get("X-Webhook-Id")
	now := s.Clock.Now()
	if delivery != "" && s.pager.Has(delivery, now) {
		return httpio.WriteJSON(w, http.StatusOK, map[string]string{"status": "duplicate"})
	}
	// Without the incidents the event would be about none of them. PagerDuty sends it again.
	if s.Ready != nil && s.Ready(r.Context()) != nil {
		return httpio.Fail(http.StatusServiceUnavailable, "the state is not loaded: try again")
	}
	in, err := pagerduty.Decode(body, now, s.clusterOf)
	if err != nil {
		return err
	}
	if in == nil {
		return httpio.WriteJSON(w, http.StatusOK, map[string]string{"status": "ignored"})
	}
	if ours, ok := s.View.Incident(state.IncidentID(in.Foreign.Key)); ok {
		incidentlog.Name(r.Context(), string(ours.ID))
	}
	if err := s.commands.Append(r.Context(), *in); err != nil {
		return err
	}
	if delivery != "" && len(delivery) <= 256 {
		s.pager.Add(now, delivery) // after the append: a delivery that was lost must be accepted when it comes again
	}
	return httpio.WriteJSON(w, http.StatusOK, map[string]string{"status": "accepted"})
}

// clusterOf returns the cluster of an incident in PagerDuty: the cluster of our incident that
// raised it, or of its labels, or the first. The summary of a flood has none.
func (s *Server) clusterOf(f *state.Foreign) string {
	if state.IsFlood(f.Key) {
		return ""
	}
	if ours, ok := s.View.Incident(state.IncidentID(f.Key)); ok {
		return ours.Cluster
	}
	if slices.Contains(s.Clusters, f.Labels["cluster"]) {
		return f.Labels["cluster"]
	}
	return s.Clusters[0]
}
