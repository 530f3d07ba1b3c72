package webhook

import (
	"errors"
	"net/http"
	"slices"

	"paramedic/internal/text"
	"paramedic/webhook/alertmanager"
	"paramedic/webhook/httpio"
)

// smallerGroups is the advice for a payload that is too large. It warns of max_alerts, because the
// alerts that Alertmanager then leaves out reach no one.
const smallerGroups = "let Alertmanager group_by more labels, and shorten the annotations of the rules; max_alerts " +
	"would only hide alerts"

// alertmanager handles a webhook. It answers 200 only after the append succeeded.
func (s *Server) alertmanager(w http.ResponseWriter, r *http.Request) error {
	if deny, cause := s.Alertmanager.Allow(r); deny != nil {
		if cause != nil {
			s.Logger.ErrorContext(r.Context(), "Paramedic cannot authenticate alerts", "err", cause)
		}
		var a *httpio.Error
		if errors.As(deny, &a) && a.Code == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer realm="paramedic", Basic realm="paramedic"`)
		}
		return deny
	}
	if !httpio.SentJSON(r) {
		return httpio.Fail(http.StatusUnsupportedMediaType, "send the payload as Content-Type: application/json, "+
			`as Alertmanager does (curl: -H "Content-Type: application/json")`)
	}
	if len(s.Clusters) == 1 { // it takes every alert, so the gate needs no look at the labels
		if err := s.admit(s.Clusters[0]); err != nil {
			return err
		}
	}
	body, release, err := s.readPayload(w, r)
	defer release()
	var big *httpio.Error
	switch {
	case errors.As(err, &big) && big.Code == http.StatusRequestEntityTooLarge:
		big = httpio.Fail(big.Code, "%s: %s", big.Text, smallerGroups)
		s.setAside("", []alertmanager.SetAside{{Reason: alertmanager.ReasonLargePayload, Text: big.Text,
			Alert: "a whole payload", Count: 1}})
		return big
	case err != nil:
		return err
	}
	if receiver, count := alertmanager.CountAlerts(body, s.Limits.Alerts); count > s.Limits.Alerts {
		big = httpio.Fail(http.StatusRequestEntityTooLarge,
			"the payload has %d alerts, and the limit is %d: %s", count, s.Limits.Alerts, smallerGroups)
		s.setAside(receiver, []alertmanager.SetAside{{Reason: alertmanager.ReasonLargePayload, Text: big.Text,
			Alert: "a whole payload", Count: uint64(count)}})
		return big
	}
	p, err := alertmanager.Decode(body, s.Clusters, s.Clock.Now())
	if err != nil {
		return err
	}
	if p.Total > s.Limits.Alerts {
		big = httpio.Fail(http.StatusRequestEntityTooLarge,
			"the payload has %d alerts, and the limit is %d: %s", p.Total, s.Limits.Alerts, smallerGroups)
		s.setAside(p.Receiver, []alertmanager.SetAside{{Reason: alertmanager.ReasonLargePayload, Text: big.Text,
			Alert: "a whole payload", Count: uint64(p.Total)}})
		return big
	}
	count := 0
	var clusters []string
	for i := range p.Inputs {
		count += len(p.Inputs[i].Alerts.Alerts)
		if cluster := p.Inputs[i].Cluster; !slices.Contains(clusters, cluster) {
			clusters = append(clusters, cluster)
		}
	}
	if err := s.admit(clusters...); err != nil {
		return err
	}
	if count > 0 {
		if err := s.commands.Append(r.Context(), p.Inputs...); err != nil {
			return err
		}
	}
	s.setAside(p.Receiver, p.Aside) // after the append: a payload that is sent again is counted once
	if rec, ok := w.(*recorder); ok {
		rec.alerts = count
	}
	return httpio.WriteJSON(w, http.StatusOK, taken(count, p.Aside))
}

// mostProblems bounds how many of the alerts that were set aside an answer explains.
const mostProblems = 5

// taken returns the answer to a payload. The explanations are for people who send a payload by
// hand.
func taken(count int, lost []alertmanager.SetAside) map[string]any {
	answer := map[string]any{"accepted": count}
	var problems []string
	n := 0
	for _, l := range lost {
		if l.Reason == alertmanager.ReasonTruncated {
			continue
		}
		if n++; n <= mostProblems {
			problems = append(problems, l.String())
		}
	}
	if n > 0 {
		answer["set_aside"], answer["problems"] = n, problems
	}
	return answer
}

// setAside counts, shows and logs the alerts of a payload that cannot be taken.
func (s *Server) setAside(receiver string, lost []alertmanager.SetAside) {
	if len(lost) == 0 {
		return
	}
	receiver = text.Line(receiver, 200)
	for _, l := range s.Aside.Add(s.Clock.Now(), receiver, lost) {
		s.Logger.Warn("Paramedic sets an alert aside; it only counts others like it", "reason",
			l.Reason, "receiver", receiver,
			"alert", l.Alert, "err", l.Text)
	}
	if s.ObserveAside != nil {
		for _, l := range lost {
			s.ObserveAside(l.Reason, l.Count)
		}
	}
}
