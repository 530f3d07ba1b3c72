package fold

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// A person's refusal and the bot's next step may reach the log in either order. These tests cover
// both. After the refusal the bot writes nothing but a rollback. It never reports a write as called
// off that happened.

var ana = state.Actor{ID: "ana"}

// proposed plans a run of a new incident. In mode auto it needs no approval.
func (s *story) proposed(mode string) (*state.Incident, *state.Action) {
	s.t.Helper()
	in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
	a := s.remedy(in, "ACT-1", mode)
	s.apply(state.Input{Action: &state.ActionEvent{Action: a}})
	return in, s.board.actions[a.ID]
}

// remedy returns a plan for the incident's pool.
func (s *story) remedy(in *state.Incident, id state.ActionID, mode string) state.Action {
	a := state.Action{ID: id, Incident: in.ID, Kind: "set_engine_arg", Mode: mode, State: state.Proposed, PlanHash: "of " + string(id),
		ExpiresAt: s.now.Add(time.Hour),
		Change:    "max_num_seqs 256 → 128", Target: state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "llama"}}
	if mode == "approve" {
		a.State = state.AwaitingApproval
	}
	a.Steps = []state.ActionStep{{State: a.State, At: s.now}}
	return a
}

// stepTo returns the runner's or the planner's step, based on the known state of the run.
func (s *story) stepTo(known state.Action, to state.ActionState, text string) state.Input {
	s.t.Helper()
	from := known.State
	known.Steps = slices.Clone(known.Steps)
	if err := known.Move(to, s.now, text, state.Actor{ID: "paramedic"}); err != nil {
		s.t.Fatal(err)
	}
	return state.Input{Action: &state.ActionEvent{From: from, Action: known}}
}

// intended returns a run of mode auto that has recorded its intent.
func (s *story) intended() (*state.Incident, *state.Action) {
	s.t.Helper()
	in, a := s.proposed("auto")
	s.apply(s.stepTo(*a, state.Admitted, ""))
	s.apply(s.stepTo(*a, state.Intent, ""))
	return in, a
}

func (s *story) commandFor(verb state.Verb, a state.Action) state.Input {
	return state.Input{Command: &state.Command{Verb: verb, Action: a.ID, Incident: a.Incident, Actor: ana, PlanHash: a.PlanHash,
		Seen: a.State}}
}

// pendingWrites returns the runs that will write without a further decision.
func (s *story) pendingWrites() (ids []state.ActionID) {
	for id, a := range s.board.actions {
		if a.State.Running() && a.Journal[state.CalledOff] == "" || a.State == state.Proposed && a.Mode == "auto" {
			ids = append(ids, id)
		}
	}
	return ids
}

func TestRefusalHoldsAgainstConcurrentPlan(t *testing.T) {
	const text = "the spec changed under the plan"
	intended := func(s *story) (*state.Incident, *state.Action) { return s.intended() }
	auto := func(s *story) (*state.Incident, *state.Action) { return s.proposed("auto") }
	waiting := func(s *story) (*state.Incident, *state.Action) { return s.proposed("approve") }
	for name, c := range map[string]struct {
		begun func(*story) (*state.Incident, *state.Action)
		verb  state.Verb
		mode  string // of the new plan
	}{
		"a cancel of what was about to be written": {intended, state.VerbCancel, "auto"},
		"a cancel of what nobody was asked about":  {auto, state.VerbCancel, "auto"},
		"a cancel of what waits for approval":      {waiting, state.VerbCancel, "approve"},
		"a denial of what waits for approval":      {waiting, state.VerbDeny, "approve"},
		"a denial, and the next plan asks nobody":  {waiting, state.VerbDeny, "auto"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, first := range []string{"person", "bot"} {
				s := newStory(t)
				in, a := c.begun(s)
				no, superseded := s.commandFor(c.verb, *a), s.stepTo(*a, state.Superseded, text)
				plan := state.Input{Action: &state.ActionEvent{Action: s.remedy(in, "ACT-2", c.mode)}}
				if first == "person" {
					s.apply(no)
				}
				s.apply(superseded)
				s.apply(plan)
				if first == "bot" {
					s.apply(no)
				}
				for id, a := range s.board.actions {
					if !a.State.Done() {
						t.Errorf("the %s is first: %s is %s", first, id, a.State)
					}
				}
				s.apply(state.Input{Action: &state.ActionEvent{Action: s.remedy(in, "ACT-3", c.mode)}}) // a later plan of the same remedy
				if left := s.pendingWrites(); len(left) != 0 || s.board.actions["ACT-3"] != nil {
					t.Errorf("the %s is first: %v go on after the no", first, left)
				}
			}
		})
	}
}

// Another remedy, and the same one for another pool, need decisions of their own.
func TestRefusalIsForOneRemedy(t *testing.T) {
	s := newStory(t)
	in, a := s.proposed("approve")
	s.apply(s.commandFor(state.VerbDeny, *a))
	kind, pool := s.remedy(in, "ACT-2", "approve"), s.remedy(in, "ACT-3", "approve")
	kind.Kind, pool.Target.Name = "restart_worker", "qwen"
	s.apply(state.Input{Action: &state.ActionEvent{Action: kind}})
	s.apply(state.Input{Action: &state.ActionEvent{Action: pool}})
	if s.board.actions["ACT-2"] == nil || s.board.actions["ACT-3"] == nil {
		t.Errorf("%v", in.Actions)
	}
}

// In mode auto a run goes on while a person reads its plan. A denial stops it, too.
func TestDenialStopsAutoRun(t *testing.T) {
	for _, at := range []state.ActionState{state.Proposed, state.Admitted, state.Intent} {
		s := newStory(t)
		_, a := s.proposed("auto")
		no := s.commandFor(state.VerbDeny, *a)
		for _, next := range []state.ActionState{state.Admitted, state.Intent} {
			if a.State != at {
				s.apply(s.stepTo(*a, next, ""))
			}
		}
		s.apply(no)
		if left := s.pendingWrites(); len(left) != 0 {
			t.Errorf("denied when it was %s, it is %s and goes on", at, a.State)
		}
	}
	// The first of two people who decide wins.
	s := newStory(t)
	in, a := s.proposed("approve")
	no := s.commandFor(state.VerbDeny, *a)
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbApprove, Action: a.ID, PlanHash: a.PlanHash,
		Actor: state.Actor{ID: "ben"}}})
	s.apply(no)
	if a.State != state.Approved || !strings.Contains(s.entries[len(s.entries)-1].Text, "denial by ana came too late (state: approved)") {
		t.Errorf("%s: %q", a.State, s.threadTexts(in))
	}
}

func TestLateCallOffIsReportedAsLate(t *testing.T) {
	for _, first := range []string{"person", "bot"} {
		s := newStory(t)
		in, a := s.intended()
		no, wrote := s.commandFor(state.VerbCancel, *a), s.stepTo(*a, state.Applied, "max_num_seqs 256 → 128 was written")
		if first == "person" {
			s.apply(no)
			if last := s.threadTexts(in); !strings.Contains(last[len(last)-1],
				"called off by ana: Paramedic writes nothing more, unless the write is already on its way") {
				t.Errorf("the write is under way, and people are told %q", last[len(last)-1])
			}
		}
		s.apply(wrote)
		if first == "bot" {
			s.apply(no)
		}
		if last := s.threadTexts(in); a.State != state.Applied || !strings.Contains(last[len(last)-1], "called off by ana too late") {
			t.Errorf("the %s is first: it is %s, and people are told %q", first, a.State, last[len(last)-1])
		}
		if !strings.Contains(a.CallOff(), "too late") {
			t.Errorf("the %s is first: the action says %q", first, a.CallOff())
		}
		// It is verified like any other, and rolled back if it does harm.
		s.apply(s.stepTo(*a, state.Verifying, ""))
		s.apply(s.stepTo(*a, state.RollbackIntent, "worse"))
		if a.State != state.RollbackIntent || s.board.effects["run:ACT-1"] == nil {
			t.Errorf("the %s is first: %s, and nobody undoes it", first, a.State)
		}
	}
}

// A cancel of a run that needs a person confirms that it is handled. An earlier call-off confirms
// nothing.
func TestCallOffDoesNotReleaseTheLock(t *testing.T) {
	s := newStory(t)
	in, a := s.intended()
	no := s.commandFor(state.VerbCancel, *a)
	s.apply(s.stepTo(*a, state.NeedsHuman, "the API server cannot be reached"))
	s.apply(no)
	if by := a.Journal[state.Released]; by != "" {
		t.Errorf("the lock was released by %s, who did not know that it needs a person", by)
	}
	if last := s.threadTexts(in); !strings.Contains(last[len(last)-1], "came too late (state: needs a person)") {
		t.Errorf("%q", last[len(last)-1])
	}
	s.apply(s.commandFor(state.VerbCancel, *a))
	if by := a.Journal[state.Released]; by != "ana" {
		t.Errorf("released by %q", by)
	}
}

// A person who resolves an incident wants no further action on it.
func TestResolvingCallsOffIntendedRuns(t *testing.T) {
	s := newStory(t)
	in, a := s.intended()
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
	if in.Open() || a.Journal[state.CalledOff] != "ana" || s.board.effects["run:ACT-1"] == nil {
		t.Errorf("the incident is %s, and its run is %s with %v", in.Status, a.State, a.Journal)
	}
}
