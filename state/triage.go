package state

import "time"

// Triage is what the rules know. Every method is pure: the same arguments give the same answer.
type Triage interface {
	// Classify says what an alert means. An alert that no rule knows is Unclassified, never
	// dropped.
	Classify(a Alert, cluster string) Sign
	// Correlate chooses among open incidents the one that the sign belongs to; false opens a new
	// one.
	Correlate(s Sign, workers []Worker, open []*Incident, now time.Time) (IncidentID, bool)
	// Diagnose weighs the evidence. It always gives a verdict, which may be Unknown.
	Diagnose(in *Incident, ev *Evidence, now time.Time) Diagnosis
	// Aside finds, among an incident's alerts, those of a trouble beside the one that its verdict
	// names; none where there is no such trouble.
	Aside(in *Incident, alerts []*AlertRecord, ev *Evidence) []*AlertRecord
	// Absorbs says whether all of the other incident is a consequence of the root's cause.
	Absorbs(root, other *Incident) bool
}

// Routing chooses who is told of an incident.
type Routing interface {
	Channels(in *Incident) []Channel
}

// Settings are the fold's times.
type Settings struct {
	Settle      time.Duration // symptoms are gathered this long before evidence is, from the incident's opening
	SpeakWithin time.Duration // a critical incident is told of within this, verdict or not
	ResolveHold time.Duration // an incident whose alerts are gone is held open this long
	Retain      time.Duration // a resolved incident is remembered this long
	StaleAfter  time.Duration // an alert that nobody mentions for this long is taken for gone
	// Remediate says whether remedies are worked out at all.
	Remediate bool
}

// DefaultSettings are the documented defaults. StaleAfter is twice Alertmanager's default
// repeat_interval (4 h) and a group_interval.
func DefaultSettings() Settings {
	return Settings{Settle: 10 * time.Second, SpeakWithin: 30 * time.Second, ResolveHold: 2 * time.Minute,
		Retain: 720 * time.Hour, StaleAfter: 8*time.Hour + 5*time.Minute, Remediate: true}
}
