package webhook

import (
	"strings"
	"testing"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/webhooktest"
)

func TestUnknownIsNoVerdictAndNeverSure(t *testing.T) {
	w := newWorld().populate()
	in := w.incidents[incident]
	in.DiagnosedAt, in.Diagnosis.Cause, in.Diagnosis.Confidence = start, state.Unknown, 0.9
	in.Diagnosis.Missing = []string{"kv_usage (Prometheus did not answer in time)", "up (Prometheus did not answer in time)"}
	w.incidents[incident] = in
	s, _ := door(t, w, nil)
	report := do(s, "GET", "/api/v1/incidents/42/report", "")
	expect(t, report, 200, "`unknown` (no verdict)", "kv\\_usage, up: Prometheus did not answer in time")
	if strings.Contains(report.Body.String(), "90 %") {
		t.Errorf("the report is sure of what it does not know:\n%s", report.Body)
	}
	expect(t, do(s, "GET", "/api/v1/incidents/42", ""), 200, `"confidence":0.9`, `"missing_evidence":["kv_usage (Prometheus did not answer in time)",`)
	slackServer, _ := slackDoor(t, w, nil)
	body := slash("U1", "show 42", "t1")
	got := slackSend(slackServer, "/webhook/slack/command", body, slackHeaders(body, start)).Body.String()
	if !strings.Contains(got, "(no verdict)") || strings.Contains(got, "90 %") {
		t.Errorf("Slack shows %q", got)
	}
}

// Names of labels can carry characters that reorder what stands around them. None of them reaches a
// report, Slack or the list of alerts that were set aside.
func TestNoReportOrAnswerReordersText(t *testing.T) {
	const evil = "pod-\u202Eexe.\u2066gpj\u200F\u061C\u00AD\u200D"
	w := newWorld().populate()
	in := w.incidents[incident]
	in.Title, in.Scope.Pool, in.Scope.Pods, in.AckedAt, in.AckedBy = evil, evil, []string{evil}, start, state.Actor{ID: "U1", Name: evil, Via: "slack"}
	in.Diagnosis.Findings[0].Text, in.Diagnosis.Findings[0].Pod, in.Diagnosis.Story.What = evil, evil, evil
	in.Diagnosis.Missing = []string{evil}
	w.incidents[incident] = in
	w.entries[0].Text, w.entries[0].Actor = evil, state.Actor{Name: evil}
	a := w.actions[action]
	a.Change, a.Why, a.Target.Name = evil, evil, evil
	w.actions[action] = a
	s, _ := slackDoor(t, w, nil)
	shown := map[string]string{"report": do(s, "GET", "/api/v1/incidents/42/report", "").Body.String()}
	for _, command := range []string{"list", "show 42"} {
		body := slash("U1", command, command)
		shown[command] = slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start)).Body.String()
	}
	do(s, "POST", "/webhook/alertmanager", webhooktest.Payload(`{"status":"firing","labels":{"alertname":"`+evil+`","`+evil+`":"x"}}`))
	shown["set aside"] = do(s, "GET", "/api/v1/status", "").Body.String()
	for where, got := range shown {
		if i := strings.IndexFunc(got, text.Hidden); i >= 0 {
			t.Errorf("%s: %.60q", where, got[max(0, i-20):])
		}
		if !strings.Contains(got, "pod-exe.gpj") {
			t.Errorf("%s does not name it: %.300s", where, got)
		}
	}
}
