package playbooks

import (
	"errors"
	"slices"
	"strings"

	"paramedic/internal/strictyaml"
	"paramedic/state"
)

// A Playbook describes one cause: its checks, the first aid, and the mistakes to avoid.
type Playbook struct {
	ID       string     `json:"id"`
	Title    string     `json:"title"`
	Cause    string     `json:"cause"`
	Severity string     `json:"severity"` // critical, warning or info: the urgency for users
	Checks   []Check    `json:"checks"`
	FirstAid []Remedy   `json:"first_aid"` // in the order to try
	Worse    []string   `json:"worse"`     // steps that make it worse
	Escalate Escalation `json:"escalate"`
	Body     string     `json:"body"` // Markdown
	File     string     `json:"file"` // the path; embedded files start with "library/"

	doc      strictyaml.Document // the front matter's lines in File, for problems that are found later
	bodyLine int
}

// A Check is one question with the signal that answers it.
type Check struct {
	ID     string   `json:"id"`
	Ask    string   `json:"ask"`
	Signal string   `json:"signal"`
	Agg    string   `json:"agg,omitempty"`    // max, min, avg or sum over the pods; empty is max, or min if Below is set
	Warn   *float64 `json:"warn,omitempty"`   // the answer is a warning at or past this
	Crit   *float64 `json:"crit,omitempty"`   // the answer is bad at or past this
	Below  bool     `json:"below,omitempty"`  // low values are bad
	Broken bool     `json:"broken,omitempty"` // only for the workers that the verdict names, if it names some
	Unit   string   `json:"unit,omitempty"`
	Bad    []string `json:"bad,omitempty"`     // for text signals: the answer is bad if it contains one of them
	ByHand string   `json:"by_hand,omitempty"` // a kubectl, curl or PromQL command for the same answer
}

// A Remedy is one step of first aid. Without an Action a person takes it.
type Remedy struct {
	Action  string            `json:"action,omitempty"` // set_engine_arg, restart_worker or empty
	Params  map[string]string `json:"params,omitempty"` // set_engine_arg: arg and direction (lower or raise)
	Text    string            `json:"text"`
	When    string            `json:"when,omitempty"`    // the condition under which it is the right step
	Verdict bool              `json:"verdict,omitempty"` // the verdict's own steps replace this one
}

// An Escalation holds the time after which to call for help, and the people to call.
type Escalation struct {
	After string `json:"after"` // a duration such as 30m, or "at once"
	To    string `json:"to"`
}

// The actions that Paramedic can take itself.
const (
	ActionSetEngineArg  = "set_engine_arg"
	ActionRestartWorker = "restart_worker"
)

// Actions lists the actions that a remedy may name.
func Actions() []string { return []string{ActionSetEngineArg, ActionRestartWorker} }

// A Library is a set of playbooks by ID. It does not change once it is loaded.
type Library struct {
	byID map[string]*Playbook
	ids  []string
}

// Get returns the playbook of an ID.
func (l *Library) Get(id string) (Playbook, bool) {
	if l == nil || l.byID[id] == nil {
		return Playbook{}, false
	}
	return *l.byID[id], true
}

// For returns the playbook for a verdict: the one that the verdict names, or else the cause's own.
func (l *Library) For(d state.Diagnosis) (Playbook, bool) {
	if pb, ok := l.Get(d.Playbook); ok {
		return pb, true
	}
	return l.ForCause(string(d.Cause))
}

// ForCause returns the playbook with the cause's name, or else one that answers the cause. Without
// either it is "unknown", which describes triage by hand.
func (l *Library) ForCause(cause string) (Playbook, bool) {
	if pb, ok := l.Get(cause); ok {
		return pb, true
	}
	for _, pb := range l.All() {
		if pb.Cause == cause {
			return pb, true
		}
	}
	return l.Get("unknown")
}

// All lists the playbooks by ID.
func (l *Library) All() []Playbook {
	if l == nil {
		return nil
	}
	out := make([]Playbook, 0, len(l.ids))
	for _, id := range l.ids {
		out = append(out, *l.byID[id])
	}
	return out
}

func newLibrary(all map[string]*Playbook) *Library {
	l := &Library{byID: all}
	for id := range all {
		l.ids = append(l.ids, id)
	}
	slices.Sort(l.ids)
	return l
}

// A Problem is one mistake in one playbook.
type Problem = strictyaml.Problem

// Problems lists all mistakes, in the order of file and line.
type Problems []Problem

// Error returns every problem, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// err returns the problems as an error, or nil if there are none.
func (ps Problems) err() error {
	if len(ps) == 0 {
		return nil
	}
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if c := strings.Compare(a.File, b.File); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
	return ps
}

// AsProblems returns the list behind an error of [Load] or [Library.Validate].
func AsProblems(err error) (Problems, bool) {
	var ps Problems
	ok := errors.As(err, &ps)
	return ps, ok
}
