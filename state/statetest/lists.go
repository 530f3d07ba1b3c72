package statetest

import (
	"cmp"
	"slices"
	"time"

	"paramedic/state"
)

// ListIncidents answers a query from a list, for fake views. It gives the keeper's answer the slow
// way.
func ListIncidents(all []state.Incident, q state.IncidentQuery) (page state.IncidentPage) {
	all = slices.DeleteFunc(slices.Clone(all), func(in state.Incident) bool {
		wrong := q.Which == state.OpenIncidents && !in.Open() || q.Which == state.ResolvedIncidents && in.Open() ||
			q.Urgent && !in.Open()
		return wrong || in.OpenedAt.Before(q.Since) || q.Match != nil && !q.Match(&in) || q.After != nil &&
			!after(in, *q.After)
	})
	slices.SortFunc(all, func(a, b state.Incident) int {
		age := cmp.Or(b.OpenedAt.Compare(a.OpenedAt), cmp.Compare(b.ID, a.ID))
		if q.Urgent {
			return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), b.StartedAt.Compare(a.StartedAt), age)
		}
		return age
	})
	all = all[min(q.Skip, len(all)):]
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
		last := all[q.Limit-1]
		page.Next = &state.Place{At: last.OpenedAt, ID: string(last.ID)}
	}
	page.Incidents = all
	return page
}

func after(in state.Incident, p state.Place) bool {
	return cmp.Or(p.At.Compare(in.OpenedAt), cmp.Compare(p.ID, string(in.ID))) > 0
}

// ListActions answers a query from a list, as ListIncidents does.
func ListActions(all []state.Action, q state.ActionQuery) (page state.ActionPage) {
	all = slices.DeleteFunc(slices.Clone(all), func(a state.Action) bool {
		return q.Match != nil && !q.Match(&a) || q.After != nil &&
			cmp.Or(q.After.At.Compare(planned(a)), cmp.Compare(q.After.ID, string(a.ID))) <= 0
	})
	slices.SortFunc(all, func(a, b state.Action) int {
		age := cmp.Or(planned(b).Compare(planned(a)), cmp.Compare(b.ID, a.ID))
		if q.Needy {
			return cmp.Or(b.Need()-a.Need(), age)
		}
		return age
	})
	all = all[min(q.Skip, len(all)):]
	if q.Limit > 0 && len(all) > q.Limit {
		all = all[:q.Limit]
		page.Next = &state.Place{At: planned(all[q.Limit-1]), ID: string(all[q.Limit-1].ID)}
	}
	page.Actions = all
	return page
}

func planned(a state.Action) time.Time {
	if len(a.Steps) == 0 {
		return time.Time{}
	}
	return a.Steps[0].At
}
