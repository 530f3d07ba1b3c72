package api

import (
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"paramedic/state"
	"paramedic/webhook/httpio"
	"paramedic/webhook/report"
)

var statuses = []string{
	string(state.StatusOpen), string(state.StatusAcked), string(state.StatusMitigating),
	string(state.StatusMonitoring), string(state.StatusResolved),
}

// onlyParameters refuses a query with a parameter that the path does not take. A misspelt filter
// would return everything.
func onlyParameters(r *http.Request, names ...string) error {
	q, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return httpio.Fail(http.StatusBadRequest, "the query is not valid: escape %%, & and ; in its values")
	}
	for _, name := range slices.Sorted(maps.Keys(q)) {
		if !slices.Contains(names, name) {
			return httpio.Fail(http.StatusBadRequest, "unknown parameter %q: %s takes %s", httpio.Cut(name, 32), r.URL.Path,
				strings.Join(names, ", "))
		}
	}
	return nil
}

// filter returns the values of a query parameter, which may be repeated or separated by commas.
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

// list returns the words of a list, separated by commas.
func list[T ~string](words []T) string {
	out := make([]string, len(words))
	for i, w := range words {
		out[i] = string(w)
	}
	return strings.Join(out, ", ")
}

func matches[T ~string](wanted []string, v T) bool {
	return len(wanted) == 0 || slices.Contains(wanted, string(v))
}

func (s *API) listIncidents(w http.ResponseWriter, r *http.Request) error {
	if err := s.Loaded(); err != nil {
		return err
	}
	if err := onlyParameters(r, "status", "cause", "cluster", "limit", "cursor"); err != nil {
		return err
	}
	status, cause, cluster := filter(r, "status"), filter(r, "cause"), filter(r, "cluster")
	for _, v := range status {
		if !slices.Contains(statuses, v) {
			return httpio.Fail(http.StatusBadRequest, "status %q does not exist; use %s", httpio.Cut(v, 32),
				strings.Join(statuses, ", "))
		}
	}
	limit, after, err := pageOf(r)
	if err != nil {
		return err
	}
	q := state.IncidentQuery{Which: listingFor(status), After: after, Limit: limit}
	if len(status)+len(cause)+len(cluster) > 0 {
		q.Match = func(in *state.Incident) bool {
			return matches(status, in.Status) && matches(cause, in.Cause()) && matches(cluster, in.Cluster)
		}
	}
	page := s.View.ListIncidents(q)
	out := IncidentsJSON{Incidents: []IncidentJSON{}, Next: cursor(page.Next)}
	for _, in := range page.Incidents {
		out.Incidents = append(out.Incidents, s.show(in))
	}
	return httpio.WriteJSON(w, http.StatusOK, out)
}

// listingFor returns the smallest listing that has every incident of the wanted statuses. Most
// incidents are resolved.
func listingFor(status []string) state.Which {
	switch {
	case len(status) > 0 && !slices.Contains(status, string(state.StatusResolved)):
		return state.OpenIncidents
	case slices.Equal(status, []string{string(state.StatusResolved)}):
		return state.ResolvedIncidents
	}
	return state.AllIncidents
}

// show returns an incident with its actions, as they are now.
func (s *API) show(in state.Incident) IncidentJSON {
	out := NewIncidentJSON(in, s.ActionsOf(in))
	out.Name = s.Name(&in)
	return out
}

func (s *API) showIncident(w http.ResponseWriter, r *http.Request) error {
	in, err := s.Incident(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return httpio.WriteJSON(w, http.StatusOK, s.show(in))
}

func (s *API) showTimeline(w http.ResponseWriter, r *http.Request) error {
	in, err := s.Incident(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	entries, err := s.View.Timeline(r.Context(), in.ID)
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "the timeline could not be read", "incident", in.ID, "err", err)
		return httpio.Fail(http.StatusServiceUnavailable, "Paramedic cannot read the timeline now: try again")
	}
	out := TimelineJSON{Incident: in.ID, Timeline: []EntryJSON{}}
	for _, e := range entries {
		out.Timeline = append(out.Timeline, NewEntryJSON(e))
	}
	return httpio.WriteJSON(w, http.StatusOK, out)
}

func (s *API) showReport(w http.ResponseWriter, r *http.Request) error {
	in, err := s.Incident(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	entries, err := s.View.Timeline(r.Context(), in.ID)
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "the timeline could not be read", "incident", in.ID, "err", err)
		return httpio.Fail(http.StatusServiceUnavailable, "Paramedic cannot read the timeline now: try again")
	}
	w.Header().Set("Content-Type", "text/markdown; charset=utf-8")
	ev, _ := s.View.Evidence(in.ID)
	_, err = w.Write([]byte(report.Report(report.Case{Incident: in, Actions: s.ActionsOf(in), Timeline: entries,
		Curves: ev.Charted(), Titles: s.Titles}, s.Clock.Now())))
	return err
}

func (s *API) listActions(w http.ResponseWriter, r *http.Request) error {
	if err := s.Loaded(); err != nil {
		return err
	}
	if err := onlyParameters(r, "state", "limit", "cursor"); err != nil {
		return err
	}
	states := filter(r, "state")
	for _, v := range states {
		if !slices.Contains(state.ActionStates(), state.ActionState(v)) {
			return httpio.Fail(http.StatusBadRequest, "state %q does not exist; use %s", httpio.Cut(v, 32), list(state.ActionStates()))
		}
	}
	limit, after, err := pageOf(r)
	if err != nil {
		return err
	}
	page := s.View.ListActions(state.ActionQuery{After: after, Limit: limit,
		Match: func(a *state.Action) bool { return matches(states, a.State) }})
	out := ActionsJSON{Actions: []ActionJSON{}, Next: cursor(page.Next)}
	for _, a := range page.Actions {
		out.Actions = append(out.Actions, NewActionJSON(a))
	}
	return httpio.WriteJSON(w, http.StatusOK, out)
}

func (s *API) showAction(w http.ResponseWriter, r *http.Request) error {
	a, err := s.Action(r.Context(), r.PathValue("id"))
	if err != nil {
		return err
	}
	return httpio.WriteJSON(w, http.StatusOK, NewActionJSON(a))
}

func (s *API) fleet(w http.ResponseWriter, r *http.Request) error {
	if s.Fleet == nil {
		return httpio.Fail(http.StatusNotFound,
			"no source of fleet health is configured: set clusters[].prometheus or clusters[].engines")
	}
	v, err := s.Fleet(r.Context())
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "the fleet's health could not be read", "err", err)
		return httpio.Fail(http.StatusServiceUnavailable, "Paramedic cannot read the fleet's health now: try again")
	}
	return httpio.WriteJSON(w, http.StatusOK, v)
}
