package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// applyActionEvent applies a new run, or a runner's step of a run. A step from an old state or of
// an old turn is dropped.
func (x *step) applyActionEvent(ev state.ActionEvent) {
	next := ev.Action
	in := x.root(next.Incident)
	if in == nil {
		return
	}
	cur := x.actions[next.ID]
	if cur == nil {
		x.proposeAction(in, ev)
		return
	}
	if e := x.effects[runEffect(next.ID)]; ev.Turn != 0 && (e == nil || e.Turn != ev.Turn) {
		return // another replica took this step, too, and its record came first
	}
	if cur.State != ev.From || (next.State != cur.State && !cur.State.LeadsTo(next.State)) {
		return
	}
	moved := next.State != cur.State
	// The person called it off while the runner took this step.
	if by := cur.Journal[state.CalledOff]; by != "" && next.Journal[state.CalledOff] == "" {
		next.Journal = maps.Clone(next.Journal)
		if next.Journal == nil {
			next.Journal = map[string]string{}
		}
		next.Journal[state.CalledOff] = by
		if next.State == state.Intent {
			next.NextAt = time.Time{}
		}
	}
	if moved && next.State == state.Applied && next.Journal[state.CalledOff] != "" {
		next.Steps = slices.Clone(next.Steps)
		last := &next.Steps[len(next.Steps)-1]
		last.Text = strings.TrimPrefix(last.Text+"; "+next.CallOff(), "; ")
	}
	held := next.Journal[state.HeldUntil] != cur.Journal[state.HeldUntil]
	*cur = next
	x.touch(kindAction, string(next.ID))
	if held && !moved {
		x.announceHold(in, cur)
	}
	if moved {
		if cur.NeedsPerson() {
			x.requestPerson(in, cur)
		}
		x.announceAction(in, cur)
		x.planAgain(in, cur)
	}
	x.scheduleRun(cur)
}

func (x *step) proposeAction(in *state.Incident, ev state.ActionEvent) {
	a := ev.Action
	if ev.From != "" || (a.State != state.Proposed && a.State != state.AwaitingApproval) || !in.Open() {
		return
	}
	if slices.ContainsFunc(in.Actions,
		func(id state.ActionID) bool { return x.actions[id].SameRemedy(&a) && x.actions[id].Declined() }) {
		return // planned before the person's refusal, or without knowledge of it
	}
	x.actions[a.ID] = &a
	in.Actions = append(in.Actions, a.ID)
	x.touch(kindAction, string(a.ID))
	x.scheduleAction(&a)
	x.announceAction(in, &a)
	x.scheduleRun(&a)
}

// runEffect names the effect of a run's next step.
func runEffect(id state.ActionID) state.EffectID { return state.EffectID("run:" + string(id)) }

// moveAction moves a run to a state that the fold decides on.
func (x *step) moveAction(in *state.Incident, a *state.Action, to state.ActionState, text string, by state.Actor) {
	if err := a.Move(to, x.now, text, by); err != nil {
		return // not legal: the run is already further
	}
	x.touch(kindAction, string(a.ID))
	x.announceAction(in, a)
	x.planAgain(in, a)
	x.scheduleRun(a)
}

// announceAction records and shows a run's new state.
func (x *step) announceAction(in *state.Incident, a *state.Action) {
	last := a.Steps[len(a.Steps)-1]
	text := a.State.Words()
	switch {
	case strings.HasPrefix(last.Text, text+" by "): // approved by Ada
		text = last.Text
	case last.Text != "" && last.Text != a.Change:
		text += ": " + last.Text
	}
	quiet := a.State == state.Admitted || a.State == state.Intent
	x.record(in, state.Entry{Kind: "action", Actor: last.Actor, Action: a.ID, Text: a.Change + ": " + text,
		Quiet: quiet})
	if in.Status == state.StatusOpen || in.Status == state.StatusAcked || in.Status == state.StatusMitigating {
		in.Status = x.activeStatus(in)
	}
	if in.Rev++; in.Status != state.StatusResolved || len(in.Channels) > 0 {
		x.notifyChannels(in)
	}
	x.changedIncident(in)
}

// announceHold records and shows that a run waits, because it may go on hours after a person
// approved it.
func (x *step) announceHold(in *state.Incident, a *state.Action) {
	until, err := time.Parse(time.RFC3339Nano, a.Journal[state.HeldUntil])
	if err != nil {
		return // written by another version
	}
	x.record(in, state.Entry{Kind: "action", Actor: state.Actor{ID: "paramedic", Via: "paramedic"}, Action: a.ID,
		Text: fmt.Sprintf("%s: a guard holds it until %s: %s", a.Change, until.UTC().Format("2006-01-02 15:04 MST"),
			a.Journal[state.HeldBy])})
	x.publish(in)
}

// hasRunner reports whether the runner has work on the action. In mode auto it begins by itself.
func hasRunner(a *state.Action) bool {
	return a.State.Running() || a.State == state.Proposed && a.Mode == "auto"
}

// scheduleRun keeps the run effect for as long as the runner has work on the action.
func (x *step) scheduleRun(a *state.Action) {
	id := runEffect(a.ID)
	if hasRunner(a) {
		due := x.now
		if a.NextAt.After(due) {
			due = a.NextAt
		}
		x.wantEffect(state.Effect{ID: id, Kind: state.EffectRun, Cluster: a.Target.Cluster, Incident: a.Incident,
			Action: a.ID, Due: due})
		return
	}
	x.dropEffect(id)
}
