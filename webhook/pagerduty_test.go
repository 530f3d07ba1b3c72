package webhook_test

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/access"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/pagerduty"
)

func TestPagerDutyWebhooks(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	var loading error
	s, _ := hooktest.Serve(t, w, func(c *webhook.Config) {
		c.PagerDuty.Secret = access.LiteralSecret(hooktest.PagerSecret)
		c.Ready = func(context.Context) error { return loading }
	})
	send := func(body, sig, id string) *httptest.ResponseRecorder {
		return hooktest.Do(s, "POST", "/webhook/pagerduty", body, "X-PagerDuty-Signature", sig, "X-Webhook-Id", id)
	}
	body := hooktest.PagerBody("incident.triggered", hooktest.PagerIncident)
	for _, sig := range []string{"", "v1=00", "v2=" + hooktest.SignPager(body)[3:], hooktest.SignPager(body + " ")} {
		hooktest.Expect(t, send(body, sig, "w1"), 401, "signature")
	}
	for _, bad := range []string{"{", "[]", `{"event":{}}`, hooktest.PagerBody("incident.resolved", `{}`), hooktest.PagerBody("incident.resolved", `{"id":"a b"}`)} {
		hooktest.Expect(t, send(bad, hooktest.SignPager(bad), "w2"), 400)
	}
	huge := strings.Repeat(" ", pagerduty.MaxBody+1)
	hooktest.Expect(t, send(huge, hooktest.SignPager(huge), "w3"), 413)
	for _, kind := range []string{"pagey.ping", "incident.priority_updated", "service.updated"} {
		ping := hooktest.PagerBody(kind, `{"message":"hi","type":"ping"}`)
		hooktest.Expect(t, send(ping, hooktest.SignPager(ping), kind), 200, "ignored")
	}
	if w.Calls != 0 {
		t.Fatal("something was appended")
	}

	loading = errors.New("partition 3 is not loaded")
	hooktest.Expect(t, send(body, hooktest.SignPager(body), "w4"), 503, "not loaded")
	loading = nil
	w.Err = state.ErrUnavailable
	hooktest.Expect(t, send(body, hooktest.SignPager(body), "w4"), 503)
	w.Err = nil
	// a delivery that failed is accepted when it comes again
	hooktest.Expect(t, send(body, "v1=00, "+hooktest.SignPager(body), "w4"), 200, "accepted")
	hooktest.Expect(t, send(body, hooktest.SignPager(body), "w4"), 200, "duplicate")
	if len(w.Inputs) != 1 {
		t.Fatalf("%d inputs", len(w.Inputs))
	}
	want := state.Input{ID: state.Hash("pagerduty", "01EV"), At: hooktest.Start, Cluster: "prod", Foreign: &state.Foreign{
		Source: "pagerduty", Event: "triggered", ID: "PT4KHLK", Key: "KEY", Title: "[FIRING:2] VLLMHighKV (prod llm)",
		URL: "https://acme.pagerduty.com/incidents/PT4KHLK", Service: "LLM",
		Labels: map[string]string{"alertname": "VLLMHighKV", "namespace": "llm", "model_name": "llama-70b", "cluster": "prod",
			"pod": "vllm-0"},
		Actor: state.Actor{ID: "PUSER", Name: "Ana", Via: "pagerduty"},
		At:    hooktest.Start,
	}}
	if diff := cmp.Diff(want, w.Inputs[0]); diff != "" {
		t.Error(diff)
	}

	ours := hooktest.PagerBody("incident.acknowledged", `{"id":"P1","incident_key":"`+string(hooktest.Incident)+`","html_url":"javascript:alert(1)"}`)
	hooktest.Expect(t, send(ours, hooktest.SignPager(ours), "w5"), 200)
	note := hooktest.PagerBody("incident.annotated", `{"id":"PNOTE","type":"incident_note","content":"x","incident":{"id":"P1","incident_key":"k"}}`)
	hooktest.Expect(t, send(note, hooktest.SignPager(note), "w6"), 200)
	if a, n := w.Inputs[1], w.Inputs[2]; a.Cluster != "prod" || a.Foreign.URL != "" || n.Foreign.ID != "P1" ||
		n.Foreign.Event != "annotated" {
		t.Errorf("%+v %+v", a.Foreign, n.Foreign)
	}
	closed, _ := hooktest.Serve(t, w, nil)
	hooktest.Expect(t, hooktest.Do(closed, "POST", "/webhook/pagerduty", body), 404, "webhook_secret_file")
}
