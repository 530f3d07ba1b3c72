package packed

import (
	"cmp"
	"iter"
	"maps"
	"slices"

	"paramedic/state"
)

// ByFingerprint orders alerts by their fingerprints.
func ByFingerprint(a, b *Alert) int { return cmp.Compare(a.fingerprint, b.fingerprint) }

// Alerts holds alerts by their fingerprint and by their incident.
type Alerts struct {
	byFingerprint map[state.Fingerprint]*Alert
	byIncident    map[state.IncidentID][]*Alert // an alert knows its index
}

// NewAlerts returns no alerts, with room for some.
func NewAlerts(room int) *Alerts {
	return &Alerts{byFingerprint: make(map[state.Fingerprint]*Alert, room), byIncident: map[state.IncidentID][]*Alert{}}
}

// Get returns the alert with a fingerprint, or nil.
func (s *Alerts) Get(f state.Fingerprint) *Alert { return s.byFingerprint[f] }

// All yields all alerts, in no order.
func (s *Alerts) All() iter.Seq[*Alert] { return maps.Values(s.byFingerprint) }

// Of yields the alerts of an incident, in no order. The incident must not get or lose alerts
// meanwhile.
func (s *Alerts) Of(id state.IncidentID) iter.Seq[*Alert] { return slices.Values(s.byIncident[id]) }

// Count returns the number of alerts of an incident.
func (s *Alerts) Count(id state.IncidentID) int { return len(s.byIncident[id]) }

// Put stores an alert in place of an earlier one with its fingerprint.
func (s *Alerts) Put(a *Alert) {
	if old := s.byFingerprint[a.fingerprint]; old != nil {
		s.detach(old)
	}
	s.byFingerprint[a.fingerprint] = a
	s.attach(a)
}

// Remove removes an alert.
func (s *Alerts) Remove(a *Alert) {
	s.detach(a)
	delete(s.byFingerprint, a.fingerprint)
}

// Move moves an alert to another incident.
func (s *Alerts) Move(a *Alert, to state.IncidentID) {
	s.detach(a)
	a.incident = to
	s.attach(a)
}

func (s *Alerts) attach(a *Alert) {
	if a.incident != "" {
		of := s.byIncident[a.incident]
		a.index = int32(len(of)) //nolint:gosec // memory has no room for 2^31 alerts
		s.byIncident[a.incident] = append(of, a)
	}
}

func (s *Alerts) detach(a *Alert) {
	if a.incident == "" {
		return
	}
	of := s.byIncident[a.incident]
	last := len(of) - 1
	of[a.index], of[last].index = of[last], a.index
	of[last] = nil
	if last == 0 {
		delete(s.byIncident, a.incident)
	} else {
		s.byIncident[a.incident] = of[:last]
	}
}
