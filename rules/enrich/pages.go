package enrich

import "paramedic/state"

// share finds the addresses at which pages of others are: machines', whose pods may use their
// network, and those of which a page names its pod, so that one beside it that does not is of
// something else.
func (m *merge) share() {
	m.shared = map[string]bool{}
	page := func(e state.Entity) {
		if e.Instance != "" && (e.Pod != "" || e.Node != "" && e.Model == "") {
			m.shared[host(e.Instance)] = true
		}
	}
	for _, r := range m.readings {
		for _, s := range r.Samples {
			page(s.Entity)
		}
		for _, s := range r.Scraped {
			page(s.Entity)
		}
	}
}

// ofAnother reports whether a page that shows no model may be of something else than the pod at its
// address.
func (m *merge) ofAnother(e state.Entity) bool {
	return e.Model == "" && m.shared[host(e.Instance)]
}
