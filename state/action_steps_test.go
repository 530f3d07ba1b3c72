package state

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestStatesAllowWhatTheySay(t *testing.T) {
	for st, want := range map[ActionState]struct {
		before, running, done bool
		need                  int
	}{
		Proposed: {before: true, need: 1}, AwaitingApproval: {before: true, need: 3}, Approved: {before: true, running: true, need: 2},
		Admitted: {before: true, running: true, need: 2}, Intent: {running: true, need: 2}, Applied: {running: true, need: 2},
		Verifying: {running: true, need: 2}, RollbackIntent: {running: true, need: 2}, NeedsHuman: {done: true, need: 3},
		Succeeded: {done: true}, RolledBack: {done: true}, Denied: {done: true}, Expired: {done: true}, Cancelled: {done: true}, Superseded: {done: true},
		"of a newer version": {need: 3},
	} {
		a := Action{State: st}
		if st.BeforeEffect() != want.before || st.Running() != want.running || st.Done() != want.done || a.Need() != want.need {
			t.Errorf("%s: nothing written %t, running %t, done %t, need %d", st, st.BeforeEffect(), st.Running(), st.Done(), a.Need())
		}
		if known := st != "of a newer version"; st.Known() != known || a.NeedsPerson() != (st == NeedsHuman || !known) {
			t.Errorf("%s: known %t, needs a person %t", st, st.Known(), a.NeedsPerson())
		}
		if a.Journal = map[string]string{Released: "ana"}; a.NeedsPerson() || st == "of a newer version" && a.Need() != 0 {
			t.Errorf("%s: a person took care of it, and it needs one", st)
		}
	}
}

func TestIllegalMoveChangesNothing(t *testing.T) {
	a := Action{ID: "ACT-1", State: Approved}
	if err := a.Move(Applied, time.Time{}, "x", ana); err == nil || a.State != Approved || len(a.Steps) != 0 || a.Reason != "" {
		t.Errorf("%+v %v", a, err)
	}
	if err := a.Move(Admitted, time.Time{}, "all guards allow", ana); err != nil || a.State != Admitted || a.Reason != "" {
		t.Errorf("a step that is no end gives the reason %q (%v)", a.Reason, err)
	}
	if err := a.Move(Denied, time.Time{}, "frozen", ana); err != nil || a.Reason != "frozen" || len(a.Steps) != 2 {
		t.Errorf("an end gives the reason %q (%v)", a.Reason, err)
	}
}

func TestBegunRunsAreAdmittedOrIntended(t *testing.T) {
	steps := func(all ...ActionState) (a Action) {
		for _, st := range all {
			a.State = st
			a.Steps = append(a.Steps, ActionStep{State: st})
		}
		return a
	}
	for _, c := range []struct {
		a    Action
		want bool
	}{
		{steps(Proposed), false}, {steps(AwaitingApproval, Approved), false}, {steps(Proposed, Admitted), true}, {steps(Proposed, Admitted, Denied), false},
		{steps(Proposed, Admitted, Intent), true}, {steps(Proposed, Admitted, Intent, Superseded), true},
		{steps(Proposed, "of a newer version"), true},
	} {
		if got := c.a.Begun(); got != c.want {
			t.Errorf("%+v: %t", c.a.Steps, got)
		}
	}
}

func TestRemediesAreOneByKindAndObject(t *testing.T) {
	a := Action{Kind: "restart_worker", Target: Target{Namespace: "llm", Name: "vllm-0"}}
	for name, change := range map[string]func(*Action){
		"kind": func(a *Action) { a.Kind = "set_engine_arg" }, "namespace": func(a *Action) { a.Target.Namespace = "chat" }, "name": func(a *Action) { a.Target.Name = "vllm-1" },
	} {
		b := a
		if change(&b); a.SameRemedy(&b) {
			t.Errorf("another %s is the same remedy", name)
		}
	}
	if b := a; !a.SameRemedy(&b) {
		t.Error("the same is another remedy")
	}
}

// A guard's denial is none of a person, and neither is a run that a person decided on and that went
// on.
func TestDeclinedIsWhatAPersonRefused(t *testing.T) {
	by := func(st ActionState, who Actor) []ActionStep {
		return []ActionStep{{State: Proposed}, {State: st, Actor: who}}
	}
	for name, c := range map[string]struct {
		a    Action
		want bool
	}{
		"denied by a guard":     {Action{State: Denied}, false},
		"cancelled by the bot":  {Action{State: Cancelled}, false},
		"cancelled by a person": {Action{State: Cancelled, DecidedBy: ana, Steps: by(Cancelled, ana)}, true},
		"denied by a person":    {Action{State: Denied, DecidedBy: ana, Steps: by(Denied, ana)}, true},
		"approved, then denied": {Action{State: Denied, DecidedBy: ana, Steps: by(Denied, Actor{ID: "paramedic"})}, false},
		"approved and done":     {Action{State: Succeeded, DecidedBy: ana, Steps: by(Succeeded, ana)}, false},
		"decided by nobody":     {Action{State: Denied, Steps: by(Denied, Actor{})}, false},
		"of no known steps":     {Action{State: Denied, DecidedBy: ana}, false},
		"called off":            {Action{State: NeedsHuman, Journal: map[string]string{CalledOff: "ana"}}, true},
	} {
		if got := c.a.Declined(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestRanOutIsWhatNobodyDeclined(t *testing.T) {
	no := []ActionStep{{State: Denied, Actor: ana}}
	for name, c := range map[string]struct {
		a    Action
		want bool
	}{
		"expired": {Action{State: Expired}, true}, "denied by a guard": {Action{State: Denied}, true}, "denied by a person": {Action{State: Denied, DecidedBy: ana, Steps: no}, false},
		"cancelled": {Action{State: Cancelled}, false}, "done": {Action{State: Succeeded}, false},
	} {
		if got := c.a.RanOut(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCallOffSaysOnlyWhatIsKnown(t *testing.T) {
	by := map[string]string{CalledOff: "ana"}
	for name, c := range map[string]struct {
		a    Action
		want string
	}{
		"nobody called it off":     {Action{State: Intent}, ""},
		"about to be written":      {Action{State: Intent, Journal: by}, "nothing is written any more, unless it was on its way"},
		"written":                  {Action{State: Verifying, Journal: by, Steps: []ActionStep{{State: Intent}, {State: Applied}}}, "too late"},
		"ended without a write":    {Action{State: Superseded, Journal: by, Steps: []ActionStep{{State: Intent}, {State: Superseded}}}, ""},
		"denied, never called off": {Action{State: Denied, Steps: []ActionStep{{State: Intent}, {State: Applied}}}, ""},
	} {
		if got := c.a.CallOff(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTargetReadsAsPeopleWriteIt(t *testing.T) {
	if a, b := (Target{Kind: "Pod", Namespace: "llm", Name: "x"}).String(), (Target{Kind: "Node", Name: "n1"}).String(); a != "Pod llm/x" || b != "Node n1" {
		t.Errorf("%q %q", a, b)
	}
}

func TestUnfitProposalIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*ActionEvent)
		resolved bool
		dropped  bool
	}{
		"of an open incident":      {change: func(*ActionEvent) {}},
		"that waits for approval":  {change: func(ev *ActionEvent) { ev.Action.State = AwaitingApproval }},
		"that is a later step":     {change: func(ev *ActionEvent) { ev.From = Proposed }, dropped: true},
		"that is approved already": {change: func(ev *ActionEvent) { ev.Action.State = Approved }, dropped: true},
		"of a resolved incident":   {change: func(*ActionEvent) {}, resolved: true, dropped: true},
		"of an unknown incident":   {change: func(ev *ActionEvent) { ev.Action.Incident = "INC-unknown" }, dropped: true},
	} {
		s := newStory(t)
		in := s.told("KVFull", "kv_pressure", "llama", "kv_exhaustion")
		if c.resolved {
			s.apply(Input{Command: &Command{Verb: VerbResolve, Incident: in.ID, Actor: ana}})
		}
		ev := ActionEvent{Action: s.remedy(in, "ACT-1", "auto")}
		c.change(&ev)
		s.apply(Input{Action: &ev})
		if dropped := s.board.actions["ACT-1"] == nil; dropped != c.dropped {
			t.Errorf("a proposal %s is dropped: %t", name, dropped)
		}
	}
}

// Admission and intent are the bot's own steps: they are on record, and people are not told of
// them.
func TestOwnStepsAreQuiet(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	for _, c := range []struct {
		to    ActionState
		quiet bool
	}{{Admitted, true}, {Intent, true}, {Applied, false}} {
		s.apply(s.take(*a, c.to, "because"))
		last := s.entries[len(s.entries)-1]
		if last.Quiet != c.quiet || last.Text != "max_num_seqs 256 → 128: "+string(c.to)+": because" {
			t.Errorf("%s: quiet %t, %q", c.to, last.Quiet, last.Text)
		}
	}
	before := len(s.entries)
	progress := a.Clone()
	progress.Journal = map[string]string{"isolated": "now"}
	s.apply(Input{Action: &ActionEvent{From: Applied, Action: progress}})
	if len(s.entries) != before || a.Journal["isolated"] != "now" {
		t.Errorf("progress is told as a step, or not kept: %v", a.Journal)
	}
	s.apply(s.take(*a, Verifying, ""))
	if last := s.entries[len(s.entries)-1]; last.Text != "max_num_seqs 256 → 128: verifying" {
		t.Errorf("%q", last.Text)
	}
	s.apply(s.take(*a, Succeeded, a.Change))
	if last := s.entries[len(s.entries)-1]; last.Text != "max_num_seqs 256 → 128: succeeded" {
		t.Errorf("the change is told twice: %q", last.Text)
	}
}

// What a run does shows in its incident, also where somebody acknowledged that.
func TestIncidentFollowsItsRun(t *testing.T) {
	for _, acked := range []bool{false, true} {
		s := newStory(t)
		in, a := s.proposed("auto")
		calm := StatusOpen
		if acked {
			s.apply(Input{Command: &Command{Verb: VerbAck, Incident: in.ID, Actor: ana}})
			calm = StatusAcked
		}
		rev := in.Rev
		for _, c := range []struct {
			to   ActionState
			want Status
		}{{Admitted, calm}, {Intent, StatusMitigating}, {Applied, StatusMitigating}, {Verifying, StatusMitigating}, {RollbackIntent, StatusMitigating}, {RolledBack, calm}} {
			s.apply(s.take(*a, c.to, ""))
			if in.Status != c.want || in.Rev == rev {
				t.Errorf("acknowledged %t, the run is %s: the incident is %s, revision %d", acked, c.to, in.Status, in.Rev)
			}
			rev = in.Rev
		}
	}
}

// The run effect is there for as long as the runner has work, and due when it asked to look again.
func TestRunEffectIsDueWhenAsked(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	due := func() time.Time {
		e := s.board.effects["run:ACT-1"]
		if e == nil {
			t.Fatalf("no effect when it is %s", a.State)
		}
		return e.Due
	}
	if !due().Equal(s.now) {
		t.Errorf("a new run is due at %s", due())
	}
	taken := func(step Input) {
		s.apply(step)
		s.deliver(EffectRun)
	}
	next := s.take(*a, Admitted, "")
	next.Action.Action.NextAt = s.now.Add(time.Minute)
	taken(next)
	if !due().Equal(s.now.Add(time.Minute)) {
		t.Errorf("due at %s", due())
	}
	next = s.take(*a, Intent, "")
	next.Action.Action.NextAt = s.now.Add(-time.Minute)
	taken(next)
	if !due().Equal(s.now) {
		t.Errorf("what should have been done before is due at %s", due())
	}
	for _, st := range []ActionState{Applied, Verifying, Succeeded} {
		s.apply(s.take(*a, st, ""))
	}
	if s.board.effects["run:ACT-1"] != nil {
		t.Error("the effect outlives the run")
	}
	for _, mode := range []string{"suggest", "approve"} {
		s = newStory(t)
		if s.proposed(mode); s.board.effects["run:ACT-1"] != nil {
			t.Errorf("mode %s runs by itself", mode)
		}
	}
}

// A no that came while the runner took a step is kept through it, and only what is about to be
// written is looked at again at once.
func TestNoIsKeptThroughTheNextStep(t *testing.T) {
	for _, to := range []ActionState{Intent, NeedsHuman} {
		s := newStory(t)
		_, a := s.intended()
		known := a.Clone()
		s.apply(s.says(VerbCancel, *a))
		if a.Journal[CalledOff] != "ana" {
			t.Fatalf("%v", a.Journal)
		}
		known.NextAt = s.now.Add(time.Minute)
		next := Input{Action: &ActionEvent{From: Intent, Action: known}}
		if to != Intent {
			next = s.take(known, to, "")
		}
		s.apply(next)
		if a.State != to || a.Journal[CalledOff] != "ana" || a.NextAt.IsZero() != (to == Intent) {
			t.Errorf("%s: %v, again at %s", a.State, a.Journal, a.NextAt)
		}
	}
	// Without a no the runner's time stands, and nothing is said of one.
	s := newStory(t)
	_, a := s.intended()
	wait := a.Clone()
	wait.NextAt = s.now.Add(time.Minute)
	s.apply(Input{Action: &ActionEvent{From: Intent, Action: wait}})
	if _, said := a.Journal[CalledOff]; said || a.NextAt.IsZero() {
		t.Errorf("%v, again at %s", a.Journal, a.NextAt)
	}
	s.apply(s.take(*a, Applied, "written"))
	if last := a.Steps[len(a.Steps)-1]; last.Text != "written" {
		t.Errorf("%q", last.Text)
	}
	// The runner that knows of the no says so itself, and is not contradicted.
	s = newStory(t)
	_, a = s.intended()
	s.apply(s.says(VerbCancel, *a))
	own := a.Clone()
	own.Journal[CalledOff], own.NextAt = "ben", s.now.Add(time.Minute)
	s.apply(Input{Action: &ActionEvent{From: Intent, Action: own}})
	if a.Journal[CalledOff] != "ben" || a.NextAt.IsZero() {
		t.Errorf("%v, again at %s", a.Journal, a.NextAt)
	}
	// "Too late" is told once, with the step that shows it.
	s.apply(s.take(*a, Applied, "written"))
	progress := a.Clone()
	progress.Journal["rollout"] = "half"
	s.apply(Input{Action: &ActionEvent{From: Applied, Action: progress}})
	s.apply(s.take(*a, Verifying, "looking"))
	texts := []string{a.Steps[len(a.Steps)-2].Text, a.Steps[len(a.Steps)-1].Text}
	if strings.Count(texts[0], "called off by ben too late") != 1 || !strings.HasPrefix(texts[0], "written; ") || texts[1] != "looking" {
		t.Errorf("%q", texts)
	}
}

func TestResolvedIncidentOnlyTellsWhereItWasTold(t *testing.T) {
	for _, c := range []struct {
		resolved bool
		channels []Channel
		want     bool
	}{{true, nil, false}, {true, []Channel{"slack"}, true}, {false, nil, true}} {
		s := newStory(t)
		in, a := s.intended()
		if c.resolved {
			s.apply(Input{Command: &Command{Verb: VerbResolve, Incident: in.ID, Actor: ana}})
		}
		s.deliver(EffectNotify)
		in.Channels = c.channels
		for id, e := range s.board.effects {
			if e.Kind == EffectNotify {
				delete(s.board.effects, id)
			}
		}
		s.fold.Apply(s.board, Input{Seq: s.seq + 1, Cluster: "prod", At: s.now, Action: s.take(*a, Applied, "written").Action})
		told := slices.ContainsFunc(s.effects(EffectNotify), func(string) bool { return true })
		if told != c.want {
			t.Errorf("resolved %t, channels %v: told %t", c.resolved, c.channels, told)
		}
	}
}

// A hold is told when it begins, and again only when its end moves.
func TestHoldIsToldOnceForEachEnd(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	for _, c := range []struct {
		until string
		told  bool
	}{{"2026-11-21T05:00:00Z", true}, {"2026-11-21T05:00:00Z", false}, {"2026-11-21T07:00:00Z", true}, {"soon", false}} {
		before, next := len(s.entries), a.Clone()
		next.Journal = map[string]string{HeldUntil: c.until, HeldBy: "freeze window night"}
		s.apply(Input{Action: &ActionEvent{From: a.State, Action: next}})
		if told := len(s.entries) > before; told != c.told || told && !strings.Contains(s.entries[before].Text, "held until 2026-11-21 0") {
			t.Errorf("held until %s: told %t", c.until, told)
		}
	}
	next := s.take(*a, Admitted, "")
	next.Action.Action.Journal = map[string]string{HeldUntil: "2026-11-21T09:00:00Z"}
	before := len(s.entries)
	if s.apply(next); len(s.entries) != before+1 || strings.Contains(s.entries[before].Text, "held") {
		t.Errorf("%+v", s.entries[before:])
	}
}
