package command

import (
	"context"
	"net/http"
	"time"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

// MaxReason bounds the reason of a command, in characters.
const MaxReason = 1000

// A Request is a person's command before it is in the log. The API, the pages and Slack make the
// same requests.
type Request struct {
	state.Command
	// Nonce is part of the input's ID. Repeated deliveries of one click have the same nonce.
	Nonce    string
	clusters []string // one input each
	// applied reports whether the command has taken effect. e is a timeline entry that has just
	// been written, or nil.
	applied func(e *state.Entry) bool
}

// inputs returns the request's inputs for the log.
func (o Request) inputs(now time.Time) []state.Input {
	var out []state.Input
	for _, cluster := range o.clusters {
		cmd := o.Command
		id := state.Hash("command", string(cmd.Verb), cluster, string(cmd.Incident), string(cmd.Action), cmd.Actor.ID,
			cmd.Refused, o.Nonce)
		out = append(out, state.Input{ID: id, At: now, Cluster: cluster, Command: &cmd})
	}
	return out
}

// CarryOut makes the request durable and waits until it is applied. It returns false if that takes
// longer than wait.
func (r *Runner) CarryOut(ctx context.Context, o Request, wait time.Duration) (bool, error) {
	watch, stop := context.WithCancel(ctx)
	defer stop()
	entries := r.View.Subscribe(watch) // before the append, so that no entry is missed
	if err := r.Append(ctx, o.inputs(r.Clock.Now())...); err != nil {
		return false, err
	}
	deadline := r.Clock.After(wait)
	for {
		if o.applied(nil) {
			return true, nil
		}
		select {
		case e, ok := <-entries:
			if !ok {
				entries = nil
			} else if o.applied(&e) {
				return true, nil
			}
		case <-r.Clock.After(20 * time.Millisecond): // poll: entries may be lost, and some commands write none
		case <-deadline:
			return o.applied(nil), nil
		case <-ctx.Done():
			return false, nil
		}
	}
}

// Refuse records an attempt that an authenticated person was not allowed. It changes nothing, so a
// failure to record it is only logged.
func (r *Runner) Refuse(ctx context.Context, o Request, reason string) {
	o.Refused = reason
	if err := r.Append(ctx, o.inputs(r.Clock.Now())...); err != nil {
		r.Logger.ErrorContext(ctx, "refused attempt was not recorded", "verb", o.Verb, "actor", o.Actor.ID, "reason", reason,
			"err", err)
	}
}

// OnIncident returns a request on an incident, without its actor.
func (r *Runner) OnIncident(verb state.Verb, in state.Incident) Request {
	o := Request{Command: state.Command{Verb: verb, Incident: in.ID}, clusters: []string{in.Cluster}}
	now := func() state.Incident { fresh, _ := r.View.Incident(in.ID); return fresh }
	switch verb {
	case state.VerbAck:
		o.applied = func(*state.Entry) bool { in := now(); return in.Acknowledged() }
	case state.VerbResolve:
		o.applied = func(*state.Entry) bool { return now().Status == state.StatusResolved }
	case state.VerbSilence:
		o.applied = func(*state.Entry) bool { return !now().SilencedUntil.Equal(in.SilencedUntil) }
	case state.VerbFeedback:
		o.applied = func(*state.Entry) bool { return len(now().Feedback) > len(in.Feedback) }
	default: // diagnose: gathering is due now, or has already happened
		o.applied = func(*state.Entry) bool {
			fresh := now()
			return !fresh.EnrichAt.Equal(in.EnrichAt) || !fresh.Diagnosis.At.Equal(in.Diagnosis.At)
		}
	}
	return o
}

// OnAction returns a decision on an action, without its actor.
func (r *Runner) OnAction(verb state.Verb, a state.Action) Request {
	cluster := a.Target.Cluster
	if in, ok := r.View.Incident(a.Incident); ok {
		cluster = in.Cluster
	}
	return Request{
		Command:  state.Command{Verb: verb, Incident: a.Incident, Action: a.ID, PlanHash: a.PlanHash, Seen: a.State},
		clusters: []string{cluster},
		applied: func(e *state.Entry) bool {
			if e != nil && e.Action == a.ID && e.Kind == "refused" {
				return true // another decision came first; Decided reports which
			}
			fresh, ok := r.View.Action(a.ID)
			return ok && answered(verb, a, fresh)
		},
	}
}

// answered reports whether the result of a decision is known. A run may take steps of its own
// before a denial is applied. So another state alone is not enough: the run must have ended, or
// have written.
func answered(verb state.Verb, seen, now state.Action) bool {
	switch {
	case verb == state.VerbApprove:
		return now.State != seen.State
	case seen.NeedsPerson():
		return now.Journal[state.Released] != seen.Journal[state.Released]
	case verb == state.VerbDeny && now.DecidedBy != seen.DecidedBy:
		return true // another person's approval may have come first
	}
	return !now.State.BeforeEffect() && now.State != state.Intent
}

// OnClusters returns a request on the first aid of all the given clusters.
func (r *Runner) OnClusters(verb state.Verb, clusters []string) Request {
	return Request{Command: state.Command{Verb: verb}, clusters: clusters, applied: func(*state.Entry) bool {
		for _, c := range clusters {
			if _, halted := r.View.Halted(c); halted != (verb == state.VerbHalt) {
				return false
			}
		}
		return true
	}}
}

// CheckIncident returns why a command on an incident makes no sense now. done is true if the
// command has no effect because it was done before.
func CheckIncident(verb state.Verb, in state.Incident) (done bool, err error) {
	if in.MergedInto != "" && verb != state.VerbFeedback {
		return false, httpio.Fail(http.StatusConflict, "%s was merged into %s: use that incident", in.ID, in.MergedInto)
	}
	resolved := in.Status == state.StatusResolved
	switch verb {
	case state.VerbAck:
		done = in.Acknowledged()
	case state.VerbResolve:
		return resolved, nil
	case state.VerbFeedback:
		return false, nil
	}
	if resolved {
		return false, httpio.Fail(http.StatusConflict, "%s is resolved: %s has no effect", in.ID, verb)
	}
	return done, nil
}

// CheckAction returns why a decision on an action cannot be taken now. An approval names the plan
// that the person saw, through whichever channel it comes, and a cancellation the state. The fold
// checks all of it again, in the log's order.
func (r *Runner) CheckAction(verb state.Verb, a state.Action, planHash string, seen state.ActionState) error {
	if verb == state.VerbCancel {
		// On a run that needs a person, a cancellation reports that it is taken care of.
		intended := a.State == state.Intent && a.Journal[state.CalledOff] == ""
		if !a.State.BeforeEffect() && !intended && (!a.NeedsPerson() || seen != a.State) {
			return tooLate(verb, a)
		}
		return nil
	}
	if a.State != state.AwaitingApproval && (verb != state.VerbDeny || a.State != state.Proposed) {
		return httpio.Fail(http.StatusConflict, "%s does not wait for a decision: %s", a.ID, whyNoDecision(a))
	}
	if a.State == state.AwaitingApproval && !a.ExpiresAt.IsZero() && !r.Clock.Now().Before(a.ExpiresAt) {
		return httpio.Fail(http.StatusConflict, "the approval of %s expired at %s; %s", a.ID,
			a.ExpiresAt.UTC().Format(time.RFC3339), plannedAgain)
	}
	if planHash == "" && verb == state.VerbApprove {
		none := httpio.Fail(http.StatusBadRequest, "say which plan you approve: %s (%s) has the plan_hash %s", a.ID,
			a.Change, state.ShortPlan(a.PlanHash))
		none.Missing = "plan_hash"
		return none
	}
	if planHash != "" && len(planHash) < len(state.ShortPlan(a.PlanHash)) {
		return httpio.Fail(http.StatusBadRequest, "%q is too short for a plan of %s: give at least %d characters of its plan_hash",
			planHash, a.ID, len(state.ShortPlan(a.PlanHash)))
	}
	if planHash != "" && !a.IsPlan(planHash) {
		return httpio.Fail(http.StatusConflict,
			"the plan of %s has changed since you saw it: read it again before you decide", a.ID)
	}
	if in, ok := r.View.Incident(a.Incident); ok && !in.Open() && verb == state.VerbApprove {
		return httpio.Fail(http.StatusConflict, "%s is resolved: %s is no longer needed", in.ID, a.ID)
	}
	return nil
}

// whyNoDecision returns why an action does not await a decision.
func whyNoDecision(a state.Action) string {
	reason := "it is " + string(a.State)
	switch {
	case a.State == state.Proposed && (a.Mode == "suggest" || a.Mode == "observe"):
		reason = "Paramedic does not write in mode " + a.Mode + ": run it yourself: " + a.Command
	case a.DecidedBy.ID != "" && (a.Reason == "" || a.Declined()):
		reason += ", decided by " + a.DecidedBy.String()
	case a.Reason != "":
		reason += ": " + a.Reason
	}
	if a.State == state.Expired {
		reason += "; " + plannedAgain
	}
	return reason
}

// plannedAgain is the advice for a decision that comes too late.
const plannedAgain = "Paramedic plans it again while the incident is open, and at once if you ask for a new diagnosis"

// Decided returns the action after a decision was applied, or why the decision had no effect:
// another person's may have come first.
func (r *Runner) Decided(o Request) (state.Action, error) {
	a, _ := r.View.Action(o.Action)
	if o.Verb != state.VerbCancel && a.DecidedBy.ID != "" && a.DecidedBy.ID != o.Actor.ID {
		return a, httpio.Fail(http.StatusConflict, "%s was decided by %s before you: it is %s", a.ID, a.DecidedBy,
			a.State)
	}
	if o.Verb == state.VerbApprove && a.State == state.AwaitingApproval {
		return a, httpio.Fail(http.StatusConflict,
			"the plan of %s has changed since you saw it: read it again before you decide", a.ID)
	}
	if o.Verb == state.VerbApprove &&
		(a.State == state.Expired || a.State == state.Cancelled || a.State == state.Superseded) {
		return a, httpio.Fail(http.StatusConflict, "%s can no longer be approved: it is %s: %s", a.ID, a.State,
			a.Reason)
	}
	if o.Verb == state.VerbApprove {
		return a, nil
	}
	switch a.State {
	case state.Denied, state.Cancelled, state.Expired, state.Superseded:
		return a, nil // not written, or not any more
	}
	if a.Journal[state.Released] != "" {
		return a, nil
	}
	return a, tooLate(o.Verb, a)
}

// tooLate returns the error for a run that cannot be stopped any more, with what happens to it.
func tooLate(verb state.Verb, a state.Action) error {
	was, then := "cancelled", ""
	if verb == state.VerbDeny {
		was = "denied"
	}
	switch {
	case a.State == state.Applied, a.State == state.Verifying:
		then = "; Paramedic verifies the write, and rolls it back if it does harm and can be rolled back"
	case a.NeedsPerson():
		then = " and needs a person: " + a.Reason + ". Fix it, then cancel it"
	case a.State.BeforeEffect():
		then = "; cancel it"
	case a.Reason != "":
		then = ": " + a.Reason
	case a.CallOff() != "":
		then = ": " + a.CallOff()
	}
	return httpio.Fail(http.StatusConflict, "%s can no longer be %s: it is %s%s", a.ID, was, a.State, then)
}
