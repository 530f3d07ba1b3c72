package pagerdutytest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"time"
)

// Sign returns the header of a V3 webhook that PagerDuty signed with the subscription's secret
// (https://developer.pagerduty.com/docs/verifying-signatures). Each id is one delivery.
func Sign(secret string, body []byte, id string) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write(body)
	h := http.Header{}
	h.Set("X-PagerDuty-Signature", "v1="+hex.EncodeToString(mac.Sum(nil)))
	h.Set("X-Webhook-Id", id)
	h.Set("Content-Type", "application/json")
	return h
}

// An Event describes a change of an incident in PagerDuty.
type Event struct {
	ID       string // of the event
	Type     string // incident.triggered, incident.acknowledged, incident.resolved, …
	At       time.Time
	Incident string // its ID
	Key      string // its incident_key
	Title    string
	Service  string
	UserID   string
	User     string
}

// Webhook returns the body of a V3 webhook.
func Webhook(e Event) []byte {
	type object = map[string]any
	data := object{
		"id": e.Incident, "type": "incident", "self": "https://api.pagerduty.com/incidents/" + e.Incident,
		"html_url": "https://lab.pagerduty.com/incidents/" + e.Incident, "number": 1, "status": "triggered", "incident_key": e.Key,
		"created_at": e.At.UTC().Format(time.RFC3339), "title": e.Title, "urgency": "high",
		"service": object{"id": "PSVC", "type": "service_reference", "summary": e.Service,
			"html_url": "https://lab.pagerduty.com/services/PSVC"},
	}
	event := object{
		"id": e.ID, "event_type": e.Type, "resource_type": "incident", "occurred_at": e.At.UTC().Format(time.RFC3339Nano), "data": data,
	}
	if e.UserID != "" {
		event["agent"] = object{"id": e.UserID, "type": "user_reference", "summary": e.User,
			"html_url": "https://lab.pagerduty.com/users/" + e.UserID}
	}
	b, err := json.Marshal(object{"event": event})
	if err != nil {
		panic(err) // strings and times always encode
	}
	return b
}
