package command

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"paramedic/internal/incidentlog"
	"paramedic/state"
	"paramedic/webhook/httpio"
)

// maxCandidates bounds how many meanings of an ambiguous name are listed.
const maxCandidates = 10

// Incident finds an incident by its ID, a unique prefix of it (with or without INC-), or its
// number, also with its cluster as in prod-42. Each cluster counts its own incidents, so that a
// plain number may be ambiguous.
//
// Log lines about the context name the incident from then on.
func (r *Runner) Incident(ctx context.Context, name string) (state.Incident, error) {
	in, err := r.incident(name)
	incidentlog.Name(ctx, string(in.ID))
	return in, err
}

func (r *Runner) incident(name string) (state.Incident, error) {
	name = strings.ToUpper(strings.TrimSpace(name))
	if in, ok := r.View.Incident(state.IncidentID(name)); ok {
		return in, nil
	}
	var found []state.Incident
	query, byNumber := state.ParseShortName(name)
	prefix := "INC-" + strings.TrimPrefix(name, "INC-")
	all := name == "INC" || name == "INC-" // the beginning of every ID
	if name != "" && len(name) <= 64 {
		found = r.View.ListIncidents(state.IncidentQuery{Limit: maxCandidates, Match: func(in *state.Incident) bool {
			return all || byNumber && query.Matches(in) ||
				!byNumber && prefix != "INC-" && strings.HasPrefix(string(in.ID), prefix)
		}}).Incidents
	}
	switch len(found) {
	case 0:
		if err := r.Loaded(); err != nil {
			return state.Incident{}, err
		}
		return state.Incident{}, httpio.Fail(http.StatusNotFound,
			"no incident %q: give its ID, the unique beginning of it, or its number (7, or prod-7)", httpio.Cut(name, 64))
	case 1:
		return found[0], nil
	}
	more := "give more of the ID"
	if byNumber {
		more = "add its cluster (prod-7), or give its ID"
	}
	a := httpio.Fail(http.StatusConflict, "%q means several incidents: %s", httpio.Cut(name, 64), more)
	for _, in := range found {
		a.Candidates = append(a.Candidates, fmt.Sprintf("%s (%s, %s, %s)", in.ID, r.Name(&in), in.Cluster, in.Status))
	}
	return state.Incident{}, a
}

// Name returns the short name of an incident: #42, or #prod-42 if the bot has several clusters.
func (r *Runner) Name(in *state.Incident) string { return in.ShortName(len(r.Clusters) > 1) }

// Action finds an action by its ID or a unique prefix of it. Log lines about the context name its
// incident from then on.
func (r *Runner) Action(ctx context.Context, name string) (state.Action, error) {
	a, err := r.action(name)
	incidentlog.Name(ctx, string(a.Incident))
	return a, err
}

func (r *Runner) action(name string) (state.Action, error) {
	name = strings.ToUpper(strings.TrimSpace(name))
	if a, ok := r.View.Action(state.ActionID(name)); ok {
		return a, nil
	}
	var found []state.Action
	if prefix := "ACT-" + strings.TrimPrefix(name, "ACT-"); prefix != "ACT-" && len(name) <= 64 {
		found = r.View.ListActions(state.ActionQuery{Limit: maxCandidates,
			Match: func(a *state.Action) bool { return strings.HasPrefix(string(a.ID), prefix) }}).Actions
	}
	switch len(found) {
	case 0:
		if err := r.Loaded(); err != nil {
			return state.Action{}, err
		}
		return state.Action{}, httpio.Fail(http.StatusNotFound,
			"no action %q: give its ID or the unique beginning of it", httpio.Cut(name, 64))
	case 1:
		return found[0], nil
	}
	conflict := httpio.Fail(http.StatusConflict, "%q means several actions: give more of the ID", httpio.Cut(name, 64))
	for _, a := range found {
		conflict.Candidates = append(conflict.Candidates, fmt.Sprintf("%s (%s, %s)", a.ID, a.Change, a.State))
	}
	return state.Action{}, conflict
}

// ActionsOf returns the actions of an incident that the view still holds.
func (r *Runner) ActionsOf(in state.Incident) []state.Action {
	var actions []state.Action
	for _, id := range in.Actions {
		if a, ok := r.View.Action(id); ok {
			actions = append(actions, a)
		}
	}
	return actions
}
