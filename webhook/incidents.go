package webhook

import (
	"net/http"
	"slices"
	"strings"

	"paramedic/state"
)

var statuses = []string{
	string(state.StatusOpen), string(state.StatusAcked), string(state.StatusMitigating), string(state.StatusMonitoring), string(state.StatusResolved),
}

// filter gives the values of a query parameter, which may be repeated or separated by commas.
func filter(r *http.Request, name string) []string {
	var out []string
	for _, v := range r.URL.Query()[name] {
		for part := range strings.SplitSeq(v, ",") {
			if part != "" {
				out = append(out, part)
			}
		}
	}
	return out
}

func passes[T ~string](wanted []string, v T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, string(v))
}

func (s *Server) listIncidents(w http.ResponseWriter, r *http.Request) error {
	status, cause, cluster := filter(r, "status"), filter(r, "cause"), filter(r, "cluster")
	for _, v := range status {
		if !slices.Contains(statuses, v) {
			return fail(http.StatusBadRequest, "status %q does not exist; use %s", cut(v, 32), strings.Join(statuses, ", "))
		}
	}
	limit, after, err := pageOf(r)
	if err != nil {
		return err
	}
	q := state.IncidentQuery{Which: which(status), After: after, Limit: limit}
	if len(status)+len(cause)+len(cluster) > 0 {
		q.Match = func(in *state.Incident) bool {
			return passes(status, in.Status) && passes(cause, in.Cause()) && passes(cluster, in.Cluster)
		}
	}
	page := s.View.ListIncidents(q)
	out := IncidentsJSON{Incidents: []IncidentJSON{}, Next: cursor(page.Next)}
	for _, in := range page.Incidents {
		out.Incidents = append(out.Incidents, s.show(in))
	}
	return writeJSON(w, http.StatusOK, out)
}

// which is the listing that has every incident of the wanted statuses: open ones are few among all that are kept.
func which(status []string) state.Which {
	switch {
	case len(status) > 0 && !slices.Contains(status, string(state.StatusResolved)):
		return state.OpenIncidents
	case slices.Equal(status, []string{string(state.StatusResolved)}):
		return state.ResolvedIncidents
	}
	return state.AllIncidents
}

// show is an incident with its actions, as they are now.
func (s *Server) show(in state.Incident) IncidentJSON {
	out := NewIncidentJSON(in, s.actionsOf(in))
	out.Name = s.name(&in)
	return out
}

func (s *Server) actionsOf(in state.Incident) []state.Action {
	var actions []state.Action
	for _, id := range in.Actions {
		if a, ok := s.View.Action(id); ok {
			actions = append(actions, a)
		}
	}
	return actions
}

func (s *Server) showIncident(w http.ResponseWriter, r *http.Request) error {
	in, err := s.findIncident(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, s.show(in))
}

func (s *Server) showTimeline(w http.ResponseWriter, r *http.Request) error {
	in, err := s.findIncident(r.PathValue("id"))
	if err != nil {
		return err
	}
	entries, err := s.View.Timeline(r.Context(), in.ID)
	if err != nil {
		s.Logger.Error("timeline was not read", "incident", in.ID, "err", err)
		return fail(http.StatusServiceUnavailable, "the timeline cannot be read now; try again")
	}
	out := TimelineJSON{Incident: in.ID, Timeline: []EntryJSON{}}
	for _, e := range entries {
		out.Timeline = append(out.Timeline, NewEntryJSON(e))
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) showReport(w http.ResponseWriter, r *http.Request) error {
	in, err := s.findIncident(r.PathValue("id"))
	if err != nil {
		return err
	}
	entries, err := s.View.Timeline(r.Context(), in.ID)
	if err != nil {
		s.Logger.Error("timeline was not read", "incident", in.ID, "err", err)
		return fail(http.StatusServiceUnavailable, "the timeline cannot be read now; try again")
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	ev, _ := s.View.Evidence(in.ID)
	_, err = w.Write([]byte(Report(Case{Incident: in, Actions: s.actionsOf(in), Timeline: entries, Curves: ev.Charted()}, s.Clock.Now())))
	return err
}

func (s *Server) listActions(w http.ResponseWriter, r *http.Request) error {
	states := filter(r, "state")
	limit, after, err := pageOf(r)
	if err != nil {
		return err
	}
	page := s.View.ListActions(state.ActionQuery{After: after, Limit: limit, Match: func(a *state.Action) bool { return passes(states, a.State) }})
	out := ActionsJSON{Actions: []ActionJSON{}, Next: cursor(page.Next)}
	for _, a := range page.Actions {
		out.Actions = append(out.Actions, NewActionJSON(a))
	}
	return writeJSON(w, http.StatusOK, out)
}

func (s *Server) showAction(w http.ResponseWriter, r *http.Request) error {
	a, err := s.findAction(r.PathValue("id"))
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, NewActionJSON(a))
}

func (s *Server) fleet(w http.ResponseWriter, r *http.Request) error {
	if s.Fleet == nil {
		return fail(http.StatusNotFound, "no source of fleet health is configured: set clusters[].prometheus or clusters[].engines")
	}
	v, err := s.Fleet(r.Context())
	if err != nil {
		s.Logger.Error("fleet was not read", "err", err)
		return fail(http.StatusServiceUnavailable, "the fleet's health cannot be read now; try again")
	}
	return writeJSON(w, http.StatusOK, v)
}
