package hooktest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// PagerSecret is the secret of the webhook subscription.
const PagerSecret = "lDQHScfUeXUKaQRN"

// SignPager returns the signature of a body.
func SignPager(body string) string {
	mac := hmac.New(sha256.New, []byte(PagerSecret))
	mac.Write([]byte(body))
	return "v1=" + hex.EncodeToString(mac.Sum(nil))
}

// PagerBody returns a V3 webhook of the kind with the data.
func PagerBody(kind, data string) string {
	return fmt.Sprintf(`{"event":{"id":"01EV","event_type":%q,"resource_type":"incident",
		"occurred_at":"2026-11-21T03:00:00Z","agent":{"id":"PUSER","summary":"Ana","type":"user_reference"},"data":%s}}`, kind, data)
}

// PagerIncident is the data of an incident that names its labels in prose and in details.
const PagerIncident = `{"id":"PT4KHLK","type":"incident",
	"html_url":"https://acme.pagerduty.com/incidents/PT4KHLK","number":7,"incident_key":"KEY",
	"title":"[FIRING:2] VLLMHighKV (prod llm)","service":{"summary":"LLM"},
	"body":{"details":"Labels:\n - alertname = VLLMHighKV\n - namespace = llm\n` +
	` - model_name = \"llama-70b\"\nAnnotations:\n - summary = pod: full"},
	"custom_details":{"cluster":"prod","n":3,"nested":{"pod":"vllm-0"}}}`
