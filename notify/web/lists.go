package web

import (
	"cmp"
	"net/http"
	"slices"

	"paramedic/state"
)

type indexData struct {
	Open, Resolved []incidentRow
	More           int // resolved incidents that are not listed
	Waiting        []actionCard
	Intake         Intake
}

type incidentRow struct {
	state.Incident
	Verdict bool
	Waiting int // actions that wait for approval
}

// maxResolved is how many resolved incidents the front page lists.
const maxResolved = 100

// index lists the incidents: open ones by urgency, then the resolved ones, newest first.
func (h *Handler) index(*http.Request) (view, error) {
	d := indexData{Intake: h.intake()}
	waiting := map[state.IncidentID]int{}
	for _, a := range h.cfg.View.Actions() {
		if a.State == state.AwaitingApproval {
			waiting[a.Incident]++
		}
	}
	for _, in := range h.cfg.View.Incidents() {
		row := incidentRow{Incident: in, Verdict: !in.DiagnosedAt.IsZero(), Waiting: waiting[in.ID]}
		switch {
		case in.Open():
			d.Open = append(d.Open, row)
		case len(d.Resolved) < maxResolved:
			d.Resolved = append(d.Resolved, row)
		default:
			d.More++
		}
	}
	slices.SortStableFunc(d.Open, func(a, b incidentRow) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.StartedAt.Compare(a.StartedAt))
	})
	return view{page: "index", title: "Incidents", nav: "incidents", data: d}, nil
}

func (h *Handler) playbooks(*http.Request) (view, error) {
	var list []Playbook
	if h.cfg.Playbooks != nil {
		for _, id := range h.cfg.Playbooks() {
			if pb, ok := h.cfg.Playbook(id, nil, nil); ok {
				list = append(list, pb)
			}
		}
	}
	return view{page: "playbooks", title: "Playbooks", nav: "playbooks", data: list}, nil
}

func (h *Handler) playbook(r *http.Request) (view, error) {
	pb, ok := h.cfg.Playbook(r.PathValue("id"), nil, nil)
	if !ok {
		return view{}, notFound("There is no such playbook.")
	}
	return view{page: "playbook", title: pb.Title, nav: "playbooks", data: pb}, nil
}
