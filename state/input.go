package state

import (
	"errors"
	"time"
)

// An Input is one thing that happened. It is durable before anybody is told that it was accepted,
// and is applied once, in its order. Exactly one of the pointers is set, but for a tick, which has
// none.
type Input struct {
	Seq     uint64    `json:"-"` // position in the log, given by the store when it is read
	ID      string    `json:"id,omitempty"`
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster"` // chooses the partition

	Alerts   *AlertBatch  `json:"alerts,omitempty"`
	Evidence *Evidence    `json:"evidence,omitempty"`
	Command  *Command     `json:"command,omitempty"`
	Outcome  *Outcome     `json:"outcome,omitempty"`
	Action   *ActionEvent `json:"action,omitempty"`
	Foreign  *Foreign     `json:"foreign,omitempty"`
	Vanished *Vanished    `json:"vanished,omitempty"`
}

// MaxBatch is the most alerts in one AlertBatch: a payload with more is appended as several inputs
// in one atomic write, and what one input changes always fits one commit.
const MaxBatch = 100

// An AlertBatch is a webhook payload, or a part of a large one.
type AlertBatch struct {
	Receiver    string  `json:"receiver,omitempty"`
	GroupKey    string  `json:"group_key,omitempty"`
	ExternalURL string  `json:"external_url,omitempty"`
	Truncated   uint64  `json:"truncated,omitempty"` // alerts that Alertmanager left out (max_alerts)
	Alerts      []Alert `json:"alerts"`

	GroupLabels map[string]string `json:"group_labels,omitempty"`
}

// A Verb is what a person asks for.
type Verb string

// The verbs.
const (
	VerbAck      Verb = "ack"
	VerbResolve  Verb = "resolve"
	VerbSilence  Verb = "silence"
	VerbFeedback Verb = "feedback"
	VerbApprove  Verb = "approve"
	VerbDeny     Verb = "deny"
	VerbCancel   Verb = "cancel"
	VerbDiagnose Verb = "diagnose"
	VerbHalt     Verb = "halt"
	VerbResume   Verb = "resume"
)

// A Command is what a person did. The door that took it has authenticated the actor and checked the
// role.
type Command struct {
	Verb     Verb       `json:"verb"`
	Incident IncidentID `json:"incident,omitempty"`
	Action   ActionID   `json:"action,omitempty"`
	Actor    Actor      `json:"actor"`
	Reason   string     `json:"reason,omitempty"`
	Until    time.Time  `json:"until,omitzero"`      // silence
	PlanHash string     `json:"plan_hash,omitempty"` // approve: the plan that the person saw
	// Seen is the state that the person saw. To cancel a run that was seen to need a person says
	// that it is taken care of.
	Seen  ActionState `json:"seen,omitempty"`
	Right bool        `json:"right,omitempty"` // feedback
	Cause Cause       `json:"cause,omitempty"` // feedback
	// Refused says why the door refused it. It is then recorded and changes nothing.
	Refused string `json:"refused,omitempty"`
}

// An ActionEvent is a step of a run, or a new run. It is applied only if the run is still in From
// ("" for a new run) and the transition is legal: so a runner that was overtaken changes nothing.
type ActionEvent struct {
	From   ActionState `json:"from,omitempty"`
	Action Action      `json:"action"`
}

// A Foreign is what another tool says of an incident: of one of ours (Key is our incident's ID) or
// of its own.
type Foreign struct {
	Source  string            `json:"source"` // "pagerduty"
	Event   string            `json:"event"`  // triggered, acknowledged, unacknowledged, resolved, reopened, annotated
	ID      string            `json:"id"`
	Key     string            `json:"key,omitempty"` // deduplication key
	Title   string            `json:"title,omitempty"`
	URL     string            `json:"url,omitempty"`
	Service string            `json:"service,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"` // what its text yields: alertname, pod, namespace, model_name …
	Actor   Actor             `json:"actor,omitzero"`
	At      time.Time         `json:"at,omitzero"` // when it happened there
}

// Vanished are alerts that were taken for firing and that Alertmanager does not hold: they have
// gone without a word.
type Vanished struct {
	At           time.Time     `json:"at"` // when Alertmanager was asked
	Fingerprints []Fingerprint `json:"fingerprints"`
}

// An EffectKind says which adapter delivers an effect.
type EffectKind string

// The kinds of effects.
const (
	EffectPrepare EffectKind = "prepare" // ask ahead for the past of the incident, while its symptoms are gathered
	EffectEnrich  EffectKind = "enrich"  // gather evidence for the incident
	EffectNotify  EffectKind = "notify"  // show the incident's newest revision on one channel
	EffectNote    EffectKind = "note"    // write the diagnosis into another tool's incident
	EffectPlan    EffectKind = "plan"    // work out and guard the remedies that the playbook offers
	EffectRun     EffectKind = "run"     // take the run's next step
)

// An Effect is something to be done in the world. It stays on the board until an Outcome says that
// it is done or given up.
type Effect struct {
	ID       EffectID   `json:"id"`
	Kind     EffectKind `json:"kind"`
	Cluster  string     `json:"cluster"`
	Incident IncidentID `json:"incident,omitempty"`
	Action   ActionID   `json:"action,omitempty"`
	Channel  Channel    `json:"channel,omitempty"`
	Ref      string     `json:"ref,omitempty"`  // note: the other tool's incident
	Want     uint64     `json:"want,omitempty"` // notify: the revision to show
	Due      time.Time  `json:"due,omitzero"`   // not before this
	Since    time.Time  `json:"since"`          // when it was first wanted
	Attempts int        `json:"attempts,omitempty"`
	Error    string     `json:"error,omitempty"` // of the last attempt
	// Turn is the input that last gave the effect to its adapter: one outcome answers one turn.
	Turn uint64 `json:"turn"`
}

// An Outcome is what came of one attempt to deliver an effect.
type Outcome struct {
	Effect EffectID `json:"effect"`
	Turn   uint64   `json:"turn"`
	// Done: it happened, or it never will (Error says why). Otherwise it is tried again at RetryAt.
	Done    bool      `json:"done"`
	Error   string    `json:"error,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Rev and Ref go to the incident's Told for the effect's channel.
	Rev uint64            `json:"rev,omitempty"`
	Ref map[string]string `json:"ref,omitempty"`
}

// ErrFenced means that another reader has committed to the partition: what this one holds in memory
// is stale.
var ErrFenced = errors.New("partition was committed by another reader")

// ErrUnavailable means that an input could not be made durable now, and that nothing of it was
// kept. The sender should try again.
var ErrUnavailable = errors.New("the log cannot take inputs now")
