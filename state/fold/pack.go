package fold

import (
	"maps"
	"time"

	json "github.com/go-json-experiment/json/v1"

	"paramedic/state"
	"paramedic/state/fold/textmap"
)

// An alertRecord is an alert on the board, in little memory: its labels and annotations are packed.
// The labels of the embedded record have the rule's name only, and it has no annotations.
type alertRecord struct {
	state.AlertRecord
	labels, annotations textmap.Map
}

// full returns the record with its labels and annotations.
func (r *alertRecord) full() *state.AlertRecord {
	out := r.AlertRecord
	out.Alert.Labels, out.Alert.Annotations = r.labels.Unpack(), r.annotations.Unpack()
	return &out
}

// A storedAlert has the JSON of [state.AlertRecord].
type storedAlert struct {
	Alert struct {
		Fingerprint  state.Fingerprint `json:"fingerprint"`
		Status       state.AlertStatus `json:"status"`
		Labels       textmap.Map       `json:"labels"`
		Annotations  textmap.Map       `json:"annotations,omitzero"`
		StartsAt     time.Time         `json:"starts_at"`
		EndsAt       time.Time         `json:"ends_at,omitzero"`
		GeneratorURL string            `json:"generator_url,omitempty"`
	} `json:"alert"`
	Sign     state.Sign       `json:"sign"`
	Incident state.IncidentID `json:"incident,omitempty"`
	Active   bool             `json:"active"`
	FirstAt  time.Time        `json:"first_at"`
	LastAt   time.Time        `json:"last_at"`
	Episodes int              `json:"episodes"`
}

// stored returns the form in which the record is stored.
func (r *alertRecord) stored() *storedAlert {
	s := &storedAlert{Sign: r.Sign, Incident: r.Incident, Active: r.Active, FirstAt: r.FirstAt, LastAt: r.LastAt, Episodes: r.Episodes}
	a, from := &s.Alert, &r.Alert
	a.Fingerprint, a.Status, a.Labels, a.Annotations = from.Fingerprint, from.Status, r.labels, r.annotations
	a.StartsAt, a.EndsAt, a.GeneratorURL = from.StartsAt, from.EndsAt, from.GeneratorURL
	return s
}

// MarshalJSON returns the JSON of the record as it is stored.
func (r *alertRecord) MarshalJSON() ([]byte, error) { return json.Marshal(r.stored()) }

// packRecord returns a record as the board holds it.
func packRecord(rec state.AlertRecord) *alertRecord {
	r := &alertRecord{AlertRecord: rec}
	r.pack()
	return r
}

func decodeAlert(value []byte) (*alertRecord, error) {
	var s storedAlert
	if err := json.Unmarshal(value, &s); err != nil {
		return nil, err
	}
	a := &s.Alert
	r := &alertRecord{labels: a.Labels, annotations: a.Annotations, AlertRecord: state.AlertRecord{Sign: s.Sign,
		Incident: s.Incident, Active: s.Active, FirstAt: s.FirstAt, LastAt: s.LastAt, Episodes: s.Episodes,
		Alert: state.Alert{Fingerprint: a.Fingerprint, Status: a.Status, StartsAt: a.StartsAt, EndsAt: a.EndsAt,
			GeneratorURL: a.GeneratorURL}}}
	r.name()
	return r, nil
}

// pack moves the labels and annotations out of the alert.
func (r *alertRecord) pack() {
	r.labels, r.annotations = textmap.Of(r.Alert.Labels), textmap.Of(r.Alert.Annotations)
	r.Alert.Annotations = nil
	r.name()
}

// name leaves the rule's name in the alert's labels, and lets the entity use the memory of the
// packed ones.
func (r *alertRecord) name() {
	r.Alert.Labels = nil
	if name, named := r.labels.Get(ruleLabel); named {
		r.Alert.Labels = map[string]string{ruleLabel: name}
	}
	e := &r.Sign.Entity
	for _, s := range []*string{&e.Pod, &e.Instance, &e.Pool, &e.Node, &e.Model, &e.Namespace, &e.GPU, &e.Job, &e.Service} {
		*s = r.labels.Within(*s)
	}
}

const ruleLabel = "alertname"

// share makes a record use the memory of the rule's alert before it, where both are equal.
func (b *Board) share(r *alertRecord) {
	name := r.Alert.Name()
	last := b.lastOf[name]
	if last == nil && len(b.lastOf) >= maxShared {
		clear(b.lastOf)
	}
	b.lastOf[name] = r
	if last == nil || last == r {
		return
	}
	x, y := &r.Sign, &last.Sign
	for _, s := range [][2]*string{{&r.labels.Names, &last.labels.Names}, {&r.labels.Values, &last.labels.Values},
		{&r.annotations.Names, &last.annotations.Names}, {&r.annotations.Values, &last.annotations.Values},
		{&r.Alert.GeneratorURL, &last.Alert.GeneratorURL}, {(*string)(&r.Incident), (*string)(&last.Incident)},
		{(*string)(&r.Alert.Status), (*string)(&last.Alert.Status)}, {(*string)(&x.Symptom), (*string)(&y.Symptom)},
		{(*string)(&x.Severity), (*string)(&y.Severity)}, {&x.By, &y.By}, {&x.Entity.Cluster, &y.Entity.Cluster},
		{&x.Entity.Pool, &y.Entity.Pool}, {&x.Entity.Model, &y.Entity.Model}} {
		if *s[0] == *s[1] {
			*s[0] = *s[1]
		}
	}
	if maps.Equal(r.Alert.Labels, last.Alert.Labels) {
		r.Alert.Labels = last.Alert.Labels
	}
	if len(x.Hints) > 0 && maps.Equal(x.Hints, y.Hints) {
		x.Hints = y.Hints
	}
}

// maxShared bounds the rules whose last alert is known.
const maxShared = 4096
