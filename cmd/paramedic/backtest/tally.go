package backtest

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

// The most rows of a list. What is beyond them is counted.
const (
	mostIncidents = 500
	mostActions   = 500
)

// A tally holds the sums of a backtest. Its size does not depend on the length of the window.
type tally struct {
	Alerts int `json:"alerts"` // intervals in which an alert fired
	// Before counts what Alertmanager alone would have sent, After what the bot would have.
	Before    Sent                 `json:"before"`
	After     Sent                 `json:"after"`
	Opened    int                  `json:"opened"` // incidents, without those merged into others
	Merged    int                  `json:"merged"`
	Causes    map[state.Cause]int  `json:"causes"`
	ToCause   map[int]int          `json:"to_cause"` // number of incidents by seconds from the first alert to the cause
	Rules     map[string]*ruleSums `json:"rules"`
	Missing   map[string]int       `json:"missing"` // incidents of unknown cause by missing signal
	Lacking   map[string]int       `json:"lacking"` // incidents of unknown cause by what the leading cause lacks
	Cut       int                  `json:"cut"`     // alerts that may have begun before the window
	None      int                  `json:"none"`    // alerts of severity none
	Aside     int                  `json:"aside"`   // alerts that the webhook would not have taken
	Incidents []Incident           `json:"incidents"`
	Actions   []Action             `json:"actions"`
	Proposed  int                  `json:"proposed"`
	Stops     map[string]int       `json:"stops"` // proposed actions by the guard that stops them
	Allowed   int                  `json:"allowed"`
	// Counted marks the incidents on the board that are in these sums.
	Counted map[state.IncidentID]bool `json:"counted"`
}

// ruleSums counts the alerts of one rule and the incidents that they belonged to.
type ruleSums struct {
	Fired     int  `json:"fired"`
	Incidents int  `json:"incidents"`
	Named     int  `json:"named"`
	Benign    int  `json:"benign"`
	Unknown   int  `json:"unknown"`
	Gone      bool `json:"gone,omitempty"` // Prometheus evaluates no such rule today
}

func newTally() *tally {
	return &tally{Causes: map[state.Cause]int{}, ToCause: map[int]int{}, Rules: map[string]*ruleSums{},
		Missing: map[string]int{}, Lacking: map[string]int{}, Stops: map[string]int{},
		Counted: map[state.IncidentID]bool{}}
}

// rule returns the sums of a rule.
func (t *tally) rule(name string) *ruleSums {
	if t.Rules[name] == nil {
		t.Rules[name] = &ruleSums{}
	}
	return t.Rules[name]
}

// count adds an incident in its last form. It is counted once.
func (t *tally) count(in *state.Incident, from time.Time) {
	if t.Counted[in.ID] {
		return
	}
	t.Counted[in.ID] = true
	if in.MergedInto != "" {
		t.Merged++
		return
	}
	cause := in.Cause()
	t.Opened++
	t.Causes[cause]++
	for _, s := range in.Symptoms {
		for _, name := range s.Rules {
			r := t.rule(name)
			r.Incidents++
			switch cause {
			case state.Unknown:
				r.Unknown++
			case state.BenignAlert:
				r.Benign++
			default:
				r.Named++
			}
		}
	}
	row := incidentOf(in)
	if cause == state.Unknown {
		for _, g := range in.Diagnosis.MissingByReason() {
			for _, signal := range g.Signals {
				t.Missing[cmp.Or(g.Reason, "not measured")+"\n"+signal]++
			}
		}
		for _, what := range row.lacks {
			t.Lacking[what]++
		}
	}
	if row.ToCause != nil && in.StartedAt.Sub(from) > edge {
		t.ToCause[int(*row.ToCause)]++
	}
	if len(t.Incidents) < mostIncidents {
		t.Incidents = append(t.Incidents, row)
	}
}

// edge is the time after the window's begin in which an alert may have begun before it.
const edge = 5 * time.Minute

// forget drops the marks of incidents that the board no longer has.
func (t *tally) forget(has func(state.IncidentID) bool) {
	maps.DeleteFunc(t.Counted, func(id state.IncidentID, _ bool) bool { return !has(id) })
}

// propose adds an action.
func (t *tally) propose(a Action) {
	t.Proposed++
	if len(a.StoppedBy) == 0 {
		t.Allowed++
	}
	for _, g := range a.StoppedBy {
		t.Stops[g]++
	}
	if len(t.Actions) < mostActions {
		t.Actions = append(t.Actions, a)
	}
}

// quantile returns the number of seconds within which a share of the incidents had their cause.
func (t *tally) quantile(share float64) (float64, bool) {
	all := 0
	for _, n := range t.ToCause {
		all += n
	}
	seen := 0
	for _, seconds := range slices.Sorted(maps.Keys(t.ToCause)) {
		seen += t.ToCause[seconds]
		if float64(seen) >= share*float64(all) {
			return float64(seconds), true
		}
	}
	return 0, false
}
