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

// A Planner delivers plan effects: it works out and guards the remedies that the incident's
// playbook offers. It only reads, but for dry runs in the modes that may write.
type Planner struct{ cfg *Config }

// Deliver plans for the effect's incident. Delivered again, it finds what it planned in the view
// and adds nothing.
func (p *Planner) Deliver(ctx context.Context, e state.Effect) outbox.Result {
	now := p.cfg.Clock.Now()
	in, ok := p.cfg.View.Incident(e.Incident)
	if !ok {
		return done(e)
	}
	if !in.Open() {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true},
			Inputs: p.callOff(in, nil, state.Cancelled, "the incident is resolved")}
	}
	inputs, again := p.plan(ctx, in)
	if err := ctx.Err(); err != nil {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Error: "planning was interrupted",
			RetryAt: now.Add(p.cfg.Timing.Poll)}}
	}
	out := outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: !again}, Inputs: inputs}
	if again {
		out.Outcome.RetryAt = now.Add(p.cfg.Timing.Replan)
	}
	return out
}

func done(e state.Effect) outbox.Result {
	return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}}
}

// plan gives the events of the new plan, and whether to plan again later because something was
// denied that may come to be allowed.
func (p *Planner) plan(ctx context.Context, in state.Incident) (inputs []state.Input, again bool) {
	pb, ok := p.cfg.Playbook(in.Diagnosis)
	if in.Diagnosis.Playbook == "" || !ok || pb.ID == string(state.Unknown) { // how to triage by hand is for people
		return p.callOff(in, nil, state.Superseded, "there is no playbook for it"), false
	}
	if p.overtaken(in.ID) >= overtakenMost {
		return p.callOff(in, nil, state.Superseded,
			"its plans come to nothing at their write: the workload changes, or the cluster refuses"), false
	}
	if p.cfg.Clusters[in.Cluster] == nil && !p.cfg.Mode.Writes() {
		return nil, false // nothing to propose where the workload cannot even be read; the playbook says it in words
	}
	ev, _ := p.cfg.View.Evidence(in.ID)
	keep := map[state.ActionID]bool{}
	var fresh []state.Input
	planned := 0
	for _, r := range pb.FirstAid {
		kind, ok := actionOf(r.Action)
		if !ok {
			continue // for people
		}
		a, refused := p.draft(ctx, in, ev, kind, r)
		if p.declined(a) {
			continue
		}
		old, same := p.standing(a, refused)
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
	return append(p.callOff(in, keep, state.Superseded, "the plan changed"), fresh...), again
}

// overtakenMost is how many plans of one incident may come to nothing at their write before the bot
// stays out of the way.
const overtakenMost = 3

// overtaken counts the incident's runs that recorded an intent, and were superseded by another hand
// or refused by the cluster.
func (p *Planner) overtaken(id state.IncidentID) (n int) {
	for _, a := range p.cfg.View.ActionsOf(id) {
		if (a.State == state.Superseded || a.State == state.Denied) && !guard.Written(a).IsZero() {
			n++
		}
	}
	return n
}

// draft is the action that the remedy amounts to now. It is refused where it cannot be, or where a
// guard denies it in a mode that would write: it is then recorded with every reason.
func (p *Planner) draft(ctx context.Context, in state.Incident, ev state.Evidence, kind action,
	r playbooks.Remedy) (state.Action, bool) {
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
// same ID. The IDs of an incident's actions are in the order in which they were planned: before
// counts those of this plan that come first.
func (p *Planner) identify(a state.Action, in state.Incident, before int) state.Action {
	a.PlanHash = guard.PlanHash(&a)
	n := len(p.cfg.View.ActionsOf(in.ID)) + before
	seed := strings.Join([]string{string(in.ID), a.Kind, a.Target.Cluster, a.Target.String(), a.Target.UID,
		a.Params["arg"]}, "|")
	a.ID = state.NewActionID(in.OpenedAt.Add(time.Duration(n)*time.Millisecond), seed)
	return a
}

// standing returns the incident's newest run of the remedy, and whether it stands for the same
// plan. A value that moved by less than a quarter is the same plan, so that people are not shown a
// new one with every breath of the load. A denied run stands for a plan that the same guards
// refuse; where they allow it now it is offered again.
func (p *Planner) standing(a state.Action, refused bool) (state.Action, bool) {
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
		same := b.Target.UID == a.Target.UID && b.Mode == a.Mode && slices.Equal(b.Approvers, a.Approvers) &&
			b.Params["from"] == a.Params["from"] && b.Params["labels"] == a.Params["labels"] &&
			near(b.Params["to"], a.Params["to"])
		expired := b.State == state.AwaitingApproval && !b.ExpiresAt.After(p.cfg.Clock.Now())
		return b, same && !expired
	}
	return state.Action{}, false
}

func near(a, b string) bool {
	x, err1 := strconv.ParseFloat(a, 64)
	y, err2 := strconv.ParseFloat(b, 64)
	if err1 != nil || err2 != nil {
		return a == b
	}
	return math.Abs(x-y) <= max(x, y)/4
}

// denials are the names of the guards that deny.
func denials(a state.Action) string {
	var out []string
	for _, g := range a.Guards {
		if g.Decision == state.Deny {
			out = append(out, g.Guard)
		}
	}
	return strings.Join(out, " ")
}

// declined says whether a person said no to the remedy, in whatever form it was planned then: it is
// not proposed to them again.
func (p *Planner) declined(a state.Action) bool {
	return slices.ContainsFunc(p.cfg.View.ActionsOf(a.Incident),
		func(b state.Action) bool { return b.SameRemedy(&a) && b.Declined() })
}

// events are the inputs of a new run; a refused one is proposed and denied, so that its reasons are
// on record.
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

// callOff ends the incident's actions that have not written anything, but for those to keep.
func (p *Planner) callOff(in state.Incident, keep map[state.ActionID]bool, to state.ActionState,
	why string) []state.Input {
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

// event is a step of a run as an input. Its ID names the step, so that the log can tell a
// repetition.
func event(now time.Time, from state.ActionState, a state.Action) state.Input {
	return state.Input{
		ID: state.Hash("action", string(a.ID), string(from), string(a.State), strconv.Itoa(len(a.Steps)),
			fmt.Sprint(now.UnixNano())),
		At: now, Cluster: a.Target.Cluster, Action: &state.ActionEvent{From: from, Action: a},
	}
}
