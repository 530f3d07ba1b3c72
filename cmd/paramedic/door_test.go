package main

import (
	"log/slog"
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
