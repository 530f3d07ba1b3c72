package remediate

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
	"paramedic/state/outbox"
)

// A Planner delivers plan effects: it plans the remedies that the incident's playbook offers, and
// asks the guards about them. It only reads, except for dry runs in the modes that may write.
type Planner struct{ cfg *Config }

// Deliver plans for the effect's incident. If it is delivered again, it finds its plan in the view
// and adds nothing.
func (p *Planner) Deliver(ctx context.Context, e state.Effect) outbox.Result {
	now := p.cfg.Clock.Now()
	in, ok := p.cfg.View.Incident(e.Incident)
	if !ok {
		return done(e)
	}
	if !in.Open() {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true},
			Inputs: p.cancelPlans(in, nil, state.Cancelled, "the incident is resolved")}
	}
	inputs, again := p.plan(ctx, in)
	if err := ctx.Err(); err != nil {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Error: "planning was interrupted; Paramedic plans again",
			RetryAt: now.Add(p.cfg.Timing.Poll)}}
	}
	out := outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: !again}, Inputs: inputs}
	if again {
		out.Outcome.RetryAt = now.Add(p.cfg.Timing.Replan)
	}
	return out
}

// done is the result of an effect that needs nothing more.
func done(e state.Effect) outbox.Result {
	return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}}
}

// plan returns the events of the new plan. It also reports whether to plan again later, because a
// guard denied something that it may allow then.
func (p *Planner) plan(ctx context.Context, in state.Incident) (inputs []state.Input, again bool) {
	pb, ok := p.cfg.Playbook(in.Diagnosis)
	if in.Diagnosis.Playbook == "" || !ok || pb.ID == string(state.Unknown) { // the unknown's playbook is for people
		return p.cancelPlans(in, nil, state.Superseded, "the cause has no playbook with first aid"), false
	}
	if p.overtaken(in.ID) >= overtakenMost {
		return p.cancelPlans(in, nil, state.Superseded,
			fmt.Sprintf("%d plans failed at their write, because the workload changed or the cluster refused: "+
				"Paramedic makes no more plans for this incident", overtakenMost)), false
	}
	if p.cfg.Clusters[in.Cluster] == nil && !p.cfg.Mode.Writes() {
		return nil, false // the workload cannot be read; the playbook says what to do
	}
	ev, _ := p.cfg.View.Evidence(in.ID)
	keep := map[state.ActionID]bool{}
	var fresh []state.Input
	planned := 0
	for _, r := range pb.FirstAid {
		kind, ok := actionOf(r.Action)
		if !ok {
			continue // a person's step
		}
		a, refused := p.draft(ctx, in, ev, kind, r)
		if p.declined(a) {
			continue
		}
		old, same := p.currentRun(a, refused)
		switch {
		case same && !refused:
			keep[old.ID] = true
			continue
		case same && old.State == state.Denied:
			again = true
			continue
		case guard.Wrote(old) || old.State.Running():
			keep[old.ID] = true
			continue
		}
		again = again || refused
		fresh = append(fresh, p.events(p.identify(a, in, planned), refused)...)
		planned++
	}
	return append(p.cancelPlans(in, keep, state.Superseded, "the plan changed"), fresh...), again
}

// overtakenMost is the number of plans of one incident that may fail at their write before the bot
// stops planning.
const overtakenMost = 3

// overtaken counts the incident's runs that recorded an intent and were then superseded by another
// hand or refused by the cluster.
func (p *Planner) overtaken(id state.IncidentID) (n int) {
	for _, a := range p.cfg.View.ActionsOf(id) {
		if (a.State == state.Superseded || a.State == state.Denied) && !guard.Written(a).IsZero() {
			n++
		}
	}
	return n
}

// draft returns the action that the remedy stands for now. It reports true if the action is
// refused: it is impossible, or a guard denies it in a mode that would write. A refused action is
// recorded with every reason.
func (p *Planner) draft(
	ctx context.Context, in state.Incident, ev state.Evidence, kind action, r playbooks.Remedy,
) (state.Action, bool) {
	now := p.cfg.Clock.Now()
	a := state.Action{Form: state.ActionForm, Incident: in.ID, Cause: in.Cause(), Kind: r.Action, State: state.Proposed,
		Params: map[string]string{}}
	maps.Copy(a.Params, r.Params)
	refuse := func(err error) (state.Action, bool) {
		a.Guards = append(a.Guards, state.GuardResult{Guard: "plan", Decision: state.Deny, Reason: err.Error(),
			At: now})
		a.Change = cmp.Or(a.Change, r.Action)
		a.Why = cmp.Or(a.Why, r.Text)
		return a, true
	}
	t, err := kind.target(in, ev, a.Params)
	a.Target = t
	if err != nil {
		return refuse(err)
	}
	s := p.cfg.survey(ctx, in, &a)
	a.Mode, a.Approvers = string(s.Rule.Mode), s.Rule.Approvers
	if s.Problem != nil {
		return refuse(s.Problem)
	}
	if err := kind.draft(s); err != nil {
		return refuse(err)
	}
	a.ExpiresAt = now.Add(s.Rule.ApprovalTTL)
	a.Guards = guard.Ask(ctx, s, guard.All())
	if decision, _, _ := guard.Weigh(a.Guards); decision == state.Deny && s.Rule.Mode.Writes() {
		return a, true
	}
	if s.Rule.Mode == policy.Approve {
		a.State = state.AwaitingApproval
	}
	if !s.Rule.Mode.Writes() {
		a.ExpiresAt = time.Time{}
	}
	return a, false
}

// identify returns the action with its hash and its ID. A second delivery of the same plan gets the
// same ID. The IDs of an incident's actions are in the order of planning. before counts the actions
// of this plan that come first.
func (p *Planner) identify(a state.Action, in state.Incident, before int) state.Action {
	a.PlanHash = guard.PlanHash(&a)
	n := len(p.cfg.View.ActionsOf(in.ID)) + before
	seed := strings.Join([]string{string(in.ID), a.Kind, a.Target.Cluster, a.Target.String(), a.Target.UID,
		a.Params["arg"]}, "|")
	a.ID = state.NewActionID(in.OpenedAt.Add(time.Duration(n)*time.Millisecond), seed)
	return a
}

// currentRun returns the incident's newest run of the remedy, and whether it is the same plan. A
// value that moved by less than a quarter is the same plan, so that small changes of the load make
// no new plan. A denied run is the same plan while the same guards deny it. If they allow it now,
// it is offered again.
func (p *Planner) currentRun(a state.Action, refused bool) (state.Action, bool) {
	for _, b := range p.cfg.View.ActionsOf(a.Incident) { // newest first
		if !b.SameRemedy(&a) {
			continue
		}
		if b.State == state.Denied {
			return b, refused && denials(b) == denials(a)
		}
		if !b.State.BeforeEffect() {
			return b, false
		}
		same := b.Cause == a.Cause && b.Target.UID == a.Target.UID && b.Mode == a.Mode && slices.Equal(b.Approvers, a.Approvers) &&
			b.Params["from"] == a.Params["from"] && b.Params["labels"] == a.Params["labels"] &&
			similar(b.Params["to"], a.Params["to"])
		expired := b.State == state.AwaitingApproval && !b.ExpiresAt.After(p.cfg.Clock.Now())
		return b, same && !expired
	}
	return state.Action{}, false
}

// similar reports whether two numbers differ by at most a quarter of the larger one.
func similar(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err1 != nil || err2 != nil {
		return a == b
	}
	return math.Abs(x-y) <= max(x, y)/4
}

// denials returns the names of the guards that deny.
func denials(a state.Action) string {
	var out []string
	for _, g := range a.Guards {
		if g.Decision == state.Deny {
			out = append(out, g.Guard)
		}
	}
	return strings.Join(out, " ")
}

// declined reports whether a person declined the remedy in this incident, in any form it was
// planned. It is not proposed again.
func (p *Planner) declined(a state.Action) bool {
	return slices.ContainsFunc(p.cfg.View.ActionsOf(a.Incident),
		func(b state.Action) bool { return b.SameRemedy(&a) && b.Declined() })
}

// events returns the inputs of a new run. A refused run is proposed and denied, so that its reasons
// are on record.
func (p *Planner) events(a state.Action, refused bool) []state.Input {
	now := p.cfg.Clock.Now()
	a.Steps = []state.ActionStep{{State: a.State, At: now, Text: a.Change, Actor: self}}
	if !refused {
		return []state.Input{event(now, "", a)}
	}
	a.State, a.Steps[0].State = state.Proposed, state.Proposed
	first := event(now, "", a)
	_, why, _ := guard.Weigh(a.Guards)
	a.Steps = slices.Clone(a.Steps)
	if a.Move(state.Denied, now, why, self) != nil {
		return []state.Input{first}
	}
	return []state.Input{first, event(now, state.Proposed, a)}
}

// cancelPlans ends the incident's actions that have not written anything, except those to keep.
func (p *Planner) cancelPlans(
	in state.Incident, keep map[state.ActionID]bool, to state.ActionState, why string,
) []state.Input {
	var out []state.Input
	now := p.cfg.Clock.Now()
	for _, a := range p.cfg.View.ActionsOf(in.ID) {
		from := a.State
		if !from.BeforeEffect() || keep[a.ID] || a.Form > state.ActionForm {
			continue
		}
		if a.Move(to, now, why, self) == nil {
			out = append(out, event(now, from, a))
		}
	}
	return out
}

// event returns a step of a run as an input. Its ID names the step, so that the log recognises a
// repetition.
func event(now time.Time, from state.ActionState, a state.Action) state.Input {
	return state.Input{
		ID: state.Hash("action", string(a.ID), string(from), string(a.State), strconv.Itoa(len(a.Steps)),
			fmt.Sprint(now.UnixNano())),
		At: now, Cluster: a.Target.Cluster, Action: &state.ActionEvent{From: from, Action: a},
	}
}
