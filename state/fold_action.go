package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// actionMoved applies a runner's step: a new run, or the next state of one. A step from a state
// that the run has left is dropped.
func (x *step) actionMoved(ev ActionEvent) {
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
	if by := cur.Journal[CalledOff]; by != "" && next.Journal[CalledOff] == "" { // it came while the runner took this step
		next.Journal = maps.Clone(next.Journal)
		if next.Journal == nil {
			next.Journal = map[string]string{}
		}
		next.Journal[CalledOff] = by
		if next.State == Intent {
			next.NextAt = time.Time{}
		}
	}
	if moved && next.State == Applied && next.Journal[CalledOff] != "" {
		next.Steps = slices.Clone(next.Steps)
		last := &next.Steps[len(next.Steps)-1]
		last.Text = strings.TrimPrefix(last.Text+"; "+next.CallOff(), "; ")
	}
	held := next.Journal[HeldUntil] != cur.Journal[HeldUntil]
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

func (x *step) actionProposed(in *Incident, ev ActionEvent) {
	a := ev.Action
	if ev.From != "" || (a.State != Proposed && a.State != AwaitingApproval) || !in.Open() {
		return
	}
	if slices.ContainsFunc(in.Actions, func(id ActionID) bool { return x.actions[id].SameRemedy(&a) && x.actions[id].Declined() }) {
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
func (x *step) moveAction(in *Incident, a *Action, to ActionState, text string, by Actor) {
	if err := a.Move(to, x.now, text, by); err != nil {
		return // not legal: the run is already further
	}
	x.touch(kindAction, string(a.ID))
	x.actionShown(in, a)
	x.planAgain(in, a)
	x.runAction(a)
}

// actionShown tells of a run's new state.
func (x *step) actionShown(in *Incident, a *Action) {
	last := a.Steps[len(a.Steps)-1]
	text := fmt.Sprintf("%s: %s", a.Change, strings.ReplaceAll(string(a.State), "_", " "))
	if last.Text != "" && last.Text != a.Change {
		text += ": " + last.Text
	}
	quiet := a.State == Admitted || a.State == Intent
	x.record(in, Entry{Kind: "action", Actor: last.Actor, Action: a.ID, Text: text, Quiet: quiet})
	if in.Status == StatusOpen || in.Status == StatusAcked || in.Status == StatusMitigating {
		in.Status = x.activeStatus(in)
	}
	if in.Rev++; in.Status != StatusResolved || len(in.Channels) > 0 {
		x.tell(in)
	}
	x.changedIncident(in)
}

// holdShown tells that a run waits: it may go on by itself hours after a person approved it.
func (x *step) holdShown(in *Incident, a *Action) {
	until, err := time.Parse(time.RFC3339Nano, a.Journal[HeldUntil])
	if err != nil {
		return // from another version of the bot
	}
	x.record(in, Entry{Kind: "action", Actor: Actor{ID: "paramedic", Via: "paramedic"}, Action: a.ID,
		Text: fmt.Sprintf("%s: held until %s: %s", a.Change, until.UTC().Format("2006-01-02 15:04 MST"), a.Journal[HeldBy])})
	x.show(in)
}

// runAction keeps the run effect for as long as the runner has work on the action.
func (x *step) runAction(a *Action) {
	id := EffectID("run:" + string(a.ID))
	if a.State.Running() || (a.State == Proposed && a.Mode == "auto") {
		due := x.now
		if a.NextAt.After(due) {
			due = a.NextAt
		}
		x.put(Effect{ID: id, Kind: EffectRun, Cluster: a.Target.Cluster, Incident: a.Incident, Action: a.ID, Due: due})
		return
	}
	x.drop(id)
}
