package remediate

import (
	"slices"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// A refused remedy is planned again later, also if another one is accepted.
func TestRefusedRemedyIsPlannedAgain(t *testing.T) {
	lower := playbooks.Remedy{Action: setEngineArgKind, Params: map[string]string{"arg": "max_num_seqs", "direction": "lower"}}
	refused := playbooks.Remedy{Action: restartWorkerKind} // no worker is named
	for name, c := range map[string]struct {
		list  []playbooks.Remedy
		again bool
	}{
		"none is refused":     {[]playbooks.Remedy{lower}, false},
		"the first is":        {[]playbooks.Remedy{refused, lower}, true},
		"the last is":         {[]playbooks.Remedy{lower, refused}, true},
		"it is for people":    {[]playbooks.Remedy{{Action: "call_the_vendor"}}, false},
		"there is nothing":    {nil, false},
		"there is only wrong": {[]playbooks.Remedy{refused}, true},
	} {
		p, _ := planned()
		p.cfg.Mode = policy.Suggest
		p.cfg.Playbook = func(state.Diagnosis) (playbooks.Playbook, bool) { return playbooks.Playbook{FirstAid: c.list}, true }
		if out := p.Deliver(t.Context(), state.Effect{ID: "plan", Incident: "INC-1"}); out.Outcome.Done == c.again ||
			out.Outcome.RetryAt.IsZero() == c.again {
			t.Errorf("%s: %+v", name, out.Outcome)
		}
	}
}

// A waiting plan ends if a guard now denies it. The denial is recorded with its reasons.
func TestWaitingPlanEndsWhenItIsDenied(t *testing.T) {
	p, m := planned(waiting(func(a *state.Action) { a.Params["to"], a.Params["labels"] = "48", "" }))
	p.cfg.Mode = policy.Approve
	got := map[state.ActionState]int{}
	inputs, again := p.plan(t.Context(), m.Incidents[0]) // no evidence speaks for it
	for _, in := range inputs {
		a := in.Action.Action
		if got[a.State]++; a.State == state.Superseded && a.ID != "ACT-1" {
			t.Errorf("%s was superseded", a.ID)
		}
	}
	if !again || got[state.Superseded] != 1 || got[state.Proposed] != 1 || got[state.Denied] != 1 || len(inputs) != 3 {
		t.Errorf("again %t: %v", again, got)
	}
}

// A plan in a mode that only reads does not expire. A plan that waits for a person does.
func TestProposalExpiresOnlyIfItMayBeWritten(t *testing.T) {
	for mode, expires := range map[policy.Mode]time.Time{policy.Observe: {}, policy.Suggest: {}, policy.Approve: noon.Add(15 * time.Minute),
		policy.Auto: noon.Add(15 * time.Minute)} {
		p, m := planned()
		p.cfg.Mode = mode
		inputs, _ := p.plan(t.Context(), m.Incidents[0])
		if len(inputs) == 0 || !inputs[0].Action.Action.ExpiresAt.Equal(expires) {
			t.Errorf("%s: %+v", mode, inputs)
		}
	}
}

// A second delivery gives the same IDs, and the IDs are in the order of the plans.
func TestActionIDsRepeatAndKeepTheirOrder(t *testing.T) {
	p, m := planned()
	in := m.Incidents[0]
	var ids []state.ActionID
	for n, c := range []struct {
		change func(*state.Action)
		before int
	}{{nil, 0}, {nil, 1}, {func(a *state.Action) { a.Kind = restartWorkerKind }, 2}, {func(a *state.Action) { a.Target.Name = "b" }, 3}} {
		first := p.identify(waiting(c.change), in, c.before)
		p.cfg.Clock = fixedClock{noon.Add(time.Duration(n) * time.Hour)}
		if again := p.identify(waiting(c.change), in, c.before); again.ID != first.ID || again.PlanHash != first.PlanHash ||
			first.PlanHash == "" {
			t.Errorf("%s, then %s", first.ID, again.ID)
		}
		ids = append(ids, first.ID)
	}
	m.Actions = []state.Action{waiting(nil), waiting(nil), waiting(nil), waiting(nil)}
	ids = append(ids, p.identify(waiting(nil), in, 0).ID) // once more, after those
	if !slices.IsSorted(ids) || len(slices.Compact(ids)) != 5 {
		t.Errorf("%v", ids)
	}
}
