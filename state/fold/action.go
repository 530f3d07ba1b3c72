package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// actionMoved applies a runner's step: a new run, or the next state of one. A step from a state
// that the run has left is dropped.
func (x *step) actionMoved(ev state.ActionEvent) {
	next := ev.Action
	in := x.home(next.Incident)
	if in == nil {
		return
	}
	cur := x.actions[next.ID]
	if cur == nil {
		x.actionProposed(in, ev)
		return
	}
	if cur.State != ev.From || (next.State != cur.State && !cur.State.LeadsTo(next.State)) {
		return
	}
	moved := next.State != cur.State
	if by := cur.Journal[state.CalledOff]; by != "" && next.Journal[state.CalledOff] == "" { // it came while the runner took this step
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
		x.holdShown(in, cur)
	}
	if moved {
		if cur.NeedsPerson() {
			x.handOver(in, cur)
		}
		x.actionShown(in, cur)
		x.planAgain(in, cur)
	}
	x.runAction(cur)
}

func (x *step) actionProposed(in *state.Incident, ev state.ActionEvent) {
	a := ev.Action
	if ev.From != "" || (a.State != state.Proposed && a.State != state.AwaitingApproval) || !in.Open() {
		return
	}
	if slices.ContainsFunc(in.Actions, func(id state.ActionID) bool { return x.actions[id].SameRemedy(&a) && x.actions[id].Declined() }) {
		return // it was planned before a person said no, or by who had not heard of it
	}
	x.actions[a.ID] = &a
	in.Actions = append(in.Actions, a.ID)
	x.touch(kindAction, string(a.ID))
	x.scheduleAction(&a)
	x.actionShown(in, &a)
	x.runAction(&a)
}

// moveAction takes a run to a state that the fold itself decides on.
func (x *step) moveAction(in *state.Incident, a *state.Action, to state.ActionState, text string, by state.Actor) {
	if err := a.Move(to, x.now, text, by); err != nil {
		return // not legal: the run is already further
	}
	x.touch(kindAction, string(a.ID))
	x.actionShown(in, a)
	x.planAgain(in, a)
	x.runAction(a)
}

// actionShown tells of a run's new state.
func (x *step) actionShown(in *state.Incident, a *state.Action) {
	last := a.Steps[len(a.Steps)-1]
	text := fmt.Sprintf("%s: %s", a.Change, strings.ReplaceAll(string(a.State), "_", " "))
	if last.Text != "" && last.Text != a.Change {
		text += ": " + last.Text
	}
	quiet := a.State == state.Admitted || a.State == state.Intent
	x.record(in, state.Entry{Kind: "action", Actor: last.Actor, Action: a.ID, Text: text, Quiet: quiet})
	if in.Status == state.StatusOpen || in.Status == state.StatusAcked || in.Status == state.StatusMitigating {
		in.Status = x.activeStatus(in)
	}
	if in.Rev++; in.Status != state.StatusResolved || len(in.Channels) > 0 {
		x.tell(in)
	}
	x.changedIncident(in)
}

// holdShown tells that a run waits: it may go on by itself hours after a person approved it.
func (x *step) holdShown(in *state.Incident, a *state.Action) {
	until, err := time.Parse(time.RFC3339Nano, a.Journal[state.HeldUntil])
	if err != nil {
		return // from another version of the bot
	}
	x.record(in, state.Entry{Kind: "action", Actor: state.Actor{ID: "paramedic", Via: "paramedic"}, Action: a.ID,
		Text: fmt.Sprintf("%s: held until %s: %s", a.Change, until.UTC().Format("2006-01-02 15:04 MST"), a.Journal[state.HeldBy])})
	x.show(in)
}

// runAction keeps the run effect for as long as the runner has work on the action.
func (x *step) runAction(a *state.Action) {
	id := state.EffectID("run:" + string(a.ID))
	if a.State.Running() || (a.State == state.Proposed && a.Mode == "auto") {
		due := x.now
		if a.NextAt.After(due) {
			due = a.NextAt
		}
		x.put(state.Effect{ID: id, Kind: state.EffectRun, Cluster: a.Target.Cluster, Incident: a.Incident, Action: a.ID, Due: due})
		return
	}
	x.drop(id)
}
