package webhook_test

import (
	"strings"
	"testing"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/hooktest"
)

func TestUnknownCauseShowsNoConfidence(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	in := w.Incidents[hooktest.Incident]
	in.DiagnosedAt, in.Diagnosis.Cause, in.Diagnosis.Confidence = hooktest.Start, state.Unknown, 0.9
	in.Diagnosis.Missing = []string{"kv_usage (Prometheus did not answer in time)", "up (Prometheus did not answer in time)"}
	w.Incidents[hooktest.Incident] = in
	s, _ := hooktest.Serve(t, w, nil)
	report := hooktest.Do(s, "GET", "/api/v1/incidents/42/report", "")
	hooktest.Expect(t, report, 200, "`unknown` (no verdict)", "kv usage, up: Prometheus did not answer in time")
	if strings.Contains(report.Body.String(), "90 %") {
		t.Errorf("the report is sure of what it does not know:\n%s", report.Body)
	}
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/42", ""), 200, `"confidence":0.9`, `"missing_evidence":["kv_usage (Prometheus did not answer in time)",`)
	slackServer, _ := hooktest.ServeSlack(t, w, nil)
	body := hooktest.SlashCommand("U1", "show 42", "t1")
	got := hooktest.SendSlack(slackServer, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start)).Body.String()
	if !strings.Contains(got, "(no verdict)") || strings.Contains(got, "90 %") {
		t.Errorf("Slack shows %q", got)
	}
}

// Label names can carry characters that reorder the text around them. None of them reaches a
// report, Slack or the list of alerts that were set aside.
func TestBidiCharactersAreRemovedEverywhere(t *testing.T) {
	const evil = "pod-\u202Eexe.\u2066gpj\u200F\u061C\u00AD\u200D"
	w := hooktest.NewWorld().Populate()
	in := w.Incidents[hooktest.Incident]
	in.Title, in.Scope.Pool, in.Scope.Pods, in.AckedAt, in.AckedBy = evil, evil, []string{evil}, hooktest.Start,
		&state.Actor{ID: "U1", Name: evil, Via: "slack"}
	in.Diagnosis.Findings[0].Text, in.Diagnosis.Findings[0].Pod, in.Diagnosis.Story.What = evil, evil, evil
	in.Diagnosis.Missing = []string{evil}
	w.Incidents[hooktest.Incident] = in
	w.Entries[0].Text, w.Entries[0].Actor = evil, state.Actor{Name: evil}
	a := w.Actions[hooktest.Action]
	a.Change, a.Why, a.Target.Name = evil, evil, evil
	w.Actions[hooktest.Action] = a
	s, _ := hooktest.ServeSlack(t, w, nil)
	shown := map[string]string{"report": hooktest.Do(s, "GET", "/api/v1/incidents/42/report", "").Body.String()}
	for _, command := range []string{"list", "show 42"} {
		body := hooktest.SlashCommand("U1", command, command)
		shown[command] = hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start)).Body.String()
	}
	hooktest.Do(s, "POST", "/webhook/alertmanager", hooktest.Payload(`{"status":"firing","labels":{"alertname":"`+evil+`","`+evil+`":"x"}}`))
	shown["set aside"] = hooktest.Do(s, "GET", "/api/v1/status", "").Body.String()
	for where, got := range shown {
		if i := strings.IndexFunc(got, text.Hidden); i >= 0 {
			t.Errorf("%s: %.60q", where, got[max(0, i-20):])
		}
		if !strings.Contains(got, "pod-exe.gpj") {
			t.Errorf("%s does not name it: %.300s", where, got)
		}
	}
}
