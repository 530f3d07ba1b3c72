package state

import "time"

// Triage holds the rules. Every method is pure: the same arguments give the same result.
type Triage interface {
	// Classify returns the sign of an alert. An alert that no rule knows is Unclassified, never
	// dropped.
	Classify(a Alert, cluster string) Sign
	// Correlate chooses the open incident that the sign belongs to. False opens a new one.
	Correlate(s Sign, workers []Worker, open []*Incident, now time.Time) (IncidentID, bool)
	// Diagnose weighs the evidence. It always returns a verdict, which may be Unknown.
	Diagnose(in *Incident, ev *Evidence, now time.Time) Diagnosis
	// SplitOff returns the incident's alerts that belong to another trouble than its verdict, or
	// none. It calls firing only if it needs the incident's firing alerts. Of their labels and
	// annotations, they have the rule's name only.
	SplitOff(in *Incident, firing func() []*AlertRecord, ev *Evidence) []*AlertRecord
	// Absorbs reports whether all of the other incident is a consequence of the root's cause.
	Absorbs(root, other *Incident) bool
}

// Routing chooses the channels of an incident.
type Routing interface {
	Channels(in *Incident) []Channel
}

// Settings holds the fold's time limits.
type Settings struct {
	Settle      time.Duration // from the opening to the first gathering of evidence, to collect symptoms
	SpeakWithin time.Duration // a critical incident is notified within this time, with or without a verdict
	ResolveHold time.Duration // an incident without active alerts is held open for this time
	Retain      time.Duration // a resolved incident is stored for this time
	StaleAfter  time.Duration // an alert that is not reported for this time counts as resolved
	// Remediate enables plans of remedies.
	Remediate bool
}

// DefaultSettings returns the documented defaults. StaleAfter is twice the repeat_interval of
// kube-prometheus-stack (12 h; Alertmanager's own is 4 h) plus a group_interval (5 min).
func DefaultSettings() Settings {
	return Settings{Settle: 10 * time.Second, SpeakWithin: 30 * time.Second, ResolveHold: 2 * time.Minute,
		Retain: 720 * time.Hour, StaleAfter: 24*time.Hour + 5*time.Minute, Remediate: true}
}
