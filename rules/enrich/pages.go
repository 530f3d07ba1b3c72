package enrich

import "paramedic/state"

// share finds the addresses that have pages besides those of one pod. These are nodes, whose pods
// may use the host network. They are also addresses where one page names its pod, so that a page
// without a pod may be of something else.
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

// ofAnother reports whether a page without a model may belong to something else than the pod at its
// address.
func (m *merge) ofAnother(e state.Entity) bool {
	return e.Model == "" && m.shared[host(e.Instance)]
}
