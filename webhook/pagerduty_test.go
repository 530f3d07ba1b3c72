package webhook

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
	"paramedic/webhook/access"
)

const pagerSecret = "lDQHScfUeXUKaQRN"

func pagerSign(body string) string {
	mac := hmac.New(sha256.New, []byte(pagerSecret))
	mac.Write([]byte(body))
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

func pagerBodyOf(kind, data string) string {
	return fmt.Sprintf(`{"event":{"id":"01EV","event_type":%q,"resource_type":"incident","occurred_at":"2026-11-21T03:00:00Z",
		"agent":{"id":"PUSER","summary":"Ana","type":"user_reference"},"data":%s}}`, kind, data)
}

const pagerIncidentData = `{"id":"PT4KHLK","type":"incident","html_url":"https://acme.pagerduty.com/incidents/PT4KHLK","number":7,"incident_key":"KEY",
	"title":"[FIRING:2] VLLMHighKV (prod llm)","service":{"summary":"LLM"},
	"body":{"details":"Labels:\n - alertname = VLLMHighKV\n - namespace = llm\n - model_name = \"llama-70b\"\nAnnotations:\n - summary = pod: full"},
	"custom_details":{"cluster":"prod","n":3,"nested":{"pod":"vllm-0"}}}`

func TestPagerDutyWebhooks(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, func(c *Config) { c.PagerDuty.Secret = access.LiteralSecret(pagerSecret) })
	send := func(body, sig, id string) *httptest.ResponseRecorder {
		return do(s, "POST", "/webhook/pagerduty", body, "X-PagerDuty-Signature", sig, "X-Webhook-Id", id)
	}
	body := pagerBodyOf("incident.triggered", pagerIncidentData)
	for _, sig := range []string{"", "v1=00", "v2=" + pagerSign(body)[3:], pagerSign(body + " ")} {
		expect(t, send(body, sig, "w1"), 401, "signature")
	}
	for _, bad := range []string{"{", "[]", `{"event":{}}`, pagerBodyOf("incident.resolved", `{}`), pagerBodyOf("incident.resolved", `{"id":"a b"}`)} {
		expect(t, send(bad, pagerSign(bad), "w2"), 400)
	}
	huge := strings.Repeat(" ", pagerBody+1)
	expect(t, send(huge, pagerSign(huge), "w3"), 413)
	for _, kind := range []string{"pagey.ping", "incident.priority_updated", "service.updated"} {
		ping := pagerBodyOf(kind, `{"message":"hi","type":"ping"}`)
		expect(t, send(ping, pagerSign(ping), kind), 200, "ignored")
	}
	if w.calls != 0 {
		t.Fatal("something was appended")
	}

	w.err = state.ErrUnavailable
	expect(t, send(body, pagerSign(body), "w4"), 503)
	w.err = nil
	expect(t, send(body, "v1=00, "+pagerSign(body), "w4"), 200, "accepted") // the delivery that failed is taken when it comes again
	expect(t, send(body, pagerSign(body), "w4"), 200, "duplicate")
	if len(w.inputs) != 1 {
		t.Fatalf("%d inputs", len(w.inputs))
	}
	want := state.Input{ID: state.Hash("pagerduty", "01EV"), At: start, Cluster: "prod", Foreign: &state.Foreign{
		Source: "pagerduty", Event: "triggered", ID: "PT4KHLK", Key: "KEY", Title: "[FIRING:2] VLLMHighKV (prod llm)",
		URL: "https://acme.pagerduty.com/incidents/PT4KHLK", Service: "LLM",
		Labels: map[string]string{"alertname": "VLLMHighKV", "namespace": "llm", "model_name": "llama-70b", "cluster": "prod", "pod": "vllm-0"},
		Actor:  state.Actor{ID: "PUSER", Name: "Ana", Via: "pagerduty"},
		At:     start,
	}}
	if diff := cmp.Diff(want, w.inputs[0]); diff != "" {
		t.Error(diff)
	}

	ours := pagerBodyOf("incident.acknowledged", `{"id":"P1","incident_key":"`+string(incident)+`","html_url":"javascript:alert(1)"}`)
	expect(t, send(ours, pagerSign(ours), "w5"), 200)
	note := pagerBodyOf("incident.annotated", `{"id":"PNOTE","type":"incident_note","content":"x","incident":{"id":"P1","incident_key":"k"}}`)
	expect(t, send(note, pagerSign(note), "w6"), 200)
	if a, n := w.inputs[1], w.inputs[2]; a.Cluster != "prod" || a.Foreign.URL != "" || n.Foreign.ID != "P1" || n.Foreign.Event != "annotated" {
		t.Errorf("%+v %+v", a.Foreign, n.Foreign)
	}
	closed, _ := door(t, w, nil)
	expect(t, do(closed, "POST", "/webhook/pagerduty", body), 404, "webhook_secret_file")
}
