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

// A Verb is one permission of Kubernetes RBAC.
type Verb struct{ Group, Resource, Verb string }

// An action is one kind of first aid. It MUST take at most one effect per call of apply and undo.
// Before it repeats an effect it MUST read whether that effect happened.
type action interface {
	// verbs lists the write permissions that the action needs. Reads are in ReadVerbs.
	verbs() []Verb
	guard.Kind
	// target chooses the one object to act on, given the incident.
	target(in state.Incident, ev state.Evidence, params map[string]string) (state.Target, error)
	// draft completes the plan from live reads. It returns an error that says why the remedy does
	// not apply.
	draft(s *guard.Scene) error
	// apply continues from a recorded intent. live waits until the effect is in force. undo
	// continues from a recorded intent to roll back.
	apply(ctx context.Context, r *stage) advance
	live(ctx context.Context, r *stage) advance
	undo(ctx context.Context, r *stage) advance
	// still runs while the change is verified. It returns the state to go to if the change is no
	// longer the run's own, and no state otherwise.
	still(ctx context.Context, r *stage) (advance, error)
	reversible() bool
}

// actionOf returns the action of a kind. To add one, add its file and a case here, and its verbs to
// the Roles under deploy.
func actionOf(kind string) (action, bool) {
	switch kind {
	case setEngineArgKind:
		return setEngineArg{}, true
	case restartWorkerKind:
		return restartWorker{}, true
	}
	return nil, false
}

// WriteVerbs returns the write permissions that first aid needs in the namespaces that it may
// treat.
func WriteVerbs() []Verb {
	var out []Verb
	for _, kind := range playbooks.Actions() {
		if a, ok := actionOf(kind); ok {
			out = append(out, a.verbs()...)
		}
	}
	return out
}

// ReadVerbs returns the read permissions that planning, guarding and verifying need.
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
	due     time.Time // the step's due time; zero: at once
	turn    uint64    // the turn of the effect that the step answers
	// optedOut means that the namespace is no longer opted in. The bot then does not even undo its
	// own change.
	optedOut bool
}

// An advance is the result of one step: the state to go to, or to stay in, and how long to wait
// until the next step.
type advance struct {
	to   state.ActionState
	text string
	wait time.Duration
}

func (r *stage) stay(wait time.Duration) advance { return advance{to: r.act.State, wait: wait} }

// note writes an entry of the journal.
func (r *stage) note(key, value string) {
	if r.act.Journal == nil {
		r.act.Journal = map[string]string{}
	}
	r.act.Journal[key] = value
}

// stopped returns why no new effect may be started, or "". Verification and rollback of a change
// that was made go on regardless. It is asked right before each write and reads the recorded state:
// reading the cluster takes a while, and a person may cancel meanwhile.
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

// stamp returns the time of the first call with this key, and records it in the journal.
func (r *stage) stamp(key string) time.Time {
	if t, err := time.Parse(time.RFC3339Nano, r.act.Journal[key]); err == nil {
		return t
	}
	r.note(key, r.now.Format(time.RFC3339Nano))
	return r.now
}

// person hands the run over to a person, with the command that undoes the write.
func (r *stage) person(text string) advance {
	if r.act.Write.Inverse != "" {
		text += "; to undo it by hand: " + undoCommand(r.act)
	}
	return advance{to: state.NeedsHuman, text: text}
}
