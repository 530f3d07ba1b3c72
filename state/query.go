package state

import "time"

// A Place is the end of a page of a listing. The next page begins after it. New records do not move
// it.
type Place struct {
	At time.Time // when the incident opened or the action was planned
	ID string
}

// Which selects incidents by status.
type Which int

// The choices of a listing.
const (
	AllIncidents Which = iota
	OpenIncidents
	ResolvedIncidents
)

// An IncidentQuery selects incidents. Its zero value selects all of them, newest first.
type IncidentQuery struct {
	Which Which
	// Urgent lists the open incidents, the most severe first, then those with the latest onset.
	Urgent bool
	// Match selects incidents; nil takes all. It runs under the keeper's lock: it must be quick,
	// and must neither change nor keep the incident.
	Match func(*Incident) bool
	// Since ends a listing by age at incidents that opened before it.
	Since time.Time
	// After is the end of the page before, in a listing by age. Nil begins with the newest.
	After *Place
	// Skip leaves out the first matches. Limit is the size of the page; zero takes all.
	Skip, Limit int
}

// An IncidentPage is one page of a listing. Next is its end, or nil if no more match.
type IncidentPage struct {
	Incidents []Incident
	Next      *Place
}

// An ActionQuery selects actions. Its zero value selects all of them, newest first.
type ActionQuery struct {
	// Needy lists first the actions that need a person, then those in progress, then those that
	// have not begun, then those that have ended.
	Needy bool
	// Match selects actions; nil takes all. It runs under the keeper's lock: it must be quick, and
	// must neither change nor keep the action.
	Match func(*Action) bool
	// After is the end of the page before, in a listing by age. Nil begins with the newest.
	After *Place
	// Skip leaves out the first matches. Limit is the size of the page; zero takes all.
	Skip, Limit int
}

// An ActionPage is one page of a listing. Next is its end, or nil if no more match.
type ActionPage struct {
	Actions []Action
	Next    *Place
}

// A Tally counts the stored incidents and actions.
type Tally struct {
	Open, Resolved int // incidents
	Actions        int
}

// A Lag is the distance of a partition from the end of its log.
type Lag struct {
	Partition int
	Inputs    int           // accepted and not applied yet
	Alerts    int           // alerts in them; estimated for those that another process accepted
	Age       time.Duration // since the oldest of them was accepted
	Work      time.Duration // expected time to apply them at the current speed; zero if no speed is known
}

// A Replica describes one of the processes on a store.
type Replica struct {
	Active bool      // it triages and delivers; otherwise it follows the active one
	Since  time.Time // when it began to
	// AsOf is the last time at which a follower had applied every input of the log. It is zero
	// before that. Inputs counts the known inputs that are not applied.
	AsOf   time.Time
	Inputs int
}

// Behind returns the expected wait of the newest input, or the wait of the oldest so far, whichever
// is longer.
func (l Lag) Behind() time.Duration { return max(l.Work, l.Age) }
