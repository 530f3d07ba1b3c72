package fold

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// handedOver returns a run that wrote something and then needs a person.
func (s *story) handedOver() (*state.Incident, *state.Action) {
	s.t.Helper()
	in, a := s.intended()
	s.apply(s.stepTo(*a, state.Applied, ""))
	s.apply(s.stepTo(*a, state.Verifying, ""))
	s.apply(s.stepTo(*a, state.NeedsHuman, "inconclusive, the change is kept"))
	return in, a
}

func TestNeedsHumanKeepsIncidentOpen(t *testing.T) {
	s := newStory(t)
	in, a := s.handedOver()
	s.alert(state.Resolved, "KVFull", "kv_pressure", "warning", "llama")
	s.wait(time.Hour)
	if !in.Open() || !a.NeedsPerson() {
		t.Fatalf("the incident is %s, and the run needs a person: %v", in.Status, a.NeedsPerson())
	}
	if due, _ := s.board.NextDue(); !due.IsZero() && due.Sub(s.now) < time.Hour && in.EnrichAt.IsZero() {
		t.Errorf("it is looked at again at %s: no time ends it", due)
	}
	s.apply(s.commandFor(state.VerbCancel, *a))
	s.wait(time.Second)
	if in.Open() || in.ResolvedBy != "alerts" || a.NeedsPerson() {
		t.Errorf("taken care of, and the incident is %s by %q", in.Status, in.ResolvedBy)
	}
}

func TestNeedsHumanHeldWhileAlertsFire(t *testing.T) {
	s := newStory(t)
	in, a := s.handedOver()
	s.apply(s.commandFor(state.VerbCancel, *a))
	s.wait(time.Hour)
	if in.Status != state.StatusOpen || !in.HandedAt.IsZero() {
		t.Errorf("its alerts fire: %s, handed over at %s", in.Status, in.HandedAt)
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "warning", "llama")
	s.wait(5 * time.Minute)
	if in.Open() {
		t.Errorf("its alerts are gone: %s", in.Status)
	}
}

func TestSecondThatNeedsHumanKeepsIncidentOpen(t *testing.T) {
	s := newStory(t)
	in, a := s.handedOver()
	other := s.remedy(in, "ACT-2", "auto")
	other.Target.Name = "qwen"
	s.apply(state.Input{Action: &state.ActionEvent{Action: other}})
	b := s.board.actions[other.ID]
	for _, to := range []state.ActionState{state.Admitted, state.Intent, state.NeedsHuman} {
		s.apply(s.stepTo(*b, to, ""))
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "warning", "llama")
	s.apply(s.commandFor(state.VerbCancel, *a))
	s.wait(time.Hour)
	if !in.Open() || in.HandedAt.IsZero() {
		t.Fatalf("one of two is taken care of, and the incident is %s", in.Status)
	}
	s.apply(s.commandFor(state.VerbCancel, *b))
	s.wait(time.Second)
	if in.Open() {
		t.Errorf("both are taken care of, and the incident is %s", in.Status)
	}
}

// Another tool's page reports the trouble. It does not report that first aid stopped half-way.
func TestNeedsHumanPagesBesideForeignPage(t *testing.T) {
	s := newStory(t)
	in, a := s.intended()
	in.External, in.Channels = []state.External{{Source: "pagerduty", ID: "P7"}}, []state.Channel{state.ChannelSlack}
	s.apply(s.stepTo(*a, state.Applied, ""))
	if slices.Contains(in.Channels, state.ChannelPagerDuty) {
		t.Fatal("a second page for the same trouble")
	}
	s.apply(s.stepTo(*a, state.NeedsHuman, "the workload changed"))
	if !slices.Contains(in.Channels, state.ChannelPagerDuty) {
		t.Errorf("told on %v", in.Channels)
	}
}

func TestNeedsHumanEndsSilence(t *testing.T) {
	s := newStory(t)
	in, a := s.intended()
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbSilence, Incident: in.ID, Actor: ana, Until: s.now.Add(2 * time.Hour)}})
	s.deliver(state.EffectNotify)
	s.apply(s.stepTo(*a, state.NeedsHuman, "the API server cannot be reached"))
	if !in.SilencedUntil.IsZero() || in.HandedAt.IsZero() || len(s.effects(state.EffectNotify)) == 0 {
		t.Errorf("silenced until %s, handed over at %s, to tell: %v", in.SilencedUntil, in.HandedAt, s.effects(state.EffectNotify))
	}
}

// A person resolves the incident while its run is verified. The result must not get lost.
func TestNeedsHumanReopensResolved(t *testing.T) {
	for _, fires := range []bool{true, false} {
		s := newStory(t)
		in, a := s.intended()
		s.apply(s.stepTo(*a, state.Applied, ""))
		s.board.incidents[in.ID].Channels = []state.Channel{state.ChannelPagerDuty}
		in.Told = in.Told.With(state.ChannelPagerDuty, state.Told{Rev: in.Rev, Ref: map[string]string{"status": "resolved"}})
		if !fires {
			s.alert(state.Resolved, "KVFull", "kv_pressure", "warning", "llama")
		}
		s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
		if in.Open() {
			t.Fatal("a person could not resolve it")
		}
		s.apply(s.stepTo(*a, state.NeedsHuman, "the workload changed"))
		want := state.StatusMonitoring
		if fires {
			want = state.StatusOpen
		}
		if in.Status != want || in.Told.Ref(state.ChannelPagerDuty, "status") != "" ||
			s.board.effects[state.EffectID("notify:pagerduty:"+string(in.ID))] == nil {
			t.Errorf("alerts fire: %v: it is %s with the page %v", fires, in.Status, in.Told.On(state.ChannelPagerDuty))
		}
	}
}

// The end of an incident does not confirm its runs. The timeline names the run that still holds the
// lock.
func TestResolvingReleasesNoLock(t *testing.T) {
	s := newStory(t)
	in, a := s.handedOver()
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID, Actor: ana}})
	if last := s.threadTexts(in); in.Open() || !a.NeedsPerson() ||
		!strings.Contains(last[len(last)-1], "max_num_seqs 256 → 128 (ACT-1) needs a person and locks Deployment llm/llama") {
		t.Errorf("%s, needs a person: %v, %q", in.Status, a.NeedsPerson(), last)
	}
	s.fold.Settings.Retain = time.Hour
	s.wait(3 * time.Hour)
	s.apply(state.Input{})
	if s.board.actions[a.ID] == nil {
		t.Error("the lock was forgotten with its incident")
	}
	s.apply(s.commandFor(state.VerbCancel, *a))
	s.wait(time.Hour)
	s.apply(state.Input{})
	if s.board.actions[a.ID] != nil {
		t.Error("what was taken care of is never forgotten")
	}
}

func TestMergeKeepsWhatNeedsHuman(t *testing.T) {
	s := newStory(t)
	in, a := s.handedOver()
	root := &state.Incident{ID: "INC-ROOT", Number: 9, Cluster: "prod", Status: state.StatusOpen, OpenedAt: s.now}
	s.board.incidents[root.ID] = root
	x := &step{Fold: s.fold, Board: s.board, now: s.now, in: state.Input{Cluster: "prod"}}
	x.merge(root, in)
	if !slices.Contains(root.Actions, a.ID) || root.HandedAt.IsZero() || x.runNeedingPerson(root) == nil {
		t.Errorf("%v, handed over at %s", root.Actions, root.HandedAt)
	}
}

// A newer version may have recorded a state that this one does not know.
func TestUnknownStateKeepsLockAndIncident(t *testing.T) {
	s := newStory(t)
	in, a := s.intended()
	a.State = "evacuating"
	s.board.touch(kindAction, string(a.ID))
	s.alert(state.Resolved, "KVFull", "kv_pressure", "warning", "llama")
	s.wait(time.Hour)
	if a.State.Done() || !a.Begun() || !a.NeedsPerson() || !in.Open() || in.HandedAt.IsZero() {
		t.Fatalf("done %v, begun %v, needs a person %v, incident %s, handed over at %s", a.State.Done(), a.Begun(), a.NeedsPerson(),
			in.Status, in.HandedAt)
	}
	if a.State != "evacuating" {
		t.Errorf("it was judged: %s", a.State)
	}
	s.apply(s.commandFor(state.VerbCancel, *a))
	s.wait(time.Second)
	if a.NeedsPerson() || in.Open() {
		t.Errorf("a person has seen to it, and the incident is %s", in.Status)
	}
}

func TestUnreadableActionStopsItsTargetAlone(t *testing.T) {
	for name, c := range map[string]struct {
		broken func(map[string]any) any
		lost   string
	}{
		"a field":           {func(m map[string]any) any { m["journal"] = "drained"; return m }, "journal"},
		"a time":            {func(m map[string]any) any { m["next_at"] = "soon"; return m }, "next_at"},
		"its steps":         {func(m map[string]any) any { m["steps"] = 7; m["state"] = "succeeded"; return m }, "steps"},
		"no object":         {func(map[string]any) any { return "ACT" }, "id, incident, kind, state, steps"},
		"another one's":     {func(m map[string]any) any { m["id"] = "ACT-9"; return m }, "id"},
		"without its state": {func(m map[string]any) any { delete(m, "state"); return m }, "state"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newStory(t)
			in, a := s.intended()
			s.diagnosed("HighTTFT", "ttft_high", "qwen", "long_context_burst")
			var fields map[string]any
			if err := json.Unmarshal(s.records["action.ACT-1"], &fields); err != nil {
				t.Fatal(err)
			}
			raw, err := json.Marshal(c.broken(fields))
			if err != nil {
				t.Fatal(err)
			}
			s.records["action.ACT-1"] = raw
			var records []state.Record
			for key, value := range s.records {
				if !strings.HasPrefix(key, state.TimelinePrefix+".") {
					records = append(records, state.Record{Key: key, Value: value})
				}
			}
			id := in.ID
			s.board = loadBoard(t, records)
			in, a = s.board.incidents[id], s.board.actions[a.ID]
			if len(s.board.incidents) != 2 || a == nil || !a.NeedsPerson() || !a.Begun() || a.Journal[unreadable] != c.lost {
				t.Fatalf("%d incidents, %+v", len(s.board.incidents), a)
			}
			if a.Target.Cluster != "prod" || a.Target.Namespace != "llm" || a.Incident != id {
				t.Errorf("it locks %s of %s", a.Target, a.Incident)
			}
			s.apply(state.Input{})
			if last := s.threadTexts(in); in.HandedAt.IsZero() || !strings.Contains(last[len(last)-1], "cannot read its record ("+c.lost+")") {
				t.Errorf("handed over at %s, people are told %q", in.HandedAt, last)
			}
			s.apply(s.commandFor(state.VerbCancel, *a))
			if a.NeedsPerson() {
				t.Error("a person cannot free it")
			}
		})
	}
}

// A run that has ended and can be counted stays ended.
func TestUnreadableDetailReopensNothing(t *testing.T) {
	a := state.Action{ID: "ACT-1", Incident: "INC-1", Kind: "set_engine_arg", State: state.Succeeded,
		Steps: []state.ActionStep{{State: state.Intent}}, Target: state.Target{Cluster: "prod", Name: "llama"}}
	raw, err := json.Marshal(a)
	if err != nil {
		t.Fatal(err)
	}
	got := decodeAction(state.Record{Key: "action.ACT-1", Value: []byte(strings.Replace(string(raw), `"guards":null`, `"guards":"none"`, 1))})
	if got.State != state.Succeeded || got.NeedsPerson() || got.Journal[unreadable] != "guards" {
		t.Errorf("%+v", got)
	}
}

// merged returns an incident that was merged while its run was in progress. The run has ended
// since.
func (s *story) merged() (root, in *state.Incident, a *state.Action) {
	s.t.Helper()
	in, a = s.intended()
	root = &state.Incident{ID: "INC-ROOT", Number: 9, Cluster: "prod", Status: state.StatusOpen, OpenedAt: s.now}
	s.board.incidents[root.ID] = root
	x := &step{Fold: s.fold, Board: s.board, now: s.now, in: state.Input{Cluster: "prod"}}
	x.merge(root, in)
	s.apply(s.stepTo(*a, state.Applied, ""))
	s.apply(s.stepTo(*a, state.Verifying, ""))
	s.apply(s.stepTo(*a, state.Succeeded, "better"))
	return root, in, a
}

func TestMergedRunIsErasedBeforeRoot(t *testing.T) {
	s := newStory(t)
	root, in, a := s.merged()
	s.fold.Settings.Retain = time.Hour
	s.wait(3 * time.Hour)
	s.apply(state.Input{})
	if s.board.incidents[in.ID] == nil || root.ActiveAlerts != 1 {
		t.Fatal("the merged incident was erased while the root counts its firing alert")
	}
	s.alert(state.Resolved, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "qwen") // keeps the root open
	s.wait(3 * time.Hour)
	s.apply(state.Input{})
	if s.board.incidents[in.ID] != nil || s.board.actions[a.ID] != nil {
		t.Fatal("the merged incident is past retention and still there")
	}
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbResolve, Incident: root.ID, Actor: ana}})
	for range 3 {
		s.wait(2 * time.Hour)
		s.apply(state.Input{})
	}
	if s.board.incidents[root.ID] != nil {
		t.Error("the root is past retention and still there")
	}
}

func TestMergedRunIsErasedAfterRoot(t *testing.T) {
	s := newStory(t)
	root, in, a := s.merged()
	x := &step{Fold: s.fold, Board: s.board, now: s.now, in: state.Input{Cluster: "prod"}}
	root.Status = state.StatusResolved
	x.forget(root) // both may be past retention, and one is erased first
	if s.board.actions[a.ID] == nil {
		t.Error("the run of an incident that is remembered was forgotten")
	}
	s.fold.Settings.Retain = time.Hour
	for range 3 {
		s.wait(2 * time.Hour)
		s.apply(state.Input{})
	}
	if s.board.incidents[in.ID] != nil || s.board.actions[a.ID] != nil {
		t.Error("the merged incident is past retention and still there")
	}
}

// An earlier version may have stored an incident that lists an erased run.
func TestErasedRunIsNotListed(t *testing.T) {
	b := BoardOf([]any{&state.Incident{ID: "INC-1", Status: state.StatusOpen, Actions: []state.ActionID{"ACT-1", "ACT-2"}},
		&state.Action{ID: "ACT-2", Incident: "INC-1", State: state.Succeeded}})
	if got := b.incidents["INC-1"].Actions; len(got) != 1 || got[0] != "ACT-2" {
		t.Error(got)
	}
}
