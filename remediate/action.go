package remediate

import (
	"context"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/state"
)

// The kinds of actions.
const (
	setEngineArgKind  = playbooks.ActionSetEngineArg
	restartWorkerKind = playbooks.ActionRestartWorker
)

// A Verb is one permission in Kubernetes' terms.
type Verb struct{ Group, Resource, Verb string }

// An action is one kind of first aid. It MUST take at most one effect per call of apply and undo,
// and MUST look whether that effect happened before it repeats it.
type action interface {
	// verbs are the writes that it needs; reads are in ReadVerbs.
	verbs() []Verb
	guard.Kind
	// target chooses the one object, from what the incident says.
	target(in state.Incident, ev state.Evidence, params map[string]string) (state.Target, error)
	// draft completes the plan from live reads; an error says why the remedy does not apply.
	draft(s *guard.Scene) error
	// apply goes on from a recorded intent, live waits until the effect is in force, undo goes on
	// from a recorded intent to roll back.
	apply(ctx context.Context, r *stage) advance
	live(ctx context.Context, r *stage) advance
	undo(ctx context.Context, r *stage) advance
	// still returns, while the change is verified, where the run goes because the change is no
	// longer its own; no state: it is.
	still(ctx context.Context, r *stage) (advance, error)
	reversible() bool
}

// actionOf is the action of a kind. To add one, add its file and a case here, and its verbs to the
// Roles under deploy.
func actionOf(kind string) (action, bool) {
	switch kind {
	case setEngineArgKind:
		return setEngineArg{}, true
	case restartWorkerKind:
		return restartWorker{}, true
	}
	return nil, false
}

// WriteVerbs are the write permissions that first aid needs in the namespaces that it may treat.
func WriteVerbs() []Verb {
	var out []Verb
	for _, kind := range playbooks.Actions() {
		if a, ok := actionOf(kind); ok {
			out = append(out, a.verbs()...)
		}
	}
	return out
}

// ReadVerbs are the read permissions that planning, guarding and verifying need.
func ReadVerbs() []Verb {
	return []Verb{{"", "namespaces", "get"}, {"", "pods", "get"}, {"", "pods", "list"}, {"", "services", "list"},
		{"apps", "deployments", "get"}, {"apps", "statefulsets", "get"}, {"apps", "replicasets", "list"},
		{"policy", "poddisruptionbudgets", "list"}, {"autoscaling", "horizontalpodautoscalers", "list"}}
}

// A stage is one delivery of a run's effect.
type stage struct {
	cfg     *Config
	cluster cluster.Cluster
	act     *state.Action // the runner's own copy, whose journal may be written
	in      state.Incident
	now     time.Time
	due     time.Time // when the step was to be taken; zero: at once
	// optedOut says that the namespace is no longer opted in: then not even what was started is
	// undone by the bot.
	optedOut bool
}

// An advance is what came of one step: the state to go to, or to stay in, and how long to wait
// until the next.
type advance struct {
	to   state.ActionState
	text string
	wait time.Duration
}

func (r *stage) stay(wait time.Duration) advance { return advance{to: r.act.State, wait: wait} }

// note writes the journal.
func (r *stage) note(key, value string) {
	if r.act.Journal == nil {
		r.act.Journal = map[string]string{}
	}
	r.act.Journal[key] = value
}

// stopped says why no new effect may be started; empty: it may. What was started is still verified
// and undone. It is asked right before each write, and reads what is recorded by then: reading the
// cluster takes a while, and a person may have said no meanwhile.
func (r *stage) stopped() string {
	if h, halted := r.cfg.View.Halted(r.act.Target.Cluster); halted {
		return "first aid was halted by " + guard.HaltedBy(h)
	}
	if now, ok := r.cfg.View.Action(r.act.ID); ok && now.Journal[state.CalledOff] != "" {
		r.note(state.CalledOff, now.Journal[state.CalledOff])
		return "called off by " + now.Journal[state.CalledOff]
	}
	if r.optedOut {
		return "the namespace opted out of first aid"
	}
	return r.stricter()
}

// stamp notes when something first was so, and gives that time.
func (r *stage) stamp(key string) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, r.act.Journal[key]); err == nil {
		return t
	}
	r.note(key, r.now.Format(time.RFC3339Nano))
	return r.now
}

// person hands the run over, with the patch that would undo it.
func (r *stage) person(text string) advance {
	if r.act.Write.Inverse != "" {
		text += "; to undo it by hand: " + undoCommand(r.act)
	}
	return advance{to: state.NeedsHuman, text: text}
}
