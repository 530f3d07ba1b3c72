package state

import "testing"

// guard is the runner's answer where a guard stops a run.
var guard = Actor{ID: "paramedic", Via: "paramedic"}

// refusedByGuard is a run that ana approved and that a guard then denied.
func (s *story) refusedByGuard() (*Incident, *Action) {
	s.t.Helper()
	in, a := s.proposed("approve")
	s.apply(s.says(VerbApprove, *a))
	next := a.Clone()
	if err := next.Move(Denied, s.now, "capacity: no other worker would be ready", guard); err != nil {
		s.t.Fatal(err)
	}
	s.apply(Input{Action: &ActionEvent{From: Approved, Action: next}})
	if a.State != Denied || a.DecidedBy != ana {
		s.t.Fatalf("the run is %s, decided by %s", a.State, a.DecidedBy)
	}
	return in, a
}

func TestGuardsDenialIsNoPersonsNo(t *testing.T) {
	s := newStory(t)
	in, a := s.refusedByGuard()
	if a.Declined() {
		t.Error("an approval that a guard overruled counts as a person's no")
	}
	s.apply(Input{Action: &ActionEvent{Action: s.remedy(in, "ACT-2", "approve")}})
	if s.board.actions["ACT-2"] == nil {
		t.Error("the remedy is not offered again")
	}

	for name, verb := range map[string]Verb{"a denial": VerbDeny, "a cancel": VerbCancel} {
		s := newStory(t)
		in, a := s.proposed("approve")
		s.apply(s.says(verb, *a))
		s.apply(Input{Action: &ActionEvent{Action: s.remedy(in, "ACT-2", "approve")}})
		if !a.Declined() || s.board.actions["ACT-2"] != nil {
			t.Errorf("after %s the remedy is offered again", name)
		}
	}

	s = newStory(t) // who approved may still take it back
	_, a = s.proposed("approve")
	s.apply(s.says(VerbApprove, *a))
	s.apply(s.says(VerbCancel, *a))
	if !a.Declined() {
		t.Errorf("a cancel by who approved is none: %s", a.State)
	}
}
