// Package packed holds alerts and the texts of verdicts in little memory. Most of an alert is the
// same in all alerts of its rule, and most texts are the same in many verdicts: those share it.
package packed

import (
	"time"
	"unique"

	"paramedic/state"
	"paramedic/state/fold/textmap"
)

// An Alert has the content of a [state.AlertRecord] in less than half its memory. [Of] and [Decode]
// return one.
type Alert struct {
	kind                unique.Handle[kind]
	place               *place // never nil; other alerts may have it, too
	fingerprint         state.Fingerprint
	labels, annotations string // the values of the text maps; the kind has their names
	pod, instance, node string
	incident            state.IncidentID
	seconds             [moments]int64
	nanoseconds         [moments]int32
	episodes, index     int32 // index in the alerts of the incident
	active              bool
	status              status
}

// A kind is the part of an alert that is the same in most alerts of its rule.
type kind struct {
	labelNames, annotationNames string
	rule                        string
	hasRule                     bool
	generatorURL                string
	symptom                     state.Symptom
	severity                    state.Severity
	by                          string
	hints                       textmap.Map
}

// A place is the part of an entity that is the same in many alerts.
type place struct{ cluster, namespace, model, pool, gpu, job, service string }

// The times of an alert, each a number of seconds since 1970 and of nanoseconds.
const (
	startsAt = iota
	endsAt
	firstAt
	lastAt
	moments
)

type status uint8

const (
	noStatus status = iota
	firing
	resolved
)

func statusOf(s state.AlertStatus) status {
	switch s {
	case state.Firing:
		return firing
	case state.Resolved:
		return resolved
	}
	return noStatus
}

func (s status) state() state.AlertStatus {
	return [...]state.AlertStatus{noStatus: "", firing: state.Firing, resolved: state.Resolved}[s]
}

func (a *Alert) time(which int) time.Time {
	return time.Unix(a.seconds[which], int64(a.nanoseconds[which])).UTC()
}

func (a *Alert) setTime(which int, at time.Time) {
	a.seconds[which], a.nanoseconds[which] = at.Unix(), int32(at.Nanosecond())
}

// Of returns the record in little memory.
func Of(rec *state.AlertRecord) *Alert {
	return pack(rec, textmap.Of(rec.Alert.Labels), textmap.Of(rec.Alert.Annotations))
}

// pack returns a record that has its labels and annotations beside it.
func pack(rec *state.AlertRecord, labels, annotations textmap.Map) *Alert {
	from, e := &rec.Alert, &rec.Sign.Entity
	rule, hasRule := labels.Get(ruleLabel)
	a := &Alert{
		kind: unique.Make(kind{labelNames: labels.Names, annotationNames: annotations.Names, rule: rule, hasRule: hasRule,
			generatorURL: from.GeneratorURL, symptom: rec.Sign.Symptom, severity: rec.Sign.Severity, by: rec.Sign.By,
			hints: textmap.Of(rec.Sign.Hints)}),
		place: &place{cluster: labels.Within(e.Cluster), namespace: labels.Within(e.Namespace), model: labels.Within(e.Model),
			pool: labels.Within(e.Pool), gpu: labels.Within(e.GPU), job: labels.Within(e.Job), service: labels.Within(e.Service)},
		fingerprint: from.Fingerprint, labels: labels.Values, annotations: annotations.Values,
		pod: labels.Within(e.Pod), instance: labels.Within(e.Instance), node: labels.Within(e.Node),
		incident: rec.Incident, episodes: int32(rec.Episodes), active: rec.Active, status: statusOf(from.Status),
	}
	a.setTime(startsAt, from.StartsAt)
	a.setTime(endsAt, from.EndsAt)
	a.setTime(firstAt, rec.FirstAt)
	a.setTime(lastAt, rec.LastAt)
	return a
}

const ruleLabel = "alertname"

// Fingerprint returns the alert's fingerprint.
func (a *Alert) Fingerprint() state.Fingerprint { return a.fingerprint }

// Rule returns the name of the alert's rule.
func (a *Alert) Rule() string { return a.kind.Value().rule }

// Symptom returns the symptom of the alert's sign.
func (a *Alert) Symptom() state.Symptom { return a.kind.Value().symptom }

// Incident returns the alert's incident, or "".
func (a *Alert) Incident() state.IncidentID { return a.incident }

// Active reports whether the alert counts as firing.
func (a *Alert) Active() bool { return a.active }

// StartsAt returns the start of the last episode.
func (a *Alert) StartsAt() time.Time { return a.time(startsAt) }

// EndsAt returns the end of the last episode, or zero.
func (a *Alert) EndsAt() time.Time { return a.time(endsAt) }

// LastAt returns the time at which the alert was last reported.
func (a *Alert) LastAt() time.Time { return a.time(lastAt) }

// SetLastAt sets the time at which the alert was last reported.
func (a *Alert) SetLastAt(at time.Time) { a.setTime(lastAt, at) }

// Resolve ends the last episode.
func (a *Alert) Resolve(at time.Time) {
	a.active, a.status = false, resolved
	a.setTime(endsAt, at)
}

// FirstAt returns the time at which the alert was first seen.
func (a *Alert) FirstAt() time.Time { return a.time(firstAt) }

// Episodes returns the number of the alert's episodes.
func (a *Alert) Episodes() int { return int(a.episodes) }

// Entity returns the entity of the alert's sign.
func (a *Alert) Entity() state.Entity {
	p := a.place
	return state.Entity{Cluster: p.cluster, Namespace: p.namespace, Model: p.model, Pool: p.pool, Pod: a.pod, Instance: a.instance,
		Node: a.node, GPU: p.gpu, Job: p.job, Service: p.service}
}

// Record returns the alert without its annotations. Of its labels it has the rule's name only.
func (a *Alert) Record() state.AlertRecord {
	k := a.kind.Value()
	rec := state.AlertRecord{
		Alert: state.Alert{Fingerprint: a.fingerprint, Status: a.status.state(), StartsAt: a.StartsAt(), EndsAt: a.EndsAt(),
			GeneratorURL: k.generatorURL},
		Sign: a.sign(&k), Incident: a.incident, Active: a.active, FirstAt: a.FirstAt(), LastAt: a.LastAt(), Episodes: a.Episodes(),
	}
	if k.hasRule {
		rec.Alert.Labels = map[string]string{ruleLabel: k.rule}
	}
	return rec
}

func (a *Alert) sign(k *kind) state.Sign {
	return state.Sign{Symptom: k.symptom, Severity: k.severity, By: k.by, Hints: k.hints.Unpack(), Entity: a.Entity()}
}

// Full returns the whole alert.
func (a *Alert) Full() state.AlertRecord {
	rec := a.Record()
	labels, annotations := a.texts()
	rec.Alert.Labels, rec.Alert.Annotations = labels.Unpack(), annotations.Unpack()
	return rec
}

func (a *Alert) texts() (labels, annotations textmap.Map) {
	k := a.kind.Value()
	return textmap.Map{Names: k.labelNames, Values: a.labels}, textmap.Map{Names: k.annotationNames, Values: a.annotations}
}
