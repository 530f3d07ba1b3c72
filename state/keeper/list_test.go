package keeper

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/statetest"
)

// listed returns a keeper whose boards hold n incidents and n actions in random order.
func listed(tb testing.TB, partitions, n int) *Keeper {
	tb.Helper()
	r := rand.New(rand.NewPCG(15, 4))
	values := make([][]any, partitions)
	begin := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for i := range n {
		at := begin.Add(time.Duration(r.IntN(n)) * time.Second) // some at the same time
		in := &state.Incident{ID: state.NewIncidentID(at, fmt.Sprint(i)), Number: i + 1, Cluster: []string{"a", "b"}[i%2],
			Status: state.StatusOpen, Severity: []state.Severity{state.Critical, state.Warning, state.Info}[i%3],
			OpenedAt: at, StartedAt: at.Add(-time.Duration(r.IntN(600)) * time.Second)}
		if i%4 > 0 {
			in.Status, in.ResolvedAt = state.StatusResolved, at
		}
		a := &state.Action{ID: state.NewActionID(at, fmt.Sprint(i)), Incident: in.ID,
			State: []state.ActionState{state.Proposed, state.AwaitingApproval, state.Succeeded, state.Verifying}[i%4]}
		if i%4 > 1 {
			a.Steps = []state.ActionStep{{State: state.Intent, At: at}}
		}
		in.Actions = []state.ActionID{a.ID}
		values[i%partitions] = append(values[i%partitions], in, a)
	}
	k := &Keeper{subs: map[chan state.Entry]bool{}}
	for p := range partitions {
		k.parts = append(k.parts, partitionOf(p, fold.BoardOf(values[p])))
	}
	return k
}

// partitionOf returns a partition that was loaded with a board.
func partitionOf(n int, b *fold.Board) *partition {
	return &partition{n: n, board: b, lists: listingsOf(b), ready: true}
}

// simpleFold returns a fold without rules.
func simpleFold() *fold.Fold {
	return &fold.Fold{Triage: statetest.Triage{}, Routing: statetest.Routing{}, Settings: state.DefaultSettings()}
}

// alertOf returns a firing alert about a pool.
func alertOf(pool string) state.Alert {
	return state.Alert{Fingerprint: state.Fingerprint(pool), Status: state.Firing,
		Labels: map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "severity": "critical", "pool": pool}}
}

// planFor returns a proposed run of mode auto, with a target of its own.
func planFor(in state.IncidentID, id state.ActionID, at time.Time) state.Action {
	return state.Action{ID: id, Incident: in, Kind: "set_engine_arg", Mode: "auto", State: state.Proposed,
		Target: state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "llama"},
		Steps:  []state.ActionStep{{State: state.Proposed, At: at}}}
}

// naive makes the whole list by copying and sorting everything.
func naive(k *Keeper, take func(*state.Incident) bool, order func(a, b state.Incident) int) (out []state.IncidentID) {
	var all []state.Incident
	for _, p := range k.parts {
		for in := range p.board.EveryIncident() {
			if take(in) {
				all = append(all, *in)
			}
		}
	}
	slices.SortFunc(all, order)
	for _, in := range all {
		out = append(out, in.ID)
	}
	return out
}

func newestFirstOrder(a, b state.Incident) int {
	return cmp.Or(b.OpenedAt.Compare(a.OpenedAt), cmp.Compare(b.ID, a.ID))
}

func mostUrgentFirstOrder(a, b state.Incident) int {
	return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.ID, a.ID))
}

func TestPagesCoverTheListing(t *testing.T) {
	k := listed(t, 3, 2500)
	inA := func(in *state.Incident) bool { return in.Cluster == "a" && in.Open() }
	for name, c := range map[string]struct {
		q     state.IncidentQuery
		take  func(*state.Incident) bool
		order func(a, b state.Incident) int
	}{
		"all":  {state.IncidentQuery{}, func(*state.Incident) bool { return true }, newestFirstOrder},
		"open": {state.IncidentQuery{Which: state.OpenIncidents}, (*state.Incident).Open, newestFirstOrder},
		"resolved": {state.IncidentQuery{Which: state.ResolvedIncidents}, func(in *state.Incident) bool { return !in.Open() },
			newestFirstOrder},
		"matching": {state.IncidentQuery{Match: inA}, inA, newestFirstOrder},
		"urgent":   {state.IncidentQuery{Urgent: true}, (*state.Incident).Open, mostUrgentFirstOrder},
	} {
		want := naive(k, c.take, c.order)
		var skipped, walked []state.IncidentID
		for n := 0; n == len(skipped); n += 70 {
			q := c.q
			q.Skip, q.Limit = n, 70
			for _, in := range k.ListIncidents(q).Incidents {
				skipped = append(skipped, in.ID)
			}
		}
		q := c.q
		q.Limit = 70
		for more := !q.Urgent; more; { // a cursor goes by age
			page := k.ListIncidents(q)
			for _, in := range page.Incidents {
				walked = append(walked, in.ID)
			}
			q.After, more = page.Next, page.Next != nil
		}
		if !slices.Equal(skipped, want) || !c.q.Urgent && !slices.Equal(walked, want) {
			t.Errorf("%s: %d by skipping, %d by cursor, want %d in the order of a sorted copy", name, len(skipped), len(walked), len(want))
		}
	}
}

func TestCursorOutlivesItsIncident(t *testing.T) {
	k := listed(t, 2, 100)
	page := k.ListIncidents(state.IncidentQuery{Limit: 30})
	rest := k.ListIncidents(state.IncidentQuery{After: page.Next}).Incidents
	for _, p := range k.parts {
		var left []any
		for in := range p.board.EveryIncident() {
			if in.ID != state.IncidentID(page.Next.ID) {
				left = append(left, in)
			}
		}
		for a := range p.board.EveryAction() {
			left = append(left, a)
		}
		p.board = fold.BoardOf(left)
		p.lists = listingsOf(p.board)
	}
	if again := k.ListIncidents(state.IncidentQuery{After: page.Next}).Incidents; !reflect.DeepEqual(again, rest) || len(rest) != 70 {
		t.Errorf("%d incidents follow, and %d once the last one of the page is forgotten", len(rest), len(again))
	}
}

func TestListingFollowsEveryCommit(t *testing.T) {
	k := listed(t, 1, 40)
	b := k.parts[0].board
	in := k.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents, Limit: 1}).Incidents[0]
	before := k.Tally()
	f := simpleFold()
	f.Apply(b, state.Input{Seq: 1, At: in.OpenedAt, Cluster: in.Cluster, Command: &state.Command{Verb: state.VerbResolve, Incident: in.ID,
		Actor: state.Actor{ID: "ana"}}})
	k.parts[0].lists.follow(b)
	open := k.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents}).Incidents
	after := k.Tally()
	resolved := slices.ContainsFunc(k.ListIncidents(state.IncidentQuery{Which: state.ResolvedIncidents}).Incidents,
		func(r state.Incident) bool { return r.ID == in.ID })
	if after.Open != before.Open-1 || after.Resolved != before.Resolved+1 || len(open) != after.Open || !resolved {
		t.Errorf("before %+v, after one was resolved %+v, and %d are listed as open", before, after, len(open))
	}
	if len(k.ListIncidents(state.IncidentQuery{Urgent: true}).Incidents) != after.Open {
		t.Error("it is still listed as urgent")
	}
}

func TestListingsAreEqualAfterLoad(t *testing.T) {
	f := simpleFold()
	p := partitionOf(0, fold.NewBoard())
	k, again := &Keeper{parts: []*partition{p}}, &Keeper{}
	kept := map[string]state.Record{}
	r := rand.New(rand.NewPCG(15, 4))
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	for seq := uint64(1); seq <= 300; seq++ {
		now = now.Add(time.Second)
		in := state.Input{Seq: seq, At: now, Cluster: "prod"}
		switch open := k.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents}).Incidents; {
		case seq%6 == 0 && len(open) > 0:
			in.Command = &state.Command{Verb: state.VerbResolve, Incident: open[r.IntN(len(open))].ID, Actor: state.Actor{ID: "ana"}}
		case seq%3 == 1 && len(open) > 0:
			of := open[r.IntN(len(open))].ID
			a := state.Action{ID: state.NewActionID(now, fmt.Sprint(seq)), Incident: of,
				State: []state.ActionState{state.Proposed, state.AwaitingApproval}[r.IntN(2)], Target: state.Target{Name: fmt.Sprint(seq)}}
			a.Steps = []state.ActionStep{{State: a.State, At: now}}
			in.Action = &state.ActionEvent{Action: a}
		default:
			in.Alerts = &state.AlertBatch{Alerts: []state.Alert{{Fingerprint: state.Fingerprint(fmt.Sprint(seq)), Status: state.Firing,
				StartsAt: now.Add(-time.Duration(r.IntN(600)) * time.Second), Labels: map[string]string{"pool": fmt.Sprint(seq)}}}}
		}
		f.Apply(p.board, in)
		p.lists.follow(p.board)
		records, _, err := p.board.Take()
		if err != nil {
			t.Fatal(err)
		}
		for _, rec := range records {
			if kept[rec.Key] = rec; rec.Value == nil || strings.HasPrefix(rec.Key, state.TimelinePrefix) {
				delete(kept, rec.Key)
			}
		}
	}
	loaded, err := fold.LoadBoard(slices.Collect(maps.Values(kept)))
	if err != nil {
		t.Fatal(err)
	}
	again.parts = []*partition{partitionOf(0, loaded)}
	same := func(q state.IncidentQuery) bool {
		x, y := k.ListIncidents(q).Incidents, again.ListIncidents(q).Incidents
		return len(x) > 0 && slices.EqualFunc(x, y, func(a, b state.Incident) bool { return a.ID == b.ID })
	}
	ids := func(list []state.Action) (ids []state.ActionID) {
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		return ids
	}
	needy := state.ActionQuery{Needy: true}
	if !same(state.IncidentQuery{}) || !same(state.IncidentQuery{Urgent: true}) || k.Tally() != again.Tally() ||
		!slices.Equal(ids(k.ListActions(needy).Actions), ids(again.ListActions(needy).Actions)) {
		t.Error("after a start incidents or actions are listed in another order, or others are")
	}
	if tally := k.Tally(); tally.Open < 20 || tally.Resolved < 50 || tally.Actions < 50 {
		t.Errorf("%+v: too few to compare", tally)
	}
}

func TestActionsThatNeedAPersonComeFirst(t *testing.T) {
	k := listed(t, 2, 200)
	var states []state.ActionState
	for _, a := range k.ListActions(state.ActionQuery{Needy: true, Skip: 40, Limit: 70}).Actions {
		states = append(states, a.State)
	}
	if want := slices.Concat(slices.Repeat([]state.ActionState{state.AwaitingApproval}, 10),
		slices.Repeat([]state.ActionState{state.Verifying}, 50), slices.Repeat([]state.ActionState{state.Proposed},
			10)); !slices.Equal(states, want) {
		t.Errorf("the second page has %v", states)
	}
	begun := k.BegunActions()
	if len(begun) != 100 || slices.ContainsFunc(begun, func(a state.Action) bool { return !a.Begun() }) {
		t.Errorf("%d actions have begun", len(begun))
	}
	in := k.ListIncidents(state.IncidentQuery{Limit: 1}).Incidents[0]
	if of := k.ActionsOf(in.ID); len(of) != 1 || of[0].Incident != in.ID {
		t.Errorf("the actions of %s are %v", in.ID, of)
	}
}

// The time in an action's ID is not the time of the plan, because a repeated plan must have the
// same ID.
func TestActionsAreListedInPlanOrder(t *testing.T) {
	f, b, now, seq := simpleFold(), fold.NewBoard(), time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), uint64(0)
	apply := func(in state.Input) {
		seq++
		now = now.Add(time.Minute)
		in.Seq, in.At, in.Cluster = seq, now, "prod"
		f.Apply(b, in)
	}
	apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{alertOf("llama")}}})
	in := b.Incidents()[0]
	want := []state.ActionID{"ACT-5", "ACT-1", "ACT-9", "ACT-3"}
	for _, id := range want {
		apply(state.Input{Action: &state.ActionEvent{Action: planFor(in.ID, id, now.Add(time.Minute))}})
	}
	k := &Keeper{subs: map[chan state.Entry]bool{}, parts: []*partition{partitionOf(0, b)}}
	slices.Reverse(want) // newest first
	ids := func(list []state.Action) (ids []state.ActionID) {
		for _, a := range list {
			ids = append(ids, a.ID)
		}
		return ids
	}
	if got := ids(k.ActionsOf(in.ID)); !slices.Equal(got, want) {
		t.Errorf("of the incident %v, want %v", got, want)
	}
	first := k.ListActions(state.ActionQuery{Limit: 2})
	got := slices.Concat(ids(first.Actions), ids(k.ListActions(state.ActionQuery{After: first.Next, Limit: 2}).Actions))
	if !slices.Equal(got, want) {
		t.Errorf("page by page %v, want %v", got, want)
	}
}
