package web

import (
	"net/http"
	"net/url"
	"strconv"

	"paramedic/notify"
	"paramedic/state"
)

type indexData struct {
	Open, Resolved []incidentRow
	Intake         Intake
	Opens          pager
	Resolveds      pager
}

type incidentRow struct {
	state.Incident
	Verdict bool
	Waiting int    // actions that wait for approval
	Effects string // of a resolved incident: what helped
}

// pageSize is the number of incidents or actions on one page.
const pageSize = 50

// A pager holds the part of a listing that a page shows, and the links to its neighbours.
type pager struct {
	Name           string // of the items, for the links
	Total          int
	From, To       int // the first and the last item shown, counted from 1; zero for an empty part
	Previous, Next string
}

// paged returns the part of a listing that a request asks for. A page beyond the end, such as after
// incidents were dropped, is the last.
func paged(r *http.Request, name, param string, total int) pager {
	last := max((total-1)/pageSize, 0)
	n, err := strconv.Atoi(r.URL.Query().Get(param))
	if err != nil || n < 1 {
		n = 1
	}
	n = min(n-1, last)
	p := pager{Name: name, Total: total, From: min(n*pageSize+1, total), To: min((n+1)*pageSize, total)}
	at := func(n int) string {
		q := url.Values{}
		for _, keep := range pageParams {
			if v := r.URL.Query().Get(keep); v != "" && keep != param {
				q.Set(keep, v)
			}
		}
		if n > 0 {
			q.Set(param, strconv.Itoa(n+1))
		}
		return r.URL.Path + "?" + q.Encode()
	}
	if n > 0 {
		p.Previous = at(n - 1)
	}
	if n < last {
		p.Next = at(n + 1)
	}
	return p
}

// pageParams lists the parameters of pages. A link to another part of one listing keeps the part of
// the other.
var pageParams = []string{"page", "resolved"}

// skip returns the number of records before the page.
func (p pager) skip() int { return max(p.From-1, 0) }

// index lists the incidents: open ones by urgency, then the resolved ones, newest first.
func (h *Handler) index(r *http.Request) (view, error) {
	t := h.cfg.View.Tally()
	d := indexData{Intake: h.intake(), Opens: paged(r, "open incidents", "page", t.Open),
		Resolveds: paged(r, "resolved incidents", "resolved", t.Resolved)}
	rows := func(q state.IncidentQuery, p pager) (out []incidentRow) {
		q.Skip, q.Limit = p.skip(), pageSize
		for _, in := range h.cfg.View.ListIncidents(q).Incidents {
			row, actions := incidentRow{Incident: in, Verdict: !in.DiagnosedAt.IsZero()}, h.actionsOf(in)
			for _, a := range actions {
				if a.State == state.AwaitingApproval {
					row.Waiting++
				}
			}
			if !in.Open() {
				row.Effects = notify.Effects(actions, h.signalTitle)
			}
			out = append(out, row)
		}
		return out
	}
	d.Open = rows(state.IncidentQuery{Urgent: true}, d.Opens)
	d.Resolved = rows(state.IncidentQuery{Which: state.ResolvedIncidents}, d.Resolveds)
	return view{page: "index", title: "Incidents", nav: "incidents", about: everything, data: d}, nil
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
