package state

import (
	"encoding/json"
	"testing"
	"time"
)

func TestLinkLeavesOutUnknownFields(t *testing.T) {
	base := 5.0
	at := time.Date(2026, 11, 21, 3, 12, 0, 0, time.UTC)
	for want, l := range map[string]Link{
		`{"role":"cause","signal":"arrival_rate","value":12,"baseline":5,"unit":"1/s","at":"2026-11-21T03:12:00Z","text":"t"}`: {
			Role: LinkCause, Signal: "arrival_rate", Value: 12, Baseline: &base, Unit: "1/s", At: at, Text: "t"},
		`{"role":"symptom","signal":"pod_ready","pod":"a","node":"n","gpu":"0","value":0,"text":""}`: {
			Role: LinkSymptom, Signal: "pod_ready", Pod: "a", Node: "n", GPU: "0"},
	} {
		if got, err := json.Marshal(l); err != nil || string(got) != want {
			t.Errorf("%v\n got %s\nwant %s", err, got, want)
		}
	}
}
