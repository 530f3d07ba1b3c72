package main

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"

	"paramedic/state"
)

// What a cause names is what every channel and page shows of it.
func TestTheNamedPlaybookIsShownEverywhere(t *testing.T) {
	s, err := newService(DefaultConfig(), Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	in := &state.Incident{Diagnosis: state.Diagnosis{Cause: "my_cause", Playbook: "kv_exhaustion"}}
	if got := s.playbookFor(in, &state.Evidence{}).ID; got != "kv_exhaustion" {
		t.Errorf("messages show %q", got)
	}
	if got, _ := s.webPlaybook(in.Diagnosis.Playbook, in, nil); got.ID != "kv_exhaustion" {
		t.Errorf("the page shows %q", got.ID)
	}
	in.Diagnosis.Playbook = "" // as the page of an incident without a cause asks
	if got, _ := s.webPlaybook(in.Diagnosis.Playbook, in, nil); got.ID != "unknown" {
		t.Errorf("the page shows %q", got.ID)
	}
}

// A site that points its name at this machine reads nothing of a bot that is open on loopback, its pages and metrics included.
func TestOtherNamesReadNothingOfAnOpenBot(t *testing.T) {
	cfg := DefaultConfig()
	cfg.PublicURL = "https://oncall.example"
	s, err := newService(cfg, Deps{Store: idleStore{}, Clock: state.SystemClock{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{"rebound.example:8080": http.StatusForbidden, "127.0.0.1:8080": http.StatusOK, "oncall.example": http.StatusOK} {
		for _, path := range []string{"/", "/incidents", "/fleet", "/actions", "/playbooks", "/metrics", "/api/v1/incidents"} {
			w := httptest.NewRecorder()
			s.handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://"+host+path, nil))
			if w.Code != want {
				t.Errorf("%s asked for %s was answered with %d, want %d", host, path, w.Code, want)
			}
		}
	}
}
