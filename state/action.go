package state

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// ActionState is the state of a run. [Action.Move] enforces the transitions.
type ActionState string

// The states of a run.
const (
	Proposed         ActionState = "proposed"
	AwaitingApproval ActionState = "awaiting_approval"
	Approved         ActionState = "approved"
	Admitted         ActionState = "admitted"
	Intent           ActionState = "intent"
	Applied          ActionState = "applied"
	Verifying        ActionState = "verifying"
	Succeeded        ActionState = "succeeded"
	RollbackIntent   ActionState = "rollback_intent"
	RolledBack       ActionState = "rolled_back"
	NeedsHuman       ActionState = "needs_human"
	Denied           ActionState = "denied"
	Expired          ActionState = "expired"
	Cancelled        ActionState = "cancelled"
	Superseded       ActionState = "superseded"
)

// ActionStates returns every state of an action.
func ActionStates() []ActionState {
	return []ActionState{Proposed, AwaitingApproval, Approved, Admitted, Intent, Applied, Verifying, Succeeded, RollbackIntent,
		RolledBack, NeedsHuman, Denied, Expired, Cancelled, Superseded}
}

// legal lists the transitions of a run. A run can be cancelled before it writes. After its intent
// it ends with a proof or with a person. A run that wrote is superseded only if the old value was
// restored by someone else: nothing is left to verify or to undo.
var legal = map[ActionState][]ActionState{
	Proposed:         {AwaitingApproval, Admitted, Denied, Cancelled, Superseded, Expired},
	AwaitingApproval: {Approved, Denied, Expired, Cancelled, Superseded},
	Approved:         {Admitted, Denied, Expired, Cancelled, Superseded},
	Admitted:         {Intent, Denied, Expired, Cancelled, Superseded},
	Intent:           {Applied, NeedsHuman, Superseded, Denied},
	Applied:          {Verifying, NeedsHuman, RollbackIntent, Superseded},
	Verifying:        {Succeeded, RollbackIntent, NeedsHuman, Superseded},
	RollbackIntent:   {RolledBack, NeedsHuman, Superseded},
}

// Known reports whether this version knows the state. A newer version may have recorded another.
func (s ActionState) Known() bool {
	switch s {
	case Succeeded, RolledBack, NeedsHuman, Denied, Expired, Cancelled, Superseded:
		return true
	}
	return len(legal[s]) > 0
}

// Words returns the state as texts show it.
func (s ActionState) Words() string {
	switch s {
	case RollbackIntent:
		return "rolling back"
	case NeedsHuman:
		return "needs a person"
	}
	return strings.ReplaceAll(string(s), "_", " ")
}

// Done reports whether the run has ended. NeedsHuman is an end for the bot, but the run keeps its
// lock until a person releases it. An unknown state is no end.
func (s ActionState) Done() bool { return s.Known() && len(legal[s]) == 0 }

// BeforeEffect reports whether the run has written nothing yet, so that it can be cancelled.
func (s ActionState) BeforeEffect() bool {
	switch s {
	case Proposed, AwaitingApproval, Approved, Admitted:
		return true
	}
	return false
}

// Running reports whether the runner has work to do on the run.
func (s ActionState) Running() bool {
	switch s {
	case Approved, Admitted, Intent, Applied, Verifying, RollbackIntent:
		return true
	}
	return false
}

// Decision is a guard's answer.
type Decision string

// The decisions. Hold means "not now": the run is tried again after RetryAt.
const (
	Allow Decision = "allow"
	Hold  Decision = "hold"
	Deny  Decision = "deny"
)

// A GuardResult is one guard's answer with its reason. Any answer but Allow stops a write.
type GuardResult struct {
	Guard    string    `json:"guard"`
	Decision Decision  `json:"decision"`
	Reason   string    `json:"reason"`
	RetryAt  time.Time `json:"retry_at,omitzero"`
	At       time.Time `json:"at,omitzero"`
}

// A Target is the one object that an action writes to.
type Target struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace,omitempty"`
	Kind      string `json:"kind"` // Deployment, Pod, Node
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Container string `json:"container,omitempty"`
	Pool      string `json:"pool,omitempty"` // the workload of the target
}

// String returns the target as kind namespace/name.
func (t Target) String() string {
	if t.Namespace == "" {
		return fmt.Sprintf("%s %s", t.Kind, t.Name)
	}
	return fmt.Sprintf("%s %s/%s", t.Kind, t.Namespace, t.Name)
}

// ActionForm is the version of the meaning of an Action's fields. Raise it if a bot that does not
// know a new field would judge a run wrongly.
const ActionForm = 1

// An Action is one run of one remedy: the plan, the guards' answers, the approver, the write, its
// rollback and the verdict.
type Action struct {
	ID       ActionID    `json:"id"`
	Form     int         `json:"form,omitempty"` // the [ActionForm] of the bot that planned it
	Incident IncidentID  `json:"incident"`
	Cause    Cause       `json:"cause"`
	Kind     string      `json:"kind"` // set_engine_arg, restart_worker
	Mode     string      `json:"mode"` // observe, suggest, approve, auto: the mode when it was planned
	Target   Target      `json:"target"`
	State    ActionState `json:"state"`
	// Params holds the plan under keys that its kind defines: "arg", "from", "to"; "pod".
	Params  map[string]string `json:"params,omitempty"`
	Change  string            `json:"change"`  // "max_num_seqs 256 → 128", "restart pod llm/vllm-7f9c-x2k"
	Why     string            `json:"why"`     // how the new value was computed, and its expected effect
	Command string            `json:"command"` // the equivalent kubectl command
	Guards  []GuardResult     `json:"guards"`

	// An approval is bound to exactly this plan.
	PlanHash  string    `json:"plan_hash"`
	Approvers []string  `json:"approvers,omitempty"` // who may approve; empty: responders, on every channel
	ExpiresAt time.Time `json:"expires_at,omitzero"`
	DecidedBy Actor     `json:"decided_by,omitzero"`
	DecidedAt time.Time `json:"decided_at,omitzero"`
	Reason    string    `json:"reason,omitempty"` // why it ended in its state

	// Write is recorded before the effect. After a crash it shows whether the write happened.
	Write Write `json:"write,omitzero"`
	// Journal holds the kind's own record of progress in several steps ("isolated", "drained",
	// "evicted").
	Journal map[string]string `json:"journal,omitempty"`

	Verify Verification `json:"verify,omitzero"`
	Steps  []ActionStep `json:"steps"`
	// NextAt is the time of the runner's next look; zero means at once.
	NextAt time.Time `json:"next_at,omitzero"`
}

// A Write is one effect on a cluster: the old value, the new value, and the marks that identify our
// write.
type Write struct {
	OpID    string    `json:"op_id,omitempty"` // written as an annotation in the same write
	UID     string    `json:"uid,omitempty"`
	Old     string    `json:"old,omitempty"`
	New     string    `json:"new,omitempty"`
	Path    string    `json:"path,omitempty"` // JSON pointer of the value written
	Patch   string    `json:"patch,omitempty"`
	Inverse string    `json:"inverse,omitempty"`
	At      time.Time `json:"at,omitzero"`
	AsOf    string    `json:"as_of,omitempty"` // generation after the write
}

// Verdict is the result of a verification.
type Verdict string

// The four verdicts.
const (
	Better       Verdict = "better"
	Worse        Verdict = "worse"
	Inconclusive Verdict = "inconclusive"
	VerifyError  Verdict = "error"
)

// A Verification compares the time after a write with the time before, and with peers that were not
// changed.
type Verification struct {
	Before   map[string][]float64 `json:"before,omitempty"`   // readings of the window before the write
	Baseline map[string]float64   `json:"baseline,omitempty"` // their medians
	// Leading names the signals that must improve. The verdict rests on them.
	Leading []string             `json:"leading,omitempty"`
	Watched map[string][]float64 `json:"watched,omitempty"` // the last readings of guardrails while the write takes effect
	Samples map[string][]float64 `json:"samples,omitempty"`
	Undone  map[string][]float64 `json:"undone,omitempty"` // samples since the rollback took effect
	Settle  time.Time            `json:"settle,omitzero"`  // samples before this do not count
	Until   time.Time            `json:"until,omitzero"`
	Verdict Verdict              `json:"verdict,omitempty"`
	Text    string               `json:"text,omitempty"`
	Errors  int                  `json:"errors,omitempty"`
}

// An ActionStep is one transition of a run.
type ActionStep struct {
	State ActionState `json:"state"`
	At    time.Time   `json:"at"`
	Text  string      `json:"text,omitempty"`
	Actor Actor       `json:"actor,omitzero"`
}

// LeadsTo reports whether a run may go from this state to the next.
func (s ActionState) LeadsTo(next ActionState) bool { return slices.Contains(legal[s], next) }

// Move takes the run to another state. If the transition is not legal, Move returns an error and
// changes nothing.
func (a *Action) Move(to ActionState, at time.Time, text string, by Actor) error {
	if !a.State.LeadsTo(to) {
		return fmt.Errorf("action %s cannot go from %s to %s", a.ID, a.State, to)
	}
	a.State = to
	a.Steps = append(a.Steps, ActionStep{State: to, At: at, Text: text, Actor: by})
	if to.Done() {
		a.Reason = text
	}
	return nil
}

// NeedsPerson reports whether the run waits until a person confirms that it is handled. Until then
// it keeps its lock, and its incident stays open. A run in a state that this version does not know
// waits for a person, too.
func (a *Action) NeedsPerson() bool {
	return (a.State == NeedsHuman || !a.State.Known()) && a.Journal[Released] == ""
}

// Need ranks runs by how urgently they need a person. 3: a run that waits for one. 2: a run in
// progress. 1: a run that has not begun. 0: a run that has ended.
func (a *Action) Need() int {
	switch {
	case a.State == AwaitingApproval, a.NeedsPerson():
		return 3
	case a.State.Running():
		return 2
	case !a.State.Done() && a.Journal[Released] == "":
		return 1
	}
	return 0
}

// Begun reports whether the run was admitted or has recorded an intent. Budgets and locks count
// such runs, and runs in an unknown state.
func (a *Action) Begun() bool {
	return a.State == Admitted || a.NeedsPerson() || a.Reached(Intent)
}

// Reached reports whether the run was ever in the state.
func (a *Action) Reached(s ActionState) bool {
	return slices.ContainsFunc(a.Steps, func(step ActionStep) bool { return step.State == s })
}

// SameRemedy reports whether both runs apply the same kind of change to the same object.
func (a *Action) SameRemedy(b *Action) bool {
	return a.Kind == b.Kind && a.Target.Namespace == b.Target.Namespace && a.Target.Name == b.Target.Name
}

// Declined reports whether a person refused the run, in any final state. The remedy is then
// not proposed again for the incident. An approval that a guard or the incident's end overruled is
// no refusal.
func (a *Action) Declined() bool {
	if a.Journal[CalledOff] != "" {
		return true
	}
	if len(a.Steps) == 0 || a.State != Denied && a.State != Cancelled {
		return false
	}
	return a.DecidedBy.ID != "" && a.Steps[len(a.Steps)-1].Actor == a.DecidedBy
}

// RanOut reports whether the run expired or was denied by a guard before it wrote anything. Its
// remedy is planned again.
func (a *Action) RanOut() bool {
	return (a.State == Expired || a.State == Denied) && !a.Declined()
}

// CallOff describes what became of a person's request to stop a run that had recorded its intent.
// It is empty if there was no request, or if the run ended without a write and its reason says so.
// Only the run's next state shows whether the write was already on its way.
func (a *Action) CallOff() string {
	by := a.Journal[CalledOff]
	switch {
	case by == "":
		return ""
	case a.State == Intent:
		return fmt.Sprintf("called off by %s: Paramedic writes nothing more, unless the write is already on its way", by)
	case a.Reached(Applied):
		return fmt.Sprintf("called off by %s too late: Paramedic has already written, and verifies the change as usual", by)
	}
	return ""
}

// MoveClock moves the times that a run waits for or measures from, after the clock was set forward
// by the duration. Waiting thus takes as long as before. [HeldUntil] stays, because it is the end
// of a window of the day, and so do the times of the steps, which are a record.
func (a *Action) MoveClock(by time.Duration) {
	for _, t := range []*time.Time{&a.NextAt, &a.ExpiresAt, &a.DecidedAt, &a.Write.At, &a.Verify.Settle, &a.Verify.Until} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
	a.MoveJournal(by)
}

// MoveJournal moves the times of the journal alone. By these the guards count a run that has ended.
func (a *Action) MoveJournal(by time.Duration) {
	a.Journal = maps.Clone(a.Journal)
	for key, value := range a.Journal {
		if t, err := time.Parse(time.RFC3339Nano, value); err == nil && key != HeldUntil {
			a.Journal[key] = t.Add(by).Format(time.RFC3339Nano)
		}
	}
}

// Released is the journal key of the person who handled a run that needed one. Until it is set the
// run keeps its lock.
const Released = "released_by"

// CalledOff is the journal key of the person who called off a run that had recorded its intent.
const CalledOff = "called_off_by"

// The journal keys of a run that a guard holds: the end of the hold, if the guard names one, and
// the reason.
const (
	HeldUntil = "held_until"
	HeldBy    = "held_by"
)
