package packed

import (
	"sync"
	"time"

	jsonv2 "github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"paramedic/internal/onepass"
	"paramedic/state"
	"paramedic/state/fold/textmap"
)

// A storedAlert has the JSON of [state.AlertRecord], without Go maps of labels and annotations.
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

// MarshalJSONTo writes the alert as a [state.AlertRecord] is written.
func (a *Alert) MarshalJSONTo(to *jsontext.Encoder) error {
	s := storing.Get().(*storedAlert) //nolint:forcetypeassert // of New
	defer storing.Put(s)
	k := a.kind.Value()
	*s = storedAlert{Sign: a.sign(&k), Incident: a.incident, Active: a.active, FirstAt: a.FirstAt(), LastAt: a.LastAt(),
		Episodes: a.Episodes()}
	stored := &s.Alert
	stored.Fingerprint, stored.Status, stored.StartsAt, stored.EndsAt = a.fingerprint, a.status.state(), a.StartsAt(), a.EndsAt()
	stored.GeneratorURL = k.generatorURL
	stored.Labels, stored.Annotations = a.texts()
	return jsonv2.MarshalEncode(to, s)
}

var storing = sync.Pool{New: func() any { return new(storedAlert) }} // while they are encoded

// Decode returns the alert of a record's JSON.
func Decode(value []byte) (*Alert, error) {
	var s storedAlert
	if err := onepass.Unmarshal(value, &s); err != nil {
		return nil, err
	}
	from := &s.Alert
	return pack(&state.AlertRecord{
		Alert: state.Alert{Fingerprint: from.Fingerprint, Status: from.Status, StartsAt: from.StartsAt, EndsAt: from.EndsAt,
			GeneratorURL: from.GeneratorURL},
		Sign: s.Sign, Incident: s.Incident, Active: s.Active, FirstAt: s.FirstAt, LastAt: s.LastAt, Episodes: s.Episodes,
	}, from.Labels, from.Annotations), nil
}
