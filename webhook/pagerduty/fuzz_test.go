package pagerduty_test

import (
	"encoding/json"
	"testing"

	"paramedic/state"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/pagerduty"
)

func FuzzDecodePagerDuty(f *testing.F) {
	f.Add([]byte(hooktest.PagerBody("incident.triggered", hooktest.PagerIncident)))
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := pagerduty.Decode(body, hooktest.Start, func(*state.Foreign) string { return "default" })
		hooktest.Refusal(t, err)
		if in != nil {
			if _, err := json.Marshal(in); err != nil || in.Foreign.ID == "" {
				t.Fatalf("%+v: %v", in.Foreign, err)
			}
		}
	})
}
