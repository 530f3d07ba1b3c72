// Package pagerduty turns PagerDuty's V3 webhooks into inputs for the log.
package pagerduty

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/PagerDuty/go-pagerduty/webhookv3"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/httpio"
)

// MaxBody bounds a body in bytes. PagerDuty sends at most 55 KB.
const MaxBody = 256 << 10

// pagerEvent holds the fields of a V3 webhook that are used. Data is an incident, or for an
// annotation a note with its incident.
type pagerEvent struct {
	Event struct {
		ID         string `json:"id"`
		EventType  string `json:"event_type"`
		OccurredAt string `json:"occurred_at"`
		Agent      *struct {
			ID      string `json:"id"`
			Summary string `json:"summary"`
		} `json:"agent"`
		Data struct {
			pagerIncident
			Incident *pagerIncident `json:"incident"`
		} `json:"data"`
	} `json:"event"`
}

type pagerIncident struct {
	ID          string `json:"id"`
	Type        string `json:"type"`
	HTMLURL     string `json:"html_url"`
	IncidentKey string `json:"incident_key"`
	Urgency     string `json:"urgency"` // high or low
	Title       string `json:"title"`
	Summary     string `json:"summary"`
	Service     *struct {
		Summary string `json:"summary"`
	} `json:"service"`
	Body          json.RawMessage `json:"body"`
	CustomDetails json.RawMessage `json:"custom_details"`
	CustomFields  json.RawMessage `json:"custom_fields"`
}

var pagerEvents = []string{"triggered", "acknowledged", "unacknowledged", "resolved", "reopened", "annotated"}

// Verify returns an error if PagerDuty has not signed the request with the secret.
func Verify(header http.Header, body []byte, secret string) error {
	signed := &http.Request{Header: http.Header{}, Body: io.NopCloser(bytes.NewReader(body))}
	// The library does not trim spaces between several signatures.
	signatures := strings.ReplaceAll(strings.Join(header.Values("X-PagerDuty-Signature"), ","), " ", "")
	signed.Header.Set("X-PagerDuty-Signature", signatures)
	if err := webhookv3.VerifySignature(signed, secret); err != nil {
		return httpio.Fail(http.StatusUnauthorized, "not from PagerDuty: the signature is missing or does not match")
	}
	return nil
}

// Decode returns the input that a webhook makes, or nil for an event that is not used, such as a
// ping or a priority. clusterOf returns the cluster of an incident.
func Decode(body []byte, now time.Time, clusterOf func(*state.Foreign) string) (*state.Input, error) {
	var p pagerEvent
	err := httpio.DecodeOne(body, &p)
	if err != nil {
		return nil, httpio.Fail(http.StatusBadRequest, "the body is not a PagerDuty V3 webhook: %s", err)
	}
	e := &p.Event
	kind, ok := strings.CutPrefix(e.EventType, "incident.")
	switch {
	case e.EventType == "":
		return nil, httpio.Fail(http.StatusBadRequest,
			"the webhook has no event_type: subscribe with webhook version 3")
	case !ok || !slices.Contains(pagerEvents, kind):
		return nil, nil
	}
	inc := &e.Data.pagerIncident
	if e.Data.Incident != nil {
		inc = e.Data.Incident
	}
	if !httpio.PlainID(inc.ID, 128) || !httpio.PlainID(e.ID, 128) {
		return nil, httpio.Fail(http.StatusBadRequest, "the webhook names no incident")
	}
	f := &state.Foreign{
		Source: "pagerduty", Event: kind, ID: inc.ID, Key: text.Line(inc.IncidentKey, 255),
		Title: text.Line(inc.title(), 1024), URL: webURL(inc.HTMLURL), Labels: inc.labels(),
		Low: inc.Urgency == "low",
	}
	if f.At, err = httpio.ParseTime(e.OccurredAt); err != nil {
		f.At = time.Time{} // an event without a time counts as of now
	}
	if inc.Service != nil {
		f.Service = text.Line(inc.Service.Summary, 255)
	}
	if e.Agent != nil {
		f.Actor = state.Actor{ID: text.Line(e.Agent.ID, 128), Name: text.Line(e.Agent.Summary, 128), Via: "pagerduty"}
	}
	return &state.Input{ID: state.Hash("pagerduty", e.ID), At: now, Cluster: clusterOf(f), Foreign: f}, nil
}

func (i *pagerIncident) title() string {
	if i.Title != "" {
		return i.Title
	}
	return i.Summary
}

// webURL returns u if a page may link to it, and otherwise "".
func webURL(u string) string {
	if len(u) > 2048 || !strings.HasPrefix(u, "https://") || strings.ContainsAny(u, " \"'<>\\") ||
		httpio.HasControl(u, false) {
		return ""
	}
	return u
}

// pagerLabels lists the alert labels that are looked for in an incident's text.
var pagerLabels = []string{
	"alertname", "namespace", "exported_namespace", "pod", "exported_pod", "container", "model_name", "model", "cluster", "node",
	"Hostname", "instance", "job", "service", "severity", "gpu", "deployment",
}

var (
	// labelPair matches key="value", key=value and key: value, as alert templates write them.
	labelPair = regexp.MustCompile(`(?:^|[^\w])(` + strings.Join(pagerLabels, "|") + `)"?\s*[=:]\s*` +
		`(?:"([^"\n]{1,253})"|([^\s",;{}()\[\]]{1,253}))`)
	// firingTitle matches the rule's name in Alertmanager's own title.
	firingTitle = regexp.MustCompile(`^\[FIRING:\d+\]\s+([A-Za-z_][\w:.-]{0,127})`)
)

// labels returns the alert labels in the incident's text. The first mention of a label counts.
func (i *pagerIncident) labels() map[string]string {
	out := map[string]string{}
	title := httpio.Cut(i.title(), 4096)
	var texts []string
	for _, raw := range []json.RawMessage{i.CustomDetails, i.CustomFields, i.Body} { // structured fields before prose
		var v any
		if len(raw) > 0 && json.Unmarshal(raw, &v) == nil {
			texts = pagerTexts(texts, v, 0)
		}
	}
	texts = append(texts, title)
	left := 16 << 10
	for _, part := range texts {
		part = httpio.Cut(part, max(left, 8))
		for _, m := range labelPair.FindAllStringSubmatch(part, 64) {
			if _, ok := out[m[1]]; !ok {
				out[m[1]] = text.Line(m[2]+m[3], 253)
			}
		}
		if left -= len(part); left <= 0 {
			break
		}
	}
	if m := firingTitle.FindStringSubmatch(title); m != nil && out["alertname"] == "" {
		out["alertname"] = m[1]
	}
	if len(out) == 0 {
		return nil
	}
	return out
}

// pagerTexts collects the strings of a JSON value. A label's string becomes key="value".
func pagerTexts(texts []string, v any, depth int) []string {
	if depth > 6 || len(texts) > 256 {
		return texts
	}
	switch v := v.(type) {
	case string:
		return append(texts, v)
	case []any:
		for _, e := range v {
			texts = pagerTexts(texts, e, depth+1)
		}
	case map[string]any:
		keys := make([]string, 0, len(v))
		for k := range v {
			keys = append(keys, k)
		}
		slices.Sort(keys)
		for _, k := range keys {
			if text, ok := v[k].(string); ok && slices.Contains(pagerLabels, k) {
				texts = append(texts, k+`="`+strings.ReplaceAll(text, `"`, "'")+`"`)
				continue
			}
			texts = pagerTexts(texts, v[k], depth+1)
		}
	}
	return texts
}
