package packed

// The bounds of what a [Sharer] knows: a few megabytes, more rules than the catalog has, and more
// pools than most storms. It forgets all if there is more, and sharing begins anew.
const (
	maxRules  = 4096
	maxPlaces = 4096
)

// A Sharer makes alerts share what is equal in them. It keeps parts of some ended alerts in
// memory.
type Sharer struct {
	last   map[string]*Alert // of each rule
	places map[place]*place
}

// NewSharer returns a Sharer that knows no alert.
func NewSharer() *Sharer { return &Sharer{last: map[string]*Alert{}, places: map[place]*place{}} }

// Share makes an alert use the memory of earlier ones, where they are equal.
func (s *Sharer) Share(a *Alert) {
	known := s.places[*a.place]
	if known == nil {
		if len(s.places) >= maxPlaces {
			clear(s.places)
		}
		known = a.place
		s.places[*known] = known
	}
	a.place = known

	rule := a.Rule()
	last := s.last[rule]
	if last == nil && len(s.last) >= maxRules {
		clear(s.last)
	}
	s.last[rule] = a
	if last == nil {
		return
	}
	if a.labels == last.labels {
		a.labels = last.labels
	}
	if a.annotations == last.annotations {
		a.annotations = last.annotations
	}
	if a.incident == last.incident {
		a.incident = last.incident
	}
}
