package state

import (
	"errors"
	"time"
)

// An Input is one event in the log. It is durable before its sender gets a success, and it is
// applied once, in its order. Exactly one of the pointers is set; a tick has none.
type Input struct {
	Seq     uint64    `json:"-"` // position in the log, set by the store
	Part    int       `json:"-"` // place among the inputs that the log holds at this position
	More    bool      `json:"-"` // the next input has the same position: no commit comes between
	ID      string    `json:"id,omitempty"`
	At      time.Time `json:"at"`
	Cluster string    `json:"cluster"` // chooses the partition
	// Trace is the W3C trace context (traceparent) of the work that made the input. Empty: it is
	// not traced.
	Trace string `json:"trace,omitempty"`

	Alerts   *AlertBatch  `json:"alerts,omitempty"`
	Evidence *Evidence    `json:"evidence,omitempty"`
	Command  *Command     `json:"command,omitempty"`
	Outcome  *Outcome     `json:"outcome,omitempty"`
	Action   *ActionEvent `json:"action,omitempty"`
	Foreign  *Foreign     `json:"foreign,omitempty"`
	Vanished *Vanished    `json:"vanished,omitempty"`
	Clock    *ClockStep   `json:"clock,omitempty"`
	Flood    *FloodCount  `json:"flood,omitempty"`
}

// Turn returns a number that no other input of the partition has.
func (in *Input) Turn() uint64 { return in.Seq + uint64(in.Part)<<40 } //nolint:gosec // Part is small

// A SkippedInput is an input that this version cannot apply. It stays in the log.
type SkippedInput struct {
	Partition int       `json:"partition"`
	Seq       uint64    `json:"input"`          // its sequence in the log
	Part      int       `json:"part,omitempty"` // its place among the inputs there
	At        time.Time `json:"at"`             // when it was skipped
	Reason    string    `json:"reason"`
}

// A ClockStep reports that the clock of the active process was set to another time.
type ClockStep struct {
	By time.Duration `json:"by"` // negative: backwards
}

// MaxBatch is the most alerts in one AlertBatch. A larger payload is appended as several inputs in
// one atomic write, so that the changes of one input always fit one commit.
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

// A Verb is a person's command.
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

// A Command is a person's action. The sender has authenticated the actor and checked the role.
type Command struct {
	Verb     Verb       `json:"verb"`
	Incident IncidentID `json:"incident,omitempty"`
	Action   ActionID   `json:"action,omitempty"`
	Actor    Actor      `json:"actor"`
	Reason   string     `json:"reason,omitempty"`
	Until    time.Time  `json:"until,omitzero"`      // silence
	PlanHash string     `json:"plan_hash,omitempty"` // approve: the plan that the person saw
	// Seen is the run's state that the person saw. A cancel of a run that was seen to need a person
	// confirms that it is handled.
	Seen  ActionState `json:"seen,omitempty"`
	Right bool        `json:"right,omitempty"` // feedback
	Cause Cause       `json:"cause,omitempty"` // feedback
	// Refused is the reason why the command was refused on arrival. It is then recorded and changes
	// nothing.
	Refused string `json:"refused,omitempty"`
}

// An ActionEvent is a new run, or a step of a run. It is applied only if the run is still in From
// (empty for a new run) and the transition is legal. A runner with an old state thus changes
// nothing.
type ActionEvent struct {
	From   ActionState `json:"from,omitempty"`
	Action Action      `json:"action"`
	// Turn names the delivery that took the step: the turn of the run's effect. The step is dropped
	// if the effect has another turn by now. Zero, as in older records, is not compared.
	Turn uint64 `json:"turn,omitempty"`
}

// A Foreign is another tool's event about an incident. Key is our incident's ID if the event is
// about one of ours.
type Foreign struct {
	Source  string            `json:"source"` // "pagerduty"
	Event   string            `json:"event"`  // triggered, acknowledged, unacknowledged, resolved, reopened, annotated
	ID      string            `json:"id"`
	Key     string            `json:"key,omitempty"` // deduplication key
	Title   string            `json:"title,omitempty"`
	URL     string            `json:"url,omitempty"`
	Service string            `json:"service,omitempty"`
	Low     bool              `json:"low,omitempty"`    // its urgency is low
	Labels  map[string]string `json:"labels,omitempty"` // labels found in its text: alertname, pod, namespace, model_name …
	Actor   Actor             `json:"actor,omitzero"`
	At      time.Time         `json:"at,omitzero"` // when it happened at the tool
}

// MaxHeld bounds how many alerts of one Vanished count as reported. Each is a record to write.
const MaxHeld = 150

// Vanished answers for alerts that Alertmanager has not reported for a while. Fingerprints lists
// those that counted as firing and that it no longer has, without a resolution. Held lists those
// that it has.
type Vanished struct {
	At           time.Time     `json:"at"` // when Alertmanager was queried
	Fingerprints []Fingerprint `json:"fingerprints"`
	Held         []Fingerprint `json:"held,omitempty"`
}

// An EffectKind selects the adapter that delivers an effect.
type EffectKind string

// The kinds of effects.
const (
	EffectPrepare EffectKind = "prepare" // ahead of enrich: query the past; only boards of older versions have it as an effect
	EffectEnrich  EffectKind = "enrich"  // gather evidence for the incident
	EffectNotify  EffectKind = "notify"  // show the incident's newest revision on one channel
	EffectFlood   EffectKind = "flood"   // show the flood of a channel in one summary
	EffectNote    EffectKind = "note"    // write the diagnosis into another tool's incident
	EffectPlan    EffectKind = "plan"    // compute the remedies of the playbook, and ask the guards
	EffectRun     EffectKind = "run"     // take the run's next step
)

// An Effect is an action in the outside world. It stays on the board until an Outcome reports that
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
	// Turn is the input that last handed the effect to its adapter. One outcome answers one turn.
	Turn uint64 `json:"turn"`
}

// An Outcome is the result of one attempt to deliver an effect.
type Outcome struct {
	Effect EffectID `json:"effect"`
	Turn   uint64   `json:"turn"`
	// Done means that the effect happened, or never will and Error has the reason. Otherwise it is
	// tried again at RetryAt.
	Done    bool      `json:"done"`
	Error   string    `json:"error,omitempty"`
	RetryAt time.Time `json:"retry_at,omitzero"`
	// Rev and Ref are merged into the incident's Told of the effect's channel.
	Rev uint64            `json:"rev,omitempty"`
	Ref map[string]string `json:"ref,omitempty"`
	// Tried is the revision that the delivery was about, also if the channel did not show it.
	Tried uint64 `json:"tried,omitempty"`
}

// ErrFenced means that another reader has committed to the partition. The caller's copy in memory
// is stale.
var ErrFenced = errors.New("partition was committed by another reader")

// ErrUnavailable means that an input could not be made durable now, and that no part of it was
// stored. The sender should try again.
var ErrUnavailable = errors.New("the log cannot take inputs now")
