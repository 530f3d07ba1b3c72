package stats_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/statetest"
	"paramedic/webhook/stats"
)

var now = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

const day = 24 * time.Hour

// A memory is a source of written incidents. It records the largest page that was asked for.
type memory struct {
	incidents []state.Incident
	actions   []state.Action
	largest   int
}

func (m *memory) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	page := statetest.ListIncidents(m.incidents, q)
	m.largest = max(m.largest, len(page.Incidents))
	return page
}

func (m *memory) ActionsOf(id state.IncidentID) []state.Action {
	return slices.DeleteFunc(slices.Clone(m.actions), func(a state.Action) bool { return a.Incident != id })
}

// open adds an incident of the cause that opened some time ago. change may be nil.
func (m *memory) open(ago time.Duration, cause state.Cause, change func(*state.Incident)) state.IncidentID {
	in := state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%03d", len(m.incidents))), Status: state.StatusOpen, OpenedAt: now.Add(-ago)}
	in.Diagnosis.Cause = cause
	if change != nil {
		change(&in)
	}
	m.incidents = append(m.incidents, in)
	return in.ID
}

func (m *memory) sum(t *testing.T) stats.Summary {
	t.Helper()
	got, err := stats.Sum(t.Context(), m, now.Add(-30*day), now)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

func resolveAfter(d time.Duration) func(*state.Incident) {
	return func(in *state.Incident) {
		in.Status, in.ResolvedAt, in.ResolvedBy = state.StatusResolved, in.OpenedAt.Add(d), "alerts"
	}
}

func run(id state.IncidentID, mode string, steps ...state.ActionStep) state.Action {
	return state.Action{Incident: id, Mode: mode, State: steps[len(steps)-1].State, Steps: steps}
}

func show(times stats.Times) string {
	if times.Median == nil || times.P90 == nil {
		return fmt.Sprintf("%d: none", times.Count)
	}
	return fmt.Sprintf("%d: %g %g", times.Count, *times.Median, *times.P90)
}

func TestPercentilesAreTimesThatHappened(t *testing.T) {
	m := &memory{}
	for i := 1; i <= 10; i++ { // 10 s to 100 s
		m.open(day, "kv_exhaustion", func(in *state.Incident) { in.DiagnosedAt = in.OpenedAt.Add(time.Duration(i) * 10 * time.Second) })
	}
	m.open(day, "engine_hang", func(in *state.Incident) {
		in.DiagnosedAt, in.AckedAt = in.OpenedAt.Add(7*time.Second), in.OpenedAt.Add(time.Minute)
	})
	m.open(31*day, "engine_hang", nil) // before the window
	m.open(-time.Second, "engine_hang", nil)
	got := m.sum(t)
	if len(got.Causes) != 2 || got.All.Incidents != 11 || got.Open != 11 {
		t.Fatalf("%+v", got)
	}
	kv, hang := got.Causes[0], got.Causes[1]
	if kv.Cause != "kv_exhaustion" || kv.Incidents != 10 || show(kv.Diagnose) != "10: 50 90" || show(kv.Acknowledge) != "0: none" {
		t.Errorf("%s %s %s", kv.Cause, show(kv.Diagnose), show(kv.Acknowledge))
	}
	if show(hang.Diagnose) != "1: 7 7" || show(hang.Acknowledge) != "1: 60 60" || show(hang.Mitigate) != "0: none" {
		t.Errorf("%s %s %s", show(hang.Diagnose), show(hang.Acknowledge), show(hang.Mitigate))
	}
	if show(got.All.Diagnose) != "11: 50 90" {
		t.Error(show(got.All.Diagnose))
	}
}

func TestMitigationEndsWithTheFirstProof(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*state.Incident)
		step   state.ActionState
		want   string
	}{
		{"first aid helped before the end", resolveAfter(10 * time.Minute), state.Succeeded, "1: 120 120"},
		{"the end came before the proof", resolveAfter(time.Minute), state.Succeeded, "1: 60 60"},
		{"first aid helped, and it is open", nil, state.Succeeded, "1: 120 120"},
		{"first aid was rolled back", resolveAfter(10 * time.Minute), state.RolledBack, "1: 600 600"},
		{"neither", nil, state.Verifying, "0: none"},
	} {
		m := &memory{}
		id := m.open(day, "kv_exhaustion", c.change)
		m.actions = []state.Action{run(id, "auto", state.ActionStep{State: state.Proposed, At: now.Add(-day)},
			state.ActionStep{State: c.step, At: now.Add(-day + 2*time.Minute)})}
		if got := show(m.sum(t).All.Mitigate); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

func TestMergedIncidentsCountWithTheirRoot(t *testing.T) {
	m := &memory{}
	root := m.open(day, "node_down", resolveAfter(time.Minute))
	id := m.open(day, "engine_down", func(in *state.Incident) {
		resolveAfter(time.Second)(in)
		in.MergedInto, in.ResolvedBy = root, "merge"
		in.Symptoms = []state.SymptomCount{{Rules: []string{"EngineDown"}}}
		in.Told = state.ToldByOf(map[state.Channel]state.Told{state.ChannelPagerDuty: {Ref: map[string]string{"status": "resolved"}}})
	})
	m.actions = []state.Action{run(id, "auto", state.ActionStep{State: state.Denied})}
	got := m.sum(t)
	if got.All.Incidents != 1 || len(got.Causes) != 1 || got.Merged != 1 || len(got.NoisyRules) != 0 {
		t.Errorf("the merged incident is counted: %+v", got)
	}
	if got.Pages != 1 || got.FirstAid.Denied != 1 {
		t.Errorf("its page and its run are lost: %+v", got)
	}
}

func TestNoisyRulesFireWithoutNeed(t *testing.T) {
	m := &memory{}
	by := func(rule string, changes ...func(*state.Incident)) func(*state.Incident) {
		return func(in *state.Incident) {
			in.Symptoms = []state.SymptomCount{{Rules: []string{rule}}, {Rules: []string{rule}}}
			for _, change := range changes {
				change(in)
			}
		}
	}
	acked := func(in *state.Incident) { in.AckedAt = in.OpenedAt.Add(time.Second) }
	person := func(in *state.Incident) { in.ResolvedBy = "ana" }
	end := resolveAfter(time.Minute)
	m.open(day, state.BenignAlert, by("Idle"))
	m.open(day, state.BenignAlert, by("Idle", end))
	m.open(day, "kv_exhaustion", by("Idle", end, acked))
	m.open(day, "kv_exhaustion", by("KV", end))
	m.open(day, "kv_exhaustion", by("KV"))
	m.open(day, "kv_exhaustion", by("Acked", end, acked))
	m.open(day, "kv_exhaustion", by("Person", end, person))
	aided := m.open(day, "kv_exhaustion", by("Aided", end))
	m.actions = []state.Action{run(aided, "auto", state.ActionStep{State: state.Succeeded, At: now})}
	want := []stats.Rule{{Rule: "Idle", Incidents: 3, Noisy: 2, Benign: 2, EndedAlone: 1}, {Rule: "KV", Incidents: 2, Noisy: 1, EndedAlone: 1}}
	if got := m.sum(t).NoisyRules; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	for i := range 40 {
		m.open(day, "kv_exhaustion", by(fmt.Sprintf("Rule%d", i), end))
	}
	if got := m.sum(t).NoisyRules; len(got) != 20 || got[0] != want[0] {
		t.Errorf("%d rules, first %+v", len(got), got[0])
	}
}

func TestFirstAidIsCountedByOutcome(t *testing.T) {
	m := &memory{}
	id := m.open(day, "kv_exhaustion", nil)
	for _, s := range []state.ActionState{state.Succeeded, state.RolledBack, state.NeedsHuman, state.Denied, state.Denied, state.Expired,
		state.Cancelled, state.Superseded, state.Verifying} {
		m.actions = append(m.actions, run(id, "approve", state.ActionStep{State: s}))
	}
	m.actions = append(m.actions, run(id, "suggest", state.ActionStep{State: state.Cancelled}))
	want := stats.Runs{Helped: 1, RolledBack: 1, Failed: 1, Denied: 2, Expired: 1, Cancelled: 1, Superseded: 1, Suggested: 1, Unfinished: 1}
	if got := m.sum(t).FirstAid; got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestLastFeedbackOfEachPersonCounts(t *testing.T) {
	m := &memory{}
	ana, bo := state.Actor{ID: "ana"}, state.Actor{Name: "bo"}
	m.open(day, "kv_exhaustion", func(in *state.Incident) {
		in.Feedback = []state.Feedback{{Actor: ana, Right: true}, {Actor: bo, Right: true}, {Actor: ana, Right: false, Cause: "kv_leak"}}
	})
	m.open(day, "engine_hang", func(in *state.Incident) { in.Feedback = []state.Feedback{{Actor: ana, Right: true}} })
	want := []stats.Feedback{{Cause: "engine_hang", Right: 1}, {Cause: "kv_exhaustion", Right: 1, Wrong: 1}}
	if got := m.sum(t).Feedback; !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestSumReadsPageByPage(t *testing.T) {
	m := &memory{}
	for range 650 {
		m.open(day, "kv_exhaustion", nil)
	}
	if got := m.sum(t); got.All.Incidents != 650 || m.largest > 200 {
		t.Errorf("%d incidents, up to %d at once", got.All.Incidents, m.largest)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := stats.Sum(ctx, m, now.Add(-day), now); !errors.Is(err, context.Canceled) {
		t.Errorf("a request that ended goes on: %v", err)
	}
}

func TestFiguresAreReadable(t *testing.T) {
	m := &memory{}
	id := m.open(day, "kv_exhaustion", func(in *state.Incident) {
		resolveAfter(19 * time.Minute)(in)
		in.DiagnosedAt = in.OpenedAt.Add(9 * time.Second)
		in.Symptoms = []state.SymptomCount{{Rules: []string{"HighKV"}}}
		in.Feedback = []state.Feedback{{Right: true}}
	})
	m.actions = []state.Action{run(id, "auto", state.ActionStep{State: state.Denied})}
	var out, empty bytes.Buffer
	if err := errors.Join(m.sum(t).Print(&out), (&memory{}).sum(t).Print(&empty)); err != nil {
		t.Fatal(err)
	}
	want := `2026-10-22 03:00 UTC to 2026-11-21 03:00 UTC: 1 incident, 0 open, 0 more merged into others; 0 pages

Times from the opening: median / p90 (incidents)

CAUSE          INCIDENTS  DIAGNOSED      ACKNOWLEDGED  MITIGATED
kv_exhaustion  1          9 s / 9 s (1)  —             19 min / 19 min (1)
all            1          9 s / 9 s (1)  —             19 min / 19 min (1)

NOISY RULE  INCIDENTS  NOISY  BENIGN  ENDED ALONE
HighKV      1          1      0       1

First aid: 1 denied

FEEDBACK       RIGHT  WRONG
kv_exhaustion  1      0
`
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", out.String(), want)
	}
	want = `2026-10-22 03:00 UTC to 2026-11-21 03:00 UTC: 0 incidents, 0 open, 0 more merged into others; 0 pages

First aid: no runs
Feedback: none
`
	if empty.String() != want {
		t.Errorf("without incidents it prints\n%s", empty.String())
	}
}
