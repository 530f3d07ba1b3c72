package state

import "time"

// A Place is where a page of a listing ends: the next one begins after it. It stays where it is
// while new records come.
type Place struct {
	At time.Time // when the incident opened, or the action was planned
	ID string
}

// Which says which incidents a listing has.
type Which int

// The choices of a listing.
const (
	AllIncidents Which = iota
	OpenIncidents
	ResolvedIncidents
)

// An IncidentQuery asks for incidents. Its zero value asks for all of them, newest first.
type IncidentQuery struct {
	Which Which
	// Urgent lists the open incidents, the most severe first, then those that began last.
	Urgent bool
	// Match chooses; nil takes all. It runs under the keeper's lock: it must be quick, and neither
	// change nor keep the incident.
	Match func(*Incident) bool
	// Since ends a listing by age at what opened before it.
	Since time.Time
	// After is where the page before ended, in a listing by age; nil begins with the newest.
	After *Place
	// Skip leaves out the first ones that match; Limit bounds the rest, and zero takes all.
	Skip, Limit int
}

// An IncidentPage is one page of a listing. Next is where it ends, and nil where no more match.
type IncidentPage struct {
	Incidents []Incident
	Next      *Place
}

// An ActionQuery asks for actions. Its zero value asks for all of them, newest first.
type ActionQuery struct {
	// Needy lists those first that need a person, then those that run, those not begun, and those
	// that are over.
	Needy bool
	// Match chooses; nil takes all. It runs under the keeper's lock: it must be quick, and neither
	// change nor keep the action.
	Match func(*Action) bool
	// After is where the page before ended, in a listing by age; nil begins with the newest.
	After *Place
	// Skip leaves out the first ones that match; Limit bounds the rest, and zero takes all.
	Skip, Limit int
}

// An ActionPage is one page of a listing. Next is where it ends, and nil where no more match.
type ActionPage struct {
	Actions []Action
	Next    *Place
}

// A Tally counts what a keeper remembers.
type Tally struct {
	Open, Resolved int // incidents
	Actions        int
}

// A Lag is how far a partition is behind its log.
type Lag struct {
	Partition int
	Inputs    int           // accepted and not applied
	Alerts    int           // in them; estimated for those that another process accepted
	Age       time.Duration // since the oldest of them was accepted
	Work      time.Duration // how long they will take at the speed of late; zero while no speed is known
}

// Behind returns how long the last input will wait, or how long the oldest has waited, whichever is
// longer.
func (l Lag) Behind() time.Duration { return max(l.Work, l.Age) }
