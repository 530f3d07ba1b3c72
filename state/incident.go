package state

import "time"

// Status is where an incident is in its life.
type Status string

// The statuses of an incident. Monitoring holds an incident whose alerts are all gone, until
// ResolveHold has passed.
const (
	StatusOpen       Status = "open"
	StatusAcked      Status = "acked"
	StatusMitigating Status = "mitigating"
	StatusMonitoring Status = "monitoring"
	StatusResolved   Status = "resolved"
)

// A Channel is a way to tell people.
type Channel string

// The channels.
const (
	ChannelConsole   Channel = "console"
	ChannelSlack     Channel = "slack"
	ChannelPagerDuty Channel = "pagerduty"
)

// An Incident is one trouble: its alerts folded to symptoms, the verdict, and what people were told
// of it.
type Incident struct {
	ID       IncidentID `json:"id"`
	Number   int        `json:"number"`
	Cluster  string     `json:"cluster"`
	Status   Status     `json:"status"`
	Severity Severity   `json:"severity"`
	Title    string     `json:"title"`
	Scope    Scope      `json:"scope"`

	Symptoms     []SymptomCount `json:"symptoms"`
	AlertCount   int            `json:"alert_count"`   // episodes ever attached
	ActiveAlerts int            `json:"active_alerts"` // alerts that fire now

	// Delivery is what Alertmanager said of the notifications that brought the alerts.
	Delivery Delivery `json:"delivery,omitzero"`

	Diagnosis Diagnosis `json:"diagnosis"`
	// RuledOut are causes that what was seen for the cause that stands rules out for good, even if
	// it is not seen any more.
	RuledOut []Cause `json:"ruled_out,omitempty"`
	// Over are the symptoms that it had when all of its alerts were last gone, unless it got
	// another cause since.
	Over []Symptom `json:"over,omitempty"`

	StartedAt   time.Time `json:"started_at"`            // the first alert's startsAt: the trouble's onset
	OpenedAt    time.Time `json:"opened_at"`             // when Paramedic heard of it
	DiagnosedAt time.Time `json:"diagnosed_at,omitzero"` // the first verdict, which may be unknown
	NamedAt     time.Time `json:"named_at,omitzero"`     // the first verdict of the cause that stands; zero while that is unknown
	AckedAt     time.Time `json:"acked_at,omitzero"`
	AckedBy     Actor     `json:"acked_by,omitzero"`
	ResolvedAt  time.Time `json:"resolved_at,omitzero"`
	ResolvedBy  string    `json:"resolved_by,omitempty"` // "alerts", a person's name, "merge"
	HandedAt    time.Time `json:"handed_at,omitzero"`    // when first aid last needed a person: it is routed like a critical one since
	PageAt      time.Time `json:"page_at,omitzero"`      // when the last event of its page that was applied happened at PagerDuty

	SilencedUntil time.Time `json:"silenced_until,omitzero"` // no notification before this, but for a rise in severity
	// Everywhere is the rule whose alerts the incident counts wherever it fires: one that is not
	// known and opened an incident for each.
	Everywhere string       `json:"everywhere,omitempty"`
	MergedInto IncidentID   `json:"merged_into,omitempty"`
	Absorbed   []IncidentID `json:"absorbed,omitempty"`
	Feedback   []Feedback   `json:"feedback,omitempty"`
	Actions    []ActionID   `json:"actions,omitempty"`
	External   []External   `json:"external,omitempty"` // incidents that other tools opened for the same trouble

	// Due-times; zero when nothing is due.
	NotifyBy  time.Time `json:"notify_by,omitzero"`  // speak by then, with or without a verdict
	HoldUntil time.Time `json:"hold_until,omitzero"` // monitoring ends in resolved
	EnrichAt  time.Time `json:"enrich_at,omitzero"`  // gather evidence again

	// Rev counts the changes that people should see; what a channel has shown is in Told.
	Rev      uint64           `json:"rev"`
	Channels []Channel        `json:"channels,omitempty"`
	Told     map[Channel]Told `json:"told,omitempty"`
	Entries  int              `json:"entries"` // timeline entries so far
}

// A Delivery is what Alertmanager says of a notification. An incident keeps the newest receiver and
// address, and the group labels that all of its notifications had.
type Delivery struct {
	Receiver    string            `json:"receiver,omitempty"`
	ExternalURL string            `json:"external_url,omitempty"`
	GroupLabels map[string]string `json:"group_labels,omitempty"`
}

// Told is what one channel knows of an incident: its own handles, and the revision it last showed.
type Told struct {
	Rev uint64    `json:"rev"`
	At  time.Time `json:"at,omitzero"`
	// Ref are the channel's handles: Slack's "channel", "ts" and "thread" (the last timeline entry
	// posted in the thread); PagerDuty's "status" (triggered, acknowledged or resolved).
	Ref map[string]string `json:"ref,omitempty"`
}

// A SymptomCount is one symptom of an incident.
type SymptomCount struct {
	Symptom  Symptom   `json:"symptom"`
	Severity Severity  `json:"severity"`
	Alerts   int       `json:"alerts"` // episodes
	Active   int       `json:"active"` // firing now
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	// Rules are the alert rules behind it, each once; Entities what they are about, at most 32.
	Rules    []string `json:"rules,omitempty"`
	Entities []Entity `json:"entities,omitempty"`
	// Hints are the signs' hints, merged.
	Hints map[string]string `json:"hints,omitempty"`
}

// Feedback is what a person said of a diagnosis.
type Feedback struct {
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Right  bool      `json:"right"`
	Cause  Cause     `json:"cause,omitempty"` // what it really was
	Reason string    `json:"reason,omitempty"`
}

// An External is an incident of another tool about the same trouble.
type External struct {
	Source string `json:"source"` // "pagerduty"
	ID     string `json:"id"`
	URL    string `json:"url,omitempty"`
	Title  string `json:"title,omitempty"`
	Noted  bool   `json:"noted"`           // the diagnosis was written there
	Cause  Cause  `json:"cause,omitempty"` // the one that was written last
	Notes  int    `json:"notes,omitempty"` // how many were written
}

// Cause is the verdict's cause, unknown before the first.
func (in *Incident) Cause() Cause {
	if in.Diagnosis.Cause == "" {
		return Unknown
	}
	return in.Diagnosis.Cause
}

// Open says whether the incident still takes alerts.
func (in *Incident) Open() bool { return in.Status != StatusResolved }

// An Actor is who did something.
type Actor struct {
	ID   string `json:"id"` // Slack's user ID, PagerDuty's, or the API token's name
	Name string `json:"name,omitempty"`
	Via  string `json:"via"` // slack, pagerduty, api, page, cli, paramedic
	Role Role   `json:"role,omitempty"`
	// Unverified marks a name that is the person's own word: the token has no name, or the API asks
	// for none.
	Unverified bool `json:"unverified,omitempty"`
	// Alias is the person's other ID by auth.api.tokens_file: the Slack user of a token, or the
	// token's name of a Slack user.
	Alias string `json:"alias,omitempty"`
}

// String returns the actor's name for people, or the ID where there is no name. A name that people
// can change, as in Slack and PagerDuty, comes with the ID, and one that no door has checked is
// marked.
func (a Actor) String() string {
	id := a.ID
	if a.Via == "slack" || a.Via == "pagerduty" {
		id = a.Via + ":" + a.ID
	}
	switch {
	case a.Name == "":
		return id
	case a.Unverified:
		return a.Name + " (unverified)"
	case a.ID != "" && id != a.ID:
		return a.Name + " (" + id + ")"
	}
	return a.Name
}

// Role is what an API token may do: viewers read, responders act on incidents, approve and halt,
// admins also allow first aid again.
type Role string

// The roles, least first.
const (
	Viewer    Role = "viewer"
	Responder Role = "responder"
	Admin     Role = "admin"
)

// Allows says whether the role may do what needs the other.
func (r Role) Allows(need Role) bool {
	rank := map[Role]int{Viewer: 1, Responder: 2, Admin: 3}
	return rank[r] > 0 && rank[r] >= rank[need]
}

// An Entry is one step of an incident's timeline. Entries are kept for as long as the incident is.
type Entry struct {
	Incident IncidentID `json:"incident"`
	N        int        `json:"n"` // 1, 2, 3 … in the incident
	At       time.Time  `json:"at"`
	Kind     string     `json:"kind"` // opened, symptom, diagnosed, notified, acked, unacked, action, guard, resolved, reopened, merged, split, refused, note
	Text     string     `json:"text"` // plain text, one line
	Actor    Actor      `json:"actor,omitzero"`
	Action   ActionID   `json:"action,omitempty"`
	Seq      uint64     `json:"seq"` // the input that it came of
	// Quiet entries are for the record; the others are also told in the Slack thread.
	Quiet bool `json:"quiet,omitempty"`
}

// RefCause is the handle of a note's outcome that names the cause that was written.
const RefCause = "cause"
