package fold

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

func TestUnfitProposalIsDropped(t *testing.T) {
	for name, c := range map[string]struct {
		change   func(*state.ActionEvent)
		resolved bool
		dropped  bool
	}{
		"of an open incident":      {change: func(*state.ActionEvent) {}},
		"that waits for approval":  {change: func(ev *state.ActionEvent) { ev.Action.State = state.AwaitingApproval }},
		"that is a later step":     {change: func(ev *state.ActionEvent) { ev.From = state.Proposed }, dropped: true},
		"that is approved already": {change: func(ev *state.ActionEvent) { ev.Action.State = state.Approved }, dropped: true},
		"of a resolved incident":   {change: func(*state.ActionEvent) {}, resolved: true, dropped: true},
		"of an unknown incident":   {change: func(ev *state.ActionEvent) { ev.Action.Incident = "INC-unknown" }, dropped: true},
	} {
		s := newStory(t)
		in := s.diagnosed("KVFull", "kv_pressure", "llama", "kv_exhaustion")
		if c.resolved {
			s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
		}
		ev := state.ActionEvent{Action: s.remedy(in, "ACT-1", "auto")}
		c.change(&ev)
		s.apply(state.Input{Action: &ev})
		if dropped := s.board.actions["ACT-1"] == nil; dropped != c.dropped {
			t.Errorf("a proposal %s is dropped: %t", name, dropped)
		}
	}
}

// A replica that lost its lease may record a step late. The other replica's record of the same turn
// came first, and is kept.
func TestLateStepOfATurnIsDropped(t *testing.T) {
	s := newStory(t)
	_, a := s.intended()
	record := func(turn uint64, journal map[string]string) {
		next := a.Clone()
		next.Journal = journal
		s.apply(state.Input{Action: &state.ActionEvent{From: state.Intent, Action: next, Turn: turn}})
	}
	effect := func() *state.Effect { return s.board.effects[state.EffectID(s.effects(state.EffectRun)[0])] }
	first := *effect()
	record(first.Turn, map[string]string{"isolated": "now", "drained": "now"})
	s.apply(state.Input{Outcome: &state.Outcome{Effect: first.ID, Turn: first.Turn, Done: true}})
	record(first.Turn, map[string]string{"isolated": "now"})
	if a.Journal["drained"] == "" {
		t.Error("a late record erased the progress of the run")
	}
	record(effect().Turn, map[string]string{"isolated": "now", "drained": "now", "evicted": "now"})
	if a.Journal["evicted"] == "" {
		t.Error("the step of the current turn is dropped")
	}
	record(0, map[string]string{"old": "now"})
	if a.Journal["old"] == "" {
		t.Error("a step that an older version recorded is dropped")
	}
}

// If the clock is set, a run in progress waits and watches as long as before. The end of a freeze
// window stays, and so does the record of its steps.
func TestClockStepMovesRuns(t *testing.T) {
	for _, by := range []time.Duration{time.Hour, -time.Hour} {
		s := newStory(t)
		_, a := s.intended()
		stamp := s.now.Format(time.RFC3339Nano)
		a.NextAt, a.Verify.Settle, a.Verify.Until, a.Write.At = s.now, s.now, s.now, s.now
		a.Journal = map[string]string{"isolated": stamp, state.HeldUntil: stamp, "undo": "why"}
		began := a.Steps[0].At
		s.apply(state.Input{Clock: &state.ClockStep{By: by}})
		for name, got := range map[string]time.Time{"the next look": a.NextAt, "the settling": a.Verify.Settle, "the window": a.Verify.Until, "the write": a.Write.At} {
			if d := got.Sub(s.now); d != by {
				t.Errorf("%s moved by %s, want %s", name, d, by)
			}
		}
		moved, err := time.Parse(time.RFC3339Nano, a.Journal["isolated"])
		if err != nil || moved.Sub(s.now) != by || a.Journal[state.HeldUntil] != stamp || a.Journal["undo"] != "why" {
			t.Errorf("the journal is %v, %v", a.Journal, err)
		}
		if !a.Steps[0].At.Equal(began) {
			t.Error("the record of a step moved")
		}
	}
}

// The guards count a run of the last day by the times in its journal.
func TestClockStepMovesTheHistory(t *testing.T) {
	for age, moves := range map[time.Duration]bool{time.Hour: true, 25 * time.Hour: false} {
		s := newStory(t)
		_, a := s.intended()
		ended := s.now
		a.Journal = map[string]string{"succeeded": ended.Format(time.RFC3339Nano)}
		for _, to := range []state.ActionState{state.Applied, state.Verifying, state.Succeeded} {
			s.apply(s.stepTo(*a, to, ""))
		}
		s.now = s.now.Add(age + 48*time.Hour) // of which two days pass on the clock only
		s.apply(state.Input{Clock: &state.ClockStep{By: 48 * time.Hour}})
		at, err := time.Parse(time.RFC3339Nano, a.Journal["succeeded"])
		if moved := at.Sub(ended) == 48*time.Hour; err != nil || moved != moves {
			t.Errorf("a run that ended %s ago: %s %v", age, at, err)
		}
	}
}

// A step of the clock is recorded while it moves anything, such as the runs that guards count.
func TestClockStepIsRecordedForRuns(t *testing.T) {
	s := newStory(t)
	if got := s.board.ClockCluster(); got != "" {
		t.Errorf("nothing to move, in cluster %q", got)
	}
	in, a := s.intended()
	for _, to := range []state.ActionState{state.Applied, state.Verifying, state.Succeeded} {
		s.apply(s.stepTo(*a, to, ""))
	}
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
	if got := s.board.ClockCluster(); in.Open() || got != "prod" {
		t.Errorf("a run to move, in cluster %q", got)
	}
}

// A step that was on its way when the clock was set knows only the old times. It is taken again.
func TestStepAcrossAClockStepIsDropped(t *testing.T) {
	s := newStory(t)
	_, a := s.intended()
	before := *s.board.effects[state.EffectID(s.effects(state.EffectRun)[0])]
	late := a.Clone()
	late.Journal = map[string]string{"isolated": s.now.Format(time.RFC3339Nano)}
	s.apply(state.Input{Clock: &state.ClockStep{By: -time.Hour}})
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Intent, Action: late, Turn: before.Turn}})
	s.apply(state.Input{Outcome: &state.Outcome{Effect: before.ID, Turn: before.Turn, Done: true}})
	if e := s.board.effects[before.ID]; a.Journal["isolated"] != "" || e == nil || e.Due.After(before.Due) {
		t.Errorf("the journal is %v, and the next step %+v", a.Journal, e)
	}
}

// A run of mode auto that a guard holds waits as long as before, too, if the clock is set.
func TestClockStepMovesHeldProposals(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	a.NextAt, a.Journal = s.now, map[string]string{"held": s.now.Format(time.RFC3339Nano)}
	s.apply(state.Input{Clock: &state.ClockStep{By: -time.Hour}})
	if since, err := time.Parse(time.RFC3339Nano, a.Journal["held"]); err != nil || a.NextAt.Sub(s.now) != -time.Hour || since.Sub(s.now) != -time.Hour {
		t.Errorf("held since %s, next look at %s: %v", since, a.NextAt, err)
	}
}

// Admission and intent are the bot's own steps. They are recorded, and not notified.
func TestBotStepsAreQuiet(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	for _, c := range []struct {
		to    state.ActionState
		quiet bool
	}{{state.Admitted, true}, {state.Intent, true}, {state.Applied, false}} {
		s.apply(s.stepTo(*a, c.to, "because"))
		last := s.entries[len(s.entries)-1]
		if last.Quiet != c.quiet || last.Text != "max_num_seqs 256 → 128: "+string(c.to)+": because" {
			t.Errorf("%s: quiet %t, %q", c.to, last.Quiet, last.Text)
		}
	}
	before := len(s.entries)
	progress := a.Clone()
	progress.Journal = map[string]string{"isolated": "now"}
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Applied, Action: progress}})
	if len(s.entries) != before || a.Journal["isolated"] != "now" {
		t.Errorf("progress is told as a step, or not kept: %v", a.Journal)
	}
	s.apply(s.stepTo(*a, state.Verifying, ""))
	if last := s.entries[len(s.entries)-1]; last.Text != "max_num_seqs 256 → 128: verifying" {
		t.Errorf("%q", last.Text)
	}
	s.apply(s.stepTo(*a, state.Succeeded, a.Change))
	if last := s.entries[len(s.entries)-1]; last.Text != "max_num_seqs 256 → 128: succeeded" {
		t.Errorf("the change is told twice: %q", last.Text)
	}
}

// A run's progress shows in its incident, also after an acknowledgement.
func TestIncidentFollowsItsRun(t *testing.T) {
	for _, acked := range []bool{false, true} {
		s := newStory(t)
		in, a := s.proposed("auto")
		calm := state.StatusOpen
		if acked {
			s.apply(state.Input{Command: &state.Command{Verb: state.VerbAck, Incident: in.ID, Actor: ana}})
			calm = state.StatusAcked
		}
		rev := in.Rev
		for _, c := range []struct {
			to   state.ActionState
			want state.Status
		}{{state.Admitted, calm}, {state.Intent, state.StatusMitigating}, {state.Applied, state.StatusMitigating}, {state.Verifying,
			state.StatusMitigating}, {state.RollbackIntent, state.StatusMitigating}, {state.RolledBack, calm}} {
			s.apply(s.stepTo(*a, c.to, ""))
			if in.Status != c.want || in.Rev == rev {
				t.Errorf("acknowledged %t, the run is %s: the incident is %s, revision %d", acked, c.to, in.Status, in.Rev)
			}
			rev = in.Rev
		}
	}
}

// The run effect exists while the runner has work, and is due when the runner asked to look again.
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
	taken := func(step state.Input) {
		s.apply(step)
		s.deliver(state.EffectRun)
	}
	next := s.stepTo(*a, state.Admitted, "")
	next.Action.Action.NextAt = s.now.Add(time.Minute)
	taken(next)
	if !due().Equal(s.now.Add(time.Minute)) {
		t.Errorf("due at %s", due())
	}
	next = s.stepTo(*a, state.Intent, "")
	next.Action.Action.NextAt = s.now.Add(-time.Minute)
	taken(next)
	if !due().Equal(s.now) {
		t.Errorf("what should have been done before is due at %s", due())
	}
	for _, st := range []state.ActionState{state.Applied, state.Verifying, state.Succeeded} {
		s.apply(s.stepTo(*a, st, ""))
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

// A refusal that came during the runner's step is kept. Only a run with an intent is looked at
// again at once.
func TestRefusalSurvivesTheNextStep(t *testing.T) {
	for _, to := range []state.ActionState{state.Intent, state.NeedsHuman} {
		s := newStory(t)
		_, a := s.intended()
		known := a.Clone()
		s.apply(s.commandFor(state.VerbCancel, *a))
		if a.Journal[state.CalledOff] != "ana" {
			t.Fatalf("%v", a.Journal)
		}
		known.NextAt = s.now.Add(time.Minute)
		next := state.Input{Action: &state.ActionEvent{From: state.Intent, Action: known}}
		if to != state.Intent {
			next = s.stepTo(known, to, "")
		}
		s.apply(next)
		if a.State != to || a.Journal[state.CalledOff] != "ana" || a.NextAt.IsZero() != (to == state.Intent) {
			t.Errorf("%s: %v, again at %s", a.State, a.Journal, a.NextAt)
		}
	}
	// Without a refusal the runner's time is kept, and no refusal is mentioned.
	s := newStory(t)
	_, a := s.intended()
	wait := a.Clone()
	wait.NextAt = s.now.Add(time.Minute)
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Intent, Action: wait}})
	if _, said := a.Journal[state.CalledOff]; said || a.NextAt.IsZero() {
		t.Errorf("%v, again at %s", a.Journal, a.NextAt)
	}
	s.apply(s.stepTo(*a, state.Applied, "written"))
	if last := a.Steps[len(a.Steps)-1]; last.Text != "written" {
		t.Errorf("%q", last.Text)
	}
	// A runner that knows of the refusal reports it itself, and its report is kept.
	s = newStory(t)
	_, a = s.intended()
	s.apply(s.commandFor(state.VerbCancel, *a))
	own := a.Clone()
	own.Journal[state.CalledOff], own.NextAt = "ben", s.now.Add(time.Minute)
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Intent, Action: own}})
	if a.Journal[state.CalledOff] != "ben" || a.NextAt.IsZero() {
		t.Errorf("%v, again at %s", a.Journal, a.NextAt)
	}
	// "Too late" is reported once, with the step that shows it.
	s.apply(s.stepTo(*a, state.Applied, "written"))
	progress := a.Clone()
	progress.Journal["rollout"] = "half"
	s.apply(state.Input{Action: &state.ActionEvent{From: state.Applied, Action: progress}})
	s.apply(s.stepTo(*a, state.Verifying, "looking"))
	texts := []string{a.Steps[len(a.Steps)-2].Text, a.Steps[len(a.Steps)-1].Text}
	if strings.Count(texts[0], "called off by ben too late") != 1 || !strings.HasPrefix(texts[0], "written; ") || texts[1] != "looking" {
		t.Errorf("%q", texts)
	}
}

func TestResolvedIncidentNotifiesItsChannelsOnly(t *testing.T) {
	for _, c := range []struct {
		resolved bool
		channels []state.Channel
		want     bool
	}{{true, nil, false}, {true, []state.Channel{"slack"}, true}, {false, nil, true}} {
		s := newStory(t)
		in, a := s.intended()
		if c.resolved {
			s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
		}
		s.deliver(state.EffectNotify)
		in.Channels = c.channels
		for id, e := range s.board.effects {
			if e.Kind == state.EffectNotify {
				delete(s.board.effects, id)
			}
		}
		s.fold.Apply(s.board, state.Input{Seq: s.seq + 1, Cluster: "prod", At: s.now, Action: s.stepTo(*a, state.Applied, "written").Action})
		told := slices.ContainsFunc(s.effects(state.EffectNotify), func(string) bool { return true })
		if told != c.want {
			t.Errorf("resolved %t, channels %v: told %t", c.resolved, c.channels, told)
		}
	}
}

// A hold is announced when it begins, and again only if its end moves.
func TestHoldIsAnnouncedOncePerEnd(t *testing.T) {
	s := newStory(t)
	_, a := s.proposed("auto")
	for _, c := range []struct {
		until string
		told  bool
	}{{"2026-11-21T05:00:00Z", true}, {"2026-11-21T05:00:00Z", false}, {"2026-11-21T07:00:00Z", true}, {"soon", false}} {
		before, next := len(s.entries), a.Clone()
		next.Journal = map[string]string{state.HeldUntil: c.until, state.HeldBy: "freeze window night"}
		s.apply(state.Input{Action: &state.ActionEvent{From: a.State, Action: next}})
		if told := len(s.entries) > before; told != c.told || told && !strings.Contains(s.entries[before].Text, "holds it until 2026-11-21 0") {
			t.Errorf("held until %s: told %t", c.until, told)
		}
	}
	next := s.stepTo(*a, state.Admitted, "")
	next.Action.Action.Journal = map[string]string{state.HeldUntil: "2026-11-21T09:00:00Z"}
	before := len(s.entries)
	if s.apply(next); len(s.entries) != before+1 || strings.Contains(s.entries[before].Text, "held") {
		t.Errorf("%+v", s.entries[before:])
	}
}
