package webhook

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"paramedic/state"
)

// refusal checks that a decoder's error is a clear 4xx.
func refusal(t *testing.T, err error) {
	var a *answer
	if err != nil && (!errors.As(err, &a) || a.code < 400 || a.code >= 500 || a.text == "") {
		t.Fatalf("not a clear refusal: %v", err)
	}
}

func FuzzDecodeAlertmanager(f *testing.F) {
	f.Add([]byte(payloadOf(alertsOf("prod", 3)...)))
	f.Add([]byte(`{"version":"4","truncatedAlerts":3,"alerts":[{"status":"firing","labels":{"a":1},"startsAt":"2026-11-21T02:59:00Z"},null,{"status":"firing","labels":{"a\u0007":"\u202e"}}]}`))
	f.Add([]byte(`{"version":"4","alerts":[{"status":"resolved","labels":{"a":"b"},"startsAt":"9999-12-31T23:59:59-23:59"}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		p, err := DecodeAlertmanager(body, []string{"default", "prod"}, start)
		refusal(t, err)
		for _, a := range p.Aside {
			if a.Reason == "" || a.Text == "" || a.Count == 0 || len(a.Alert) > 1000 || hasControl(a.Alert+a.Text, false) {
				t.Fatalf("set aside %+v", a)
			}
		}
		for _, in := range p.Inputs {
			if n := len(in.Alerts.Alerts); n == 0 || n > state.MaxBatch || in.ID == "" {
				t.Fatalf("a part of %d alerts", n)
			}
			for _, a := range in.Alerts.Alerts {
				if a.Fingerprint == "" || a.StartsAt.IsZero() || len(a.Labels) == 0 {
					t.Fatalf("incomplete alert %+v", a)
				}
			}
			if _, err := json.Marshal(in); err != nil {
				t.Fatalf("it cannot be kept: %v", err)
			}
		}
	})
}

func FuzzDecodePagerDuty(f *testing.F) {
	f.Add([]byte(pagerBodyOf("incident.triggered", pagerIncidentData)))
	s := New(Config{Log: newWorld(), View: newWorld()})
	f.Fuzz(func(t *testing.T, body []byte) {
		in, err := s.decodePager(body, start)
		refusal(t, err)
		if in != nil {
			if _, err := json.Marshal(in); err != nil || in.Foreign.ID == "" {
				t.Fatalf("%+v: %v", in.Foreign, err)
			}
		}
	})
}

func FuzzDecodeSlackClick(f *testing.F) {
	f.Add(`{"type":"block_actions","user":{"id":"U1"},"actions":[{"action_id":"paramedic.ack","value":"INC-1"}]}`)
	f.Add(`{"type":"view_submission"}`)
	f.Fuzz(func(t *testing.T, payload string) {
		c, err := decodeSlackClick(payload)
		refusal(t, err)
		if c != nil && (len(c.Actions) != 1 || c.User.ID == "") {
			t.Fatalf("%+v", c)
		}
	})
}

func BenchmarkDecodeAlertmanager(b *testing.B) {
	for _, n := range []int{1, 50, 500} {
		body := []byte(payloadOf(alertsOf("prod", n)...))
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := DecodeAlertmanager(body, []string{"default", "prod"}, start); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(n)*float64(b.N)/b.Elapsed().Seconds(), "alerts/s")
		})
	}
}
