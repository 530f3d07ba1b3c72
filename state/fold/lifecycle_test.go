package fold

import (
	"fmt"
	"testing"
	"time"

	"paramedic/state"
)

// guard is the actor of a guard that stops a run.
var guard = state.Actor{ID: "paramedic", Via: "paramedic"}

// refusedByGuard returns a run that ana approved and that a guard then denied.
func (s *story) refusedByGuard() (*state.Incident, *state.Action) {
	s.t.Helper()
	in, a := s.proposed("approve")
	s.apply(s.commandFor(state.VerbApprove, *a))
	next := a.Clone()
	if err := next.Move(state.Denied, s.now, "capacity: no other worker would be ready", guard); err != nil {
		s.t.Fatal(err)
	}
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Approved, Action: next}})
	if a.State != state.Denied || a.DecidedBy != ana {
		s.t.Fatalf("the run is %s, decided by %s", a.State, a.DecidedBy)
	}
	return in, a
}

func TestGuardDenialIsNotARefusal(t *testing.T) {
	s := newStory(t)
	in, a := s.refusedByGuard()
	if a.Declined() {
		t.Error("an approval that a guard overruled counts as a person's no")
	}
	s.apply(state.Input{Action: &state.ActionEvent{Action: s.remedy(in, "ACT-2", "approve")}})
	if s.board.actions["ACT-2"] == nil {
		t.Error("the remedy is not offered again")
	}

	for name, verb := range map[string]state.Verb{"a denial": state.VerbDeny, "a cancel": state.VerbCancel} {
		s := newStory(t)
		in, a := s.proposed("approve")
		s.apply(s.commandFor(verb, *a))
		s.apply(state.Input{Action: &state.ActionEvent{Action: s.remedy(in, "ACT-2", "approve")}})
		if !a.Declined() || s.board.actions["ACT-2"] != nil {
			t.Errorf("after %s the remedy is offered again", name)
		}
	}

	s = newStory(t) // the approver may still withdraw
	_, a = s.proposed("approve")
	s.apply(s.commandFor(state.VerbApprove, *a))
	s.apply(s.commandFor(state.VerbCancel, *a))
	if !a.Declined() {
		t.Errorf("a cancel by who approved is none: %s", a.State)
	}
}

// plan returns the plan effect of the only incident, or nil.
func (s *story) plan() *state.Effect {
	s.t.Helper()
	return s.board.effects[state.EffectID("plan:"+string(s.onlyIncident().ID))]
}

func TestUnwrittenRunIsPlannedAgain(t *testing.T) {
	s := newStory(t)
	in, a := s.proposed("approve")
	s.deliver(state.EffectPlan)
	s.wait(a.ExpiresAt.Sub(s.now))
	if e := s.plan(); a.State != state.Expired || e == nil || e.Due.After(s.now) {
		t.Fatalf("the run is %s, and the next plan %+v", a.State, e)
	}
	for i, pause := range []time.Duration{5, 10, 20, 40, 60} { // no one answers
		s.deliver(state.EffectPlan)
		a := s.remedy(in, state.ActionID(fmt.Sprint("ACT-", i+2)), "approve")
		s.apply(state.Input{Action: &state.ActionEvent{Action: a}})
		s.wait(time.Hour)
		e := s.plan()
		if e == nil || !e.Due.Equal(s.now.Add(pause*time.Minute)) {
			t.Fatalf("after %d ends the next plan is %+v, want %d minutes later", i+2, e, pause)
		}
		s.wait(pause * time.Minute)
	}

	s = newStory(t)
	s.refusedByGuard()
	if e := s.plan(); e == nil {
		t.Error("what a guard denied after an approval is not planned again")
	}
	s.wait(5 * time.Minute)
	s.deliver(state.EffectPlan)
	if s.deliver(state.EffectPlan); s.plan() != nil {
		t.Error("it is planned on and on")
	}
}

// The planner may work on a state from before a run ended.
func TestRunThatEndsDuringAPlanIsPlannedAgain(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("approve")
	at := *s.plan()
	s.wait(a.ExpiresAt.Sub(s.now))
	s.apply(state.Input{Outcome: &state.Outcome{Effect: at.ID, Turn: at.Turn, Done: true}})
	if s.plan() == nil {
		t.Error("the expired run is not planned again")
	}
}

func TestFinalEndIsNotPlannedAgain(t *testing.T) {
	for name, end := range map[string]func(*story, *state.Incident, *state.Action){
		"a denial": func(s *story, _ *state.Incident, a *state.Action) { s.apply(s.commandFor(state.VerbDeny, *a)) },
		"a cancel": func(s *story, _ *state.Incident, a *state.Action) { s.apply(s.commandFor(state.VerbCancel, *a)) },
		"resolved": func(s *story, in *state.Incident, _ *state.Action) { s.resolveBy(in) },
		"succeeded": func(s *story, _ *state.Incident, a *state.Action) {
			s.runTo(a, state.Approved, state.Admitted, state.Intent, state.Applied, state.Verifying, state.Succeeded)
		},
	} {
		s := newStory(t)
		in, a := s.proposed("approve")
		s.deliver(state.EffectPlan)
		end(s, in, a)
		s.wait(2 * time.Hour)
		if e := s.plan(); e != nil {
			t.Errorf("%s: planned again at %s", name, e.Due)
		}
	}
}

func (s *story) resolveBy(in *state.Incident) {
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
}

// runTo moves the run through states.
func (s *story) runTo(a *state.Action, states ...state.ActionState) {
	s.t.Helper()
	for _, to := range states {
		if to == state.Approved {
			s.apply(s.commandFor(state.VerbApprove, *a))
			continue
		}
		s.apply(s.stepTo(*a, to, ""))
	}
}

// A run that was approved in time may be held for long. The runner decides when it is too late.
func TestHeldApprovalDoesNotExpireByItself(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("approve")
	s.apply(s.commandFor(state.VerbApprove, *a))
	s.wait(9 * time.Hour)
	if a.State != state.Approved || len(s.effects(state.EffectRun)) != 1 {
		t.Errorf("the run is %s: %s", a.State, a.Reason)
	}
}

func TestNewDiagnosisPlansAgain(t *testing.T) {
	ask := func(s *story, in *state.Incident) {
		s.apply(state.Input{Command: &state.Command{Verb: state.VerbDiagnose, Incident: in.ID, Actor: ana}})
	}
	s := newStory(t)
	in, _ := s.proposed("approve")
	s.deliver(state.EffectPlan)
	ask(s, in)
	if e := s.plan(); e == nil || !e.Due.Equal(s.now.Add(15*time.Second)) {
		t.Fatalf("the plan does not wait a moment for the evidence: %+v", e)
	}

	s = newStory(t) // a plan that is scheduled for later is made at once
	in, _ = s.refusedByGuard()
	later := *s.plan()
	s.apply(state.Input{Outcome: &state.Outcome{Effect: later.ID, Turn: later.Turn, RetryAt: s.now.Add(time.Hour)}})
	ask(s, in)
	if e := s.plan(); e == nil || !e.Due.Equal(s.now.Add(15*time.Second)) {
		t.Errorf("the plan waits: %+v", e)
	}

	s = newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	ask(s, s.onlyIncident())
	if s.plan() != nil {
		t.Error("first aid is planned before there is a verdict")
	}
}

func TestHoldIsAnnouncedOnce(t *testing.T) {
	s := newStory(t)
	in, a := s.proposed("approve")
	s.apply(s.commandFor(state.VerbApprove, *a))
	rev, lines := in.Rev, len(s.threadTexts(in))
	for range 3 { // the runner repeats its look
		next := a.Clone()
		next.Journal = map[string]string{state.HeldUntil: "2026-11-21T07:00:00Z", state.HeldBy: "freeze_window: night"}
		s.apply(state.Input{Action: &state.ActionEvent{From: state.Approved, Action: next}})
	}
	got := s.threadTexts(in)[lines:]
	if len(got) != 1 || got[0] != "max_num_seqs 256 → 128: a guard holds it until 2026-11-21 07:00 UTC: freeze_window: night" || in.Rev != rev+1 {
		t.Errorf("told %q in %d revisions", got, in.Rev-rev)
	}
}

func TestReopenedIncidentIsPlannedAgain(t *testing.T) {
	s := newStory(t)
	in, a := s.proposed("approve")
	s.deliver(state.EffectPlan)
	s.pageEvent(in, "resolved", ana, 0)
	if a.State != state.Cancelled || in.Open() {
		t.Fatalf("the run is %s, the incident %s", a.State, in.Status)
	}
	s.wait(time.Minute)
	s.pageEvent(in, "reopened", ana, 0)
	if e := s.plan(); !in.Open() || e == nil {
		t.Errorf("the incident is %s, and its next plan %+v", in.Status, e)
	}
}

// No person had decided on it, and the plan itself was not denied.
func TestAutoRunDeniedDuringAPlanIsPlanned(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	at := *s.plan()
	s.wait(time.Second)
	s.apply(s.stepTo(*a, state.Denied, "capacity: no other worker would be ready"))
	s.apply(state.Input{Outcome: &state.Outcome{Effect: at.ID, Turn: at.Turn, Done: true}})
	if s.plan() == nil {
		t.Error("the denied run is not planned again")
	}
}

func TestRefusalOutlivesMerge(t *testing.T) {
	for name, verb := range map[string]state.Verb{"a denial": state.VerbDeny, "a cancel": state.VerbCancel} {
		s := newStory(t)
		in, a := s.proposed("auto")
		s.apply(s.commandFor(verb, *a))
		root := &state.Incident{ID: "INC-ROOT", Number: 9, Cluster: "prod", Status: state.StatusOpen, OpenedAt: s.now}
		s.board.incidents[root.ID] = root
		x := &step{Fold: s.fold, Board: s.board, now: s.now, in: state.Input{Cluster: "prod"}}
		x.merge(root, in)
		s.apply(state.Input{Action: &state.ActionEvent{Action: s.remedy(root, "ACT-2", "auto")}})
		if s.board.actions["ACT-2"] != nil {
			t.Errorf("after %s of the same trouble's first incident the remedy is offered again", name)
		}
	}
}

// An answer of Alertmanager may name a lost alert twice.
func TestVanishedAlertNamedTwiceEndsOnce(t *testing.T) {
	s := newStory(t)
	a := s.newAlert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	b := s.newAlert(state.Firing, "SlowTTFT", "ttft_high", "critical", "llama")
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a, b}}})
	s.now = s.now.Add(time.Hour)
	s.apply(state.Input{Vanished: &state.Vanished{At: s.now, Fingerprints: []state.Fingerprint{a.Fingerprint, "other", a.Fingerprint}}})
	if in := s.onlyIncident(); in.ActiveAlerts != 1 || in.Status != state.StatusOpen {
		t.Errorf("%d alerts are active, %s; want one, open", in.ActiveAlerts, in.Status)
	}
}
