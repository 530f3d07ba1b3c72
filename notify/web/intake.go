package web

import "time"

// Intake is how alerts come in, as far as people have to know of it.
type Intake struct {
	// Refusing says why new alerts are refused now; empty: they are taken.
	Refusing string
	// Aside are the alerts that could not be taken, the newest first.
	Aside []Aside
}

// An Aside is a kind of alert that could not be taken.
type Aside struct {
	Alert    string // what can be shown of it
	Text     string // what is wrong with it
	Receiver string
	Count    uint64
	Last     time.Time
}

const (
	asideShown = 10
	asideFor   = 24 * time.Hour
)

// intake returns what the list page says of the intake now.
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
