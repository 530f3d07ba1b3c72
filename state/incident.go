package state

import "time"

// Status is an incident's place in its life cycle.
type Status string

// The statuses of an incident. A monitoring incident has no active alerts, and is resolved after
// Settings.ResolveHold.
const (
	StatusOpen       Status = "open"
	StatusAcked      Status = "acked"
	StatusMitigating Status = "mitigating"
	StatusMonitoring Status = "monitoring"
	StatusResolved   Status = "resolved"
)

// A Channel is a notification channel.
type Channel string

// The channels.
const (
	ChannelConsole   Channel = "console"
	ChannelSlack     Channel = "slack"
	ChannelPagerDuty Channel = "pagerduty"
)

// An Incident is one trouble: its symptoms, its verdict, and the record of its notifications.
type Incident struct {
	ID       IncidentID `json:"id"`
	Number   int        `json:"number"`
	Cluster  string     `json:"cluster"`
	Status   Status     `json:"status"`
	Severity Severity   `json:"severity"`
	Title    string     `json:"title"`
	Scope    Scope      `json:"scope"`

	Symptoms     []SymptomCount `json:"symptoms"`
	AlertCount   int            `json:"alert_count"`   // episodes of alerts, in total
	ActiveAlerts int            `json:"active_alerts"` // alerts that fire now

	// Delivery describes the Alertmanager notifications that brought the alerts. It is nil if none
	// did, and never changed in place.
	Delivery *Delivery `json:"delivery,omitzero"`

	Diagnosis Diagnosis `json:"diagnosis"`
	// RuledOut lists causes that evidence for the current cause ruled out. They stay ruled out when
	// that evidence fades.
	RuledOut []Cause `json:"ruled_out,omitempty"`
	// Over lists the symptoms at the time when the last alert resolved. It is cleared if the cause
	// changes.
	Over []Symptom `json:"over,omitempty"`

	StartedAt   time.Time `json:"started_at"`            // the first alert's startsAt: the onset
	OpenedAt    time.Time `json:"opened_at"`             // when Paramedic received the first alert
	DiagnosedAt time.Time `json:"diagnosed_at,omitzero"` // the first verdict, which may be unknown
	NamedAt     time.Time `json:"named_at,omitzero"`     // when the current cause was first named; zero while it is unknown
	AckedAt     time.Time `json:"acked_at,omitzero"`
	AckedBy     *Actor    `json:"acked_by,omitzero"` // nil if not known; never changed in place
	ResolvedAt  time.Time `json:"resolved_at,omitzero"`
	ResolvedBy  string    `json:"resolved_by,omitempty"` // "alerts", a person's name, "merge"
	HandedAt    time.Time `json:"handed_at,omitzero"`    // when a run last needed a person; from then it is routed as critical
	PageAt      time.Time `json:"page_at,omitzero"`      // PagerDuty's time of the last event of its page that was applied

	SilencedUntil time.Time `json:"silenced_until,omitzero"` // no notification before this, unless the severity rises
	// Everywhere is the unknown rule whose alerts this incident counts wherever they fire. Each of
	// them would otherwise open an incident.
	Everywhere string       `json:"everywhere,omitempty"`
	MergedInto IncidentID   `json:"merged_into,omitempty"`
	Relapses   int          `json:"relapses,omitempty"` // how often the trouble came back soon after its end
	Absorbed   []IncidentID `json:"absorbed,omitempty"`
	// Pools lists the pools in which the cause shows, if it shows in several.
	Pools    []PoolName `json:"pools,omitempty"`
	Feedback []Feedback `json:"feedback,omitempty"`
	Actions  []ActionID `json:"actions,omitempty"`
	External []External `json:"external,omitempty"` // incidents of other tools about the same trouble

	// Timers; zero if none is set.
	NotifyBy  time.Time `json:"notify_by,omitzero"`  // notify at this time, with or without a verdict
	HoldUntil time.Time `json:"hold_until,omitzero"` // the end of monitoring
	EnrichAt  time.Time `json:"enrich_at,omitzero"`  // the next gathering of evidence

	// Rev counts the changes that people should see. Told has the revision that each channel has
	// shown.
	Rev      uint64    `json:"rev"`
	Channels []Channel `json:"channels,omitempty"`
	Told     ToldBy    `json:"told,omitempty"`
	Entries  int       `json:"entries"`         // timeline entries so far
	Trace    string    `json:"trace,omitempty"` // of the input that opened it
}

// A Delivery describes the Alertmanager notifications of an incident: the newest receiver and URL,
// and the group labels that all of them share.
type Delivery struct {
	Receiver    string            `json:"receiver,omitempty"`
	ExternalURL string            `json:"external_url,omitempty"`
	GroupLabels map[string]string `json:"group_labels,omitempty"`
}

// A SymptomCount is one symptom of an incident.
type SymptomCount struct {
	Symptom  Symptom   `json:"symptom"`
	Severity Severity  `json:"severity"`
	Alerts   int       `json:"alerts"` // episodes
	Active   int       `json:"active"` // firing now
	First    time.Time `json:"first"`
	Last     time.Time `json:"last"`
	// Rules lists the alert rules behind it, each once. Entities lists their subjects, at most 32.
	Rules    []string `json:"rules,omitempty"`
	Entities []Entity `json:"entities,omitempty"`
	// Hints holds the merged hints of its signs.
	Hints map[string]string `json:"hints,omitempty"`
}

// Feedback is a person's opinion on a diagnosis.
type Feedback struct {
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Right  bool      `json:"right"`
	Cause  Cause     `json:"cause,omitempty"` // the actual cause
	Reason string    `json:"reason,omitempty"`
}

// An External is an incident of another tool about the same trouble.
type External struct {
	Source string `json:"source"` // "pagerduty"
	ID     string `json:"id"`
	URL    string `json:"url,omitempty"`
	Title  string `json:"title,omitempty"`
	Noted  bool   `json:"noted"`           // the diagnosis was written there
	Cause  Cause  `json:"cause,omitempty"` // the cause in the last note
	Notes  int    `json:"notes,omitempty"` // number of notes written
	Ended  bool   `json:"ended,omitempty"` // it was resolved there: it no longer replaces our page
	Low    bool   `json:"low,omitempty"`   // it has low urgency there, which rings no phone: it does not replace our page
}

// Acknowledged reports whether a person has acknowledged the incident as it is. An acknowledgement
// from before first aid needed a person does not count.
func (in *Incident) Acknowledged() bool {
	return !in.AckedAt.IsZero() && !in.HandedAt.After(in.AckedAt)
}

// Acker returns who acknowledged the incident. It is zero if no person did, or if that is not
// known.
func (in *Incident) Acker() Actor {
	if in.AckedBy == nil {
		return Actor{}
	}
	return *in.AckedBy
}

// Silenced reports whether a silence holds back what a channel would show at a time. It does not
// hold back the acknowledgement of an open page, which would go on to escalate.
func (in *Incident) Silenced(ch Channel, at time.Time) bool {
	ringing := ch == ChannelPagerDuty && in.Told.Ref(ch, "status") == "triggered"
	return at.Before(in.SilencedUntil) && !(ringing && in.Acknowledged())
}

// Cause returns the verdict's cause. It is unknown before the first verdict.
func (in *Incident) Cause() Cause {
	if in.Diagnosis.Cause == "" {
		return Unknown
	}
	return in.Diagnosis.Cause
}

// Open reports whether the incident still takes alerts.
func (in *Incident) Open() bool { return in.Status != StatusResolved }

// An Actor is the person or the program that did something.
type Actor struct {
	ID   string `json:"id"` // the user ID in Slack or PagerDuty, or the name of the API token
	Name string `json:"name,omitempty"`
	Via  string `json:"via"` // slack, pagerduty, api, page, cli, paramedic
	Role Role   `json:"role,omitempty"`
	// Unverified marks a name that nothing verifies: the token has no name, or the API requires no
	// token.
	Unverified bool `json:"unverified,omitempty"`
	// Alias is the person's other ID in auth.api.tokens_file: the Slack user of a token, or the
	// token's name of a Slack user.
	Alias string `json:"alias,omitempty"`
}

// String returns the actor's name, or the ID if there is no name. People can change their names in
// Slack and PagerDuty, so these come with the ID. An unverified name is marked.
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

// Role is the role of an API token. Viewers read. Responders act on incidents, approve and halt.
// Admins also resume first aid.
type Role string

// The roles, least first.
const (
	Viewer    Role = "viewer"
	Responder Role = "responder"
	Admin     Role = "admin"
)

// Allows reports whether the role includes the role need.
func (r Role) Allows(need Role) bool {
	rank := map[Role]int{Viewer: 1, Responder: 2, Admin: 3}
	return rank[r] > 0 && rank[r] >= rank[need]
}

// An Entry is one step of an incident's timeline. It is stored as long as the incident.
type Entry struct {
	Incident IncidentID `json:"incident"`
	N        int        `json:"n"` // 1, 2, 3 … within the incident
	At       time.Time  `json:"at"`
	// Kind is opened, symptom, diagnosed, notified, acked, unacked, action, guard, resolved,
	// reopened, merged, split, refused or note.
	Kind   string   `json:"kind"`
	Text   string   `json:"text"` // plain text, one line
	Actor  Actor    `json:"actor,omitzero"`
	Action ActionID `json:"action,omitempty"`
	Seq    uint64   `json:"seq"` // the input that caused it
	// Quiet entries are on the record only. The others also appear in the Slack thread.
	Quiet bool `json:"quiet,omitempty"`
}

// RefCause is the key in a note's Outcome.Ref that holds the cause written in the note.
const RefCause = "cause"
