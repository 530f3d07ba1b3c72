package remediate

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
	"paramedic/state/outbox"
)

// A Runner delivers run effects. Each delivery takes one step of the run.
type Runner struct{ cfg *Config }

// A viewAfter is a view in which one run has taken the step that is about to be recorded.
type viewAfter struct {
	state.View
	run state.Action
}

// BegunActions returns the view's begun actions, with that run after its step.
func (m viewAfter) BegunActions() []state.Action {
	all := slices.DeleteFunc(m.View.BegunActions(), func(a state.Action) bool { return a.ID == m.run.ID })
	if m.run.Begun() {
		all = append(all, m.run)
	}
	return all
}

// ActionsOf returns the incident's actions, with that run after its step.
func (m viewAfter) ActionsOf(id state.IncidentID) []state.Action {
	all := m.View.ActionsOf(id)
	for i := range all {
		if all[i].ID == m.run.ID {
			all[i] = m.run
		}
	}
	return all
}

// Deliver takes the run's next step, from its state in the view.
func (r *Runner) Deliver(ctx context.Context, e state.Effect) outbox.Result {
	now := r.cfg.Clock.Now()
	a, _ := r.cfg.View.Action(e.Action) // an unknown run has no state
	if !a.State.Running() && !(a.State == state.Proposed && policy.Mode(a.Mode) == policy.Auto) {
		return done(e)
	}
	if a.Form > state.ActionForm {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, RetryAt: now.Add(r.cfg.Timing.Replan),
			Error: "a newer version of Paramedic recorded this run: only that version may continue it"}}
	}
	if now.Before(a.NextAt) {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, RetryAt: a.NextAt}}
	}
	in, ok := r.cfg.View.Incident(a.Incident)
	kind, known := actionOf(a.Kind)
	from := a.State
	st := &stage{cfg: r.cfg, cluster: r.cfg.Clusters[a.Target.Cluster], act: &a, in: in, now: now, due: a.NextAt, turn: e.Turn}
	var adv advance
	switch {
	case !known || st.cluster == nil:
		adv = st.giveUp("this Paramedic does not know the action, or has no access to the cluster")
	case !ok && from.BeforeEffect():
		adv = advance{to: state.Cancelled, text: "the incident no longer exists"}
	default:
		adv = r.step(ctx, st, kind)
	}
	if ctx.Err() != nil && interruptible(from, adv.to) {
		return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Error: "interrupted",
			RetryAt: now.Add(r.cfg.Timing.Poll)}}
	}
	inputs := r.advance(ctx, st, from, adv)
	return outbox.Result{Outcome: state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true}, Inputs: inputs}
}

// interruptible reports whether a step that a shutdown or a deadline interrupted proves nothing.
// Such a step is not recorded, and is taken again. Progress that was seen is recorded.
func interruptible(from, to state.ActionState) bool {
	return to == from || from.BeforeEffect() || to == state.NeedsHuman || to == state.Denied
}

// giveUp ends a run that cannot continue. It is denied if nothing was written, and handed to a
// person otherwise.
func (r *stage) giveUp(why string) advance {
	if r.act.State.BeforeEffect() {
		return advance{to: state.Denied, text: why}
	}
	return r.person(why)
}

// advance returns the inputs of a step: its event, and the new plan if the run was superseded.
func (r *Runner) advance(ctx context.Context, st *stage, from state.ActionState, adv advance) []state.Input {
	a := st.act
	a.NextAt = time.Time{}
	if adv.wait > 0 {
		a.NextAt = st.now.Add(adv.wait)
	}
	if adv.to != from {
		if err := a.Move(adv.to, st.now, adv.text, self); err != nil {
			r.cfg.Logger.ErrorContext(ctx, "illegal step", "action", a.ID, "incident", a.Incident, "err", err)
			return nil
		}
	}
	if from != adv.to {
		st.note(string(adv.to), st.now.Format(time.RFC3339Nano))
	}
	if adv.to == state.Verifying && from != adv.to {
		a.Verify.Settle = st.now.Add(r.cfg.Timing.Settle)
		a.Verify.Until = a.Verify.Settle.Add(r.cfg.Timing.Window)
		a.NextAt = a.Verify.Settle
	}
	r.cfg.Logger.InfoContext(ctx, "step", "action", a.ID, "incident", a.Incident, "from", from, "to", a.State, "reason",
		adv.text)
	step := event(st.now, from, *a)
	step.Action.Turn = st.turn
	inputs := []state.Input{step}
	if adv.to == state.Superseded && st.in.Open() {
		cfg := *r.cfg
		cfg.View = viewAfter{cfg.View, *a}
		fresh, _ := (&Planner{cfg: &cfg}).plan(ctx, st.in)
		inputs = append(inputs, fresh...)
	}
	return inputs
}

// step takes the step of the run's state.
func (r *Runner) step(ctx context.Context, st *stage, kind action) advance {
	a := st.act
	if a.State.BeforeEffect() {
		return r.admit(ctx, st, kind)
	}
	if a.State == state.Intent || a.State == state.RollbackIntent {
		if ns, err := st.cluster.Namespace(ctx, a.Target.Namespace); err != nil {
			return st.retry(err)
		} else if !r.cfg.OptedIn(ns.Labels, policy.Mode(a.Mode)) {
			st.optedOut = true
		}
	}
	switch a.State {
	case state.Intent:
		return kind.apply(ctx, st)
	case state.Applied:
		return r.takeEffect(ctx, st, kind)
	case state.Verifying:
		return r.verify(ctx, st, kind)
	}
	return r.undo(ctx, st, kind)
}

// admit asks all guards on fresh reads. It asks them once to admit the run, which takes its lock,
// and once more under the lock, before it records the intent. In between it reads the baseline's
// window.
func (r *Runner) admit(ctx context.Context, st *stage, kind action) advance {
	a := st.act
	if !st.in.Open() {
		return advance{to: state.Cancelled, text: "the incident was resolved before first aid began"}
	}
	if why := st.stricter(); why != "" {
		return advance{to: state.Superseded, text: why}
	}
	if policy.Mode(a.Mode) != policy.Auto && !a.DecidedAt.Before(a.ExpiresAt) {
		return advance{to: state.Expired, text: "the approval came after the offer expired"}
	}
	end := r.cfg.ApprovedUntil(a, r.cfg.For(a.Cause, a.Kind, a.Target))
	if policy.Mode(a.Mode) != policy.Auto && !st.now.Before(end) {
		return advance{to: state.Expired,
			text: fmt.Sprintf("first aid did not begin before the approval expired at %s", end.Format("15:04:05 MST"))}
	}
	s := r.cfg.survey(ctx, st.in, a)
	if s.Problem == nil {
		s.PeersEvidence(ctx)
	}
	begun := len(a.Verify.Before) > 0 // the first reading was taken at admission
	if begun && s.Observe(st.due) {
		return st.stay(r.cfg.Timing.Interval)
	}
	a.Guards = guard.Ask(ctx, s, guard.All())
	decision, why, retry := guard.Weigh(a.Guards)
	if decision == state.Hold {
		a.Verify.Before = nil
		return r.held(st, why, retry)
	}
	if decision != state.Allow {
		return advance{to: state.Denied, text: why}
	}
	delete(a.Journal, keyHeld)
	if !begun {
		s.Observe(time.Time{})
		return advance{to: state.Admitted, text: fmt.Sprintf("all %d guards allow", len(a.Guards)), wait: r.cfg.Timing.Interval}
	}
	w, err := kind.Write(s, state.Hash("op", string(a.ID), a.PlanHash, strconv.Itoa(len(a.Steps))))
	if err != nil {
		return advance{to: state.Denied, text: "Paramedic cannot prepare the write: " + err.Error()}
	}
	w.At = st.now
	a.Write, a.Verify.Baseline = w, s.Baseline()
	a.Verify.Leading = s.Leading(a.Verify.Baseline)
	return advance{to: state.Intent, text: fmt.Sprintf("all %d guards allow, on fresh reads", len(a.Guards))}
}

// held waits while a guard holds the run. A hold that names its end lasts until then and keeps the
// approval, because people saw it when they approved and every guard is asked again. A hold without
// an end may last for ever, so it is given up after Timing.Blocked.
func (r *Runner) held(st *stage, why string, retry time.Time) advance {
	a := st.act
	if retry.Sub(st.now) > time.Minute {
		delete(a.Journal, keyHeld)
		st.note(state.HeldUntil, retry.Format(time.RFC3339Nano))
		st.note(state.HeldBy, why)
		return advance{to: a.State, wait: pause(st.now, retry, r.cfg.Timing.Replan)}
	}
	if !st.now.Before(st.stamp(keyHeld).Add(r.cfg.Timing.Blocked)) {
		return advance{to: state.Denied, text: fmt.Sprintf("a guard held it for %s: %s", state.FormatDuration(r.cfg.Timing.Blocked), why)}
	}
	return advance{to: a.State, wait: pause(st.now, retry, time.Minute)}
}

// keyHeld is the journal's key for the time since which a hold without an end has lasted.
const keyHeld = "held"
