package webhook

import (
	"encoding/json"
	"errors"
	"testing"

	"paramedic/webhook/httpio"
)

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

// refusal checks that a decoder's error is a clear 4xx.
func refusal(t *testing.T, err error) {
	var a *httpio.Error
	if err != nil && (!errors.As(err, &a) || a.Code < 400 || a.Code >= 500 || a.Text == "") {
		t.Fatalf("not a clear refusal: %v", err)
	}
}
