package webhook

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"

	"paramedic/state"
)

// maxCandidates bounds how many meanings of an ambiguous name are listed.
const maxCandidates = 10

// findIncident finds an incident by what people type: its ID, any unique prefix of it (with or without INC-), or its number. Numbers
// are given cluster by cluster, so a number can mean several.
func (s *Server) findIncident(name string) (state.Incident, error) {
	name = strings.ToUpper(strings.TrimSpace(name))
	if in, ok := s.View.Incident(state.IncidentID(name)); ok {
		return in, nil
	}
	var found []state.Incident
	number, byNumber := incidentNumber(name)
	prefix := "INC-" + strings.TrimPrefix(name, "INC-")
	all := name == "INC" || name == "INC-" // what every ID begins with
	if name != "" && len(name) <= 64 {
		found = s.View.ListIncidents(state.IncidentQuery{Limit: maxCandidates, Match: func(in *state.Incident) bool {
			return all || byNumber && in.Number == number || !byNumber && prefix != "INC-" && strings.HasPrefix(string(in.ID), prefix)
		}}).Incidents
	}
	switch len(found) {
	case 0:
		return state.Incident{}, fail(http.StatusNotFound, "no incident %q; give its ID, a unique beginning of it, or its number", cut(name, 64))
	case 1:
		return found[0], nil
	}
	a := fail(http.StatusConflict, "%q means several incidents; type more of the ID", cut(name, 64))
	for _, in := range found {
		a.candidates = append(a.candidates, fmt.Sprintf("%s (#%d, %s, %s)", in.ID, in.Number, in.Cluster, in.Status))
	}
	return state.Incident{}, a
}

// incidentNumber reads "42" and "#42". A leading zero is the beginning of an ID.
func incidentNumber(name string) (int, bool) {
	digits := strings.TrimPrefix(name, "#")
	if digits == "" || digits[0] == '0' {
		return 0, false
	}
	n, err := strconv.Atoi(digits)
	return n, err == nil && n > 0
}

// findAction finds an action by its ID or a unique prefix of it.
func (s *Server) findAction(name string) (state.Action, error) {
	name = strings.ToUpper(strings.TrimSpace(name))
	if a, ok := s.View.Action(state.ActionID(name)); ok {
		return a, nil
	}
	var found []state.Action
	if prefix := "ACT-" + strings.TrimPrefix(name, "ACT-"); prefix != "ACT-" && len(name) <= 64 {
		found = s.View.ListActions(state.ActionQuery{Limit: maxCandidates, Match: func(a *state.Action) bool { return strings.HasPrefix(string(a.ID), prefix) }}).Actions
	}
	switch len(found) {
	case 0:
		return state.Action{}, fail(http.StatusNotFound, "no action %q; give its ID or a unique beginning of it", cut(name, 64))
	case 1:
		return found[0], nil
	}
	conflict := fail(http.StatusConflict, "%q means several actions; type more of the ID", cut(name, 64))
	for _, a := range found {
		conflict.candidates = append(conflict.candidates, fmt.Sprintf("%s (%s, %s)", a.ID, a.Change, a.State))
	}
	return state.Action{}, conflict
}
