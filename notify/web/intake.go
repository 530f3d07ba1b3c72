package web

import (
	"time"

	"paramedic/state"
)

// Intake is the state of the intake of alerts, as far as people need it.
type Intake struct {
	// Refusing is the reason why new alerts are refused now. It is empty if they are accepted.
	Refusing string
	// Aside lists the alerts that could not be taken, the newest first.
	Aside []Aside
	// Skipped is the number of accepted inputs that this version cannot apply. Newest is the last
	// of them.
	Skipped uint64
	Newest  state.SkippedInput
}

// An Aside is a kind of alert that could not be taken.
type Aside struct {
	Alert    string // an excerpt: name and labels
	Text     string // the fault
	Receiver string
	Count    uint64
	Last     time.Time
}

const (
	asideShown = 10
	asideFor   = 24 * time.Hour
)

// intake returns the state of the intake now.
func (h *Handler) intake() Intake {
	if h.cfg.Intake == nil {
		return Intake{}
	}
	in := h.cfg.Intake()
	var fresh []Aside
	for _, a := range in.Aside {
		if h.now().Sub(a.Last) < asideFor && len(fresh) < asideShown {
			fresh = append(fresh, a)
		}
	}
	in.Aside = fresh
	return in
}
