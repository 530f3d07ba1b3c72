package fold

import (
	"cmp"
	"fmt"
	"time"

	"paramedic/state"
)

// applyCommand applies a person's command. A command that was refused on arrival is recorded and
// changes nothing.
func (x *step) applyCommand(c state.Command) {
	if c.Verb == state.VerbHalt || c.Verb == state.VerbResume {
		x.halt(c)
		return
	}
	a := x.actions[c.Action]
	id := c.Incident
	if a != nil {
		id = a.Incident
	}
	in := x.root(id)
	if in == nil {
		return
	}
	if c.Refused != "" {
		x.record(in, state.Entry{Kind: "refused", Actor: c.Actor, Action: c.Action,
			Text: fmt.Sprintf("Paramedic refused %s by %s: %s", c.Verb, c.Actor, c.Refused)})
		return
	}
	switch c.Verb {
	case state.VerbAck:
		x.ack(in, c.Actor, c.Reason)
	case state.VerbResolve:
		x.resolve(in, c.Actor, c.Reason)
	case state.VerbSilence:
		in.SilencedUntil = c.Until
		x.setTimer(in, c.Until)
		x.record(in, state.Entry{Kind: "silenced", Actor: c.Actor, Quiet: true,
			Text: fmt.Sprintf("silenced by %s until %s%s", c.Actor, c.Until.Format(time.RFC3339),
				withReason(c.Reason))})
	case state.VerbFeedback:
		in.Feedback = append(in.Feedback, state.Feedback{At: x.now, Actor: c.Actor, Right: c.Right, Cause: c.Cause,
			Reason: oneLine(c.Reason)})
		said := "right"
		if !c.Right {
			said = "wrong"
			if c.Cause != "" {
				said += ", and the cause is " + string(c.Cause)
			}
		}
		x.record(in, state.Entry{Kind: "feedback", Actor: c.Actor, Quiet: true,
			Text: fmt.Sprintf("%s says that the verdict is %s%s", c.Actor, said, withReason(c.Reason))})
	case state.VerbDiagnose:
		in.EnrichAt = x.now
		x.wantEvidence(in)
		x.planNow(in)
		x.changedIncident(in)
	case state.VerbApprove:
		x.approve(in, a, c)
	case state.VerbDeny:
		x.deny(in, a, c)
	case state.VerbCancel:
		x.cancel(in, a, c)
	}
}

func withReason(reason string) string {
	if reason == "" {
		return ""
	}
	return ": " + reason
}

func (x *step) ack(in *state.Incident, by state.Actor, reason string) { x.ackAt(in, by, reason, x.now) }

// ackAt acknowledges an incident for a person who did so at a time, which may be a while ago at
// another tool.
func (x *step) ackAt(in *state.Incident, by state.Actor, reason string, at time.Time) {
	if !in.Open() || in.Acknowledged() || at.Before(in.HandedAt) {
		return
	}
	in.AckedAt, in.AckedBy = later(at, in.OpenedAt), knownActor(by)
	if in.Status == state.StatusOpen {
		in.Status = state.StatusAcked
	}
	x.record(in, state.Entry{Kind: "acked", Actor: by,
		Text: fmt.Sprintf("acknowledged by %s%s", by, withReason(reason))})
	x.publish(in)
}

// knownActor returns the actor, or nil for a zero one.
func knownActor(by state.Actor) *state.Actor {
	if by == (state.Actor{}) {
		return nil
	}
	return &by
}

func (x *step) resolve(in *state.Incident, by state.Actor, reason string) {
	if !in.Open() {
		return
	}
	text := fmt.Sprintf("resolved by %s%s", by, withReason(reason))
	if a := x.runNeedingPerson(in); a != nil {
		text += fmt.Sprintf("; %s (%s) needs a person and locks %s: take care of it, then cancel it", a.Change, a.ID, a.Target)
	}
	x.record(in, state.Entry{Kind: "resolved", Actor: by, Text: text})
	for _, id := range in.Actions {
		if a := x.actions[id]; a.State == state.Intent {
			x.callOff(in, a, by, "the incident is resolved")
		}
	}
	x.resolveIncident(in, by.String())
}

func (x *step) halt(c state.Command) {
	if c.Refused != "" {
		return
	}
	if c.Verb == state.VerbHalt {
		x.halts[x.in.Cluster] = &state.Halt{At: x.now, Actor: c.Actor, Reason: oneLine(c.Reason)}
	} else {
		delete(x.halts, x.in.Cluster)
	}
	x.touch(kindHalt, x.in.Cluster)
	for _, in := range x.incidents {
		if in.Open() && in.Cluster == x.in.Cluster && len(in.Actions) > 0 {
			x.record(in, state.Entry{Kind: verbText(c), Actor: c.Actor,
				Text: fmt.Sprintf("%s %s first aid in cluster %s%s", c.Actor, verbText(c), x.in.Cluster,
					withReason(c.Reason))})
		}
	}
}

func verbText(c state.Command) string {
	if c.Verb == state.VerbHalt {
		return "halted"
	}
	return "resumed"
}

// approve applies an approval if it came in time and is for the current plan.
func (x *step) approve(in *state.Incident, a *state.Action, c state.Command) {
	switch {
	case a == nil:
	case a.State != state.AwaitingApproval:
		x.record(in, state.Entry{Kind: "refused", Actor: c.Actor, Action: a.ID, Quiet: true,
			Text: fmt.Sprintf("%s: the approval by %s came too late (state: %s)", a.Change, c.Actor, a.State.Words())})
	case !x.now.Before(a.ExpiresAt):
		x.moveAction(in, a, state.Expired, "no person approved it in time", state.Actor{ID: "paramedic", Via: "paramedic"})
	case c.PlanHash != a.PlanHash:
		x.record(in, state.Entry{Kind: "refused", Actor: c.Actor, Action: a.ID,
			Text: fmt.Sprintf("%s: %s approved another plan: read the present plan, then approve it", a.Change, c.Actor)})
	case !in.Open():
		x.moveAction(in, a, state.Cancelled, "the incident was resolved before the approval",
			state.Actor{ID: "paramedic", Via: "paramedic"})
	default:
		a.DecidedBy, a.DecidedAt = c.Actor, x.now
		x.moveAction(in, a, state.Approved, fmt.Sprintf("approved by %s%s", c.Actor, withReason(c.Reason)), c.Actor)
	}
}

// deny applies a denial. A run that needs no approval may have gone on while the person read its
// plan: it is cancelled.
func (x *step) deny(in *state.Incident, a *state.Action, c state.Command) {
	switch {
	case a == nil:
	case a.State == state.AwaitingApproval, a.State == state.Proposed:
		a.DecidedBy, a.DecidedAt = c.Actor, x.now
		x.moveAction(in, a, state.Denied, fmt.Sprintf("denied by %s%s", c.Actor, withReason(c.Reason)), c.Actor)
	case a.DecidedBy.ID == "":
		x.cancel(in, a, c)
	default:
		x.recordTooLate(in, a, c)
	}
}

// cancel stops a run.
//
// A run that has written nothing is cancelled. A run with an intent is asked to stop at its next
// step: a worker that is being drained returns to its Service. For a superseded run its successors
// are cancelled, because the person meant the remedy and not one plan of it. A run that has written
// is verified as usual, and rolled back if it does harm: to stop in between would leave an
// unverified write. If the person saw that the run needs a person, cancel confirms that it is
// handled and releases its lock.
func (x *step) cancel(in *state.Incident, a *state.Action, c state.Command) {
	switch {
	case a == nil:
	case a.State.BeforeEffect():
		a.DecidedBy, a.DecidedAt = c.Actor, x.now
		x.moveAction(in, a, state.Cancelled, fmt.Sprintf("cancelled by %s%s", c.Actor, withReason(c.Reason)), c.Actor)
	case a.State == state.Superseded:
		x.callOff(in, a, c.Actor, c.Reason)
		for _, id := range in.Actions {
			if b := x.actions[id]; b.SameRemedy(a) && (b.State.BeforeEffect() || b.State == state.Intent) {
				x.cancel(in, b, c)
			}
		}
	case a.State.Running():
		x.callOff(in, a, c.Actor, c.Reason)
	case a.NeedsPerson() && c.Seen == a.State:
		x.setJournal(a, state.Released, c.Actor.String())
		x.record(in, state.Entry{Kind: "action", Actor: c.Actor, Action: a.ID,
			Text: fmt.Sprintf("%s: taken care of by %s%s", a.Change, c.Actor, withReason(c.Reason))})
		x.publish(in)
		x.endHold(in)
	default:
		x.recordTooLate(in, a, c)
	}
}

// callOff records that a person wants the run to stop, and schedules the runner at once.
func (x *step) callOff(in *state.Incident, a *state.Action, by state.Actor, reason string) {
	if a.Journal[state.CalledOff] != "" {
		return
	}
	x.setJournal(a, state.CalledOff, by.String())
	if a.State == state.Intent {
		a.NextAt = time.Time{}
	}
	text := cmp.Or(a.CallOff(), "called off by "+by.String())
	x.record(in, state.Entry{Kind: "action", Actor: by, Action: a.ID,
		Text: fmt.Sprintf("%s: %s%s", a.Change, text, withReason(reason))})
	x.publish(in)
	x.scheduleRun(a)
}

// recordTooLate records a denial or a cancel that came after the run's state left room for it.
func (x *step) recordTooLate(in *state.Incident, a *state.Action, c state.Command) {
	what := "cancel"
	if c.Verb == state.VerbDeny {
		what = "denial"
	}
	x.record(in, state.Entry{Kind: "refused", Actor: c.Actor, Action: a.ID,
		Text: fmt.Sprintf("%s: the %s by %s came too late (state: %s)", a.Change, what, c.Actor,
			a.State.Words())})
}

func (x *step) setJournal(a *state.Action, key, value string) {
	if a.Journal == nil {
		a.Journal = map[string]string{}
	}
	a.Journal[key] = value
	x.touch(kindAction, string(a.ID))
}
