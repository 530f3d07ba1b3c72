package guard

import (
	"cmp"
	"context"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
)

// failed reports whether the run did not help. It was undone, put back by another hand, or handed
// to a person. Or its symptoms came back within an hour of its success, or its incident never
// ended.
func (s *Scene) failed(a state.Action) bool {
	switch a.State {
	case state.RollbackIntent, state.RolledBack:
		return true
	case state.NeedsHuman, state.Superseded:
		return Wrote(a)
	case state.Succeeded:
		at := FirstStep(a, state.Succeeded).At
		alike := func(in *state.Incident) bool {
			return in.Cluster == a.Target.Cluster && in.Scope.Namespace == a.Target.Namespace &&
				in.Scope.Pool == a.Target.Pool && in.Cause() == a.Cause
		}
		seen := append(s.Site.View.ListIncidents(state.IncidentQuery{Since: at, Match: alike}).Incidents, s.Incident)
		own := s.rootOf(a.Incident)
		if in, ok := s.Site.View.Incident(own); ok {
			seen = append(seen, in)
		}
		for _, in := range seen {
			if !alike(&in) {
				continue
			}
			if in.OpenedAt.After(at) && in.OpenedAt.Sub(at) < time.Hour ||
				in.ID == own && in.Open() && in.ActiveAlerts > 0 && s.Now.Sub(at) > 5*time.Minute {
				return true
			}
		}
	}
	return false
}

// rootOf returns the incident that an incident was merged into, or its own ID.
func (s *Scene) rootOf(id state.IncidentID) state.IncidentID {
	for {
		in, ok := s.Site.View.Incident(id)
		if !ok || in.MergedInto == "" {
			return id
		}
		id = in.MergedInto
	}
}

func sameTarget(a, b state.Target) bool {
	return a.Cluster == b.Cluster && a.Namespace == b.Namespace &&
		(a.Pool != "" && a.Pool == b.Pool || a.Kind == b.Kind && a.Name == b.Name)
}

// lockGuard allows one live run per pool and per incident. A run that needs a person keeps its lock
// until the person cancels it.
func lockGuard(_ context.Context, s *Scene) verdict {
	for _, a := range s.actions {
		if a.ID == s.Action.ID || !sameTarget(a.Target, s.Action.Target) && s.rootOf(a.Incident) != s.Action.Incident {
			continue
		}
		switch {
		case a.NeedsPerson():
			return deny("action %s (%s) waits for a person: take care of it, then cancel it", a.ID, a.Change)
		case a.State == state.Admitted &&
			(s.Action.State == state.Intent || s.Action.State == state.Admitted && s.Action.ID < a.ID):
			continue // both were admitted at once: the one with an intent goes first, else the older
		case a.State.Running() && a.State != state.Approved:
			return hold(s.Now.Add(time.Minute), "action %s (%s) is in progress: %s", a.ID, a.Change, a.State.Words())
		}
	}
	return allow("no other action is in progress on %s", cmp.Or(s.Action.Target.Pool, s.Action.Target.Name))
}

// history denies an action that failed on this pool within a day, and one that would exceed the
// counts per incident and per day. It holds while the cooldown lasts.
func history(_ context.Context, s *Scene) verdict {
	inIncident, today := 0, 0
	var last time.Time
	for _, a := range s.actions {
		if a.ID == s.Action.ID || !Wrote(a) {
			continue
		}
		if s.rootOf(a.Incident) == s.Action.Incident {
			inIncident++
		}
		if !sameTarget(a.Target, s.Action.Target) {
			continue
		}
		at := Written(a)
		if s.Now.Sub(at) < 24*time.Hour {
			today++
			if a.Kind == s.Action.Kind && s.failed(a) {
				return deny("%s did not help at %s (%s): Paramedic does not repeat it within 24h", a.Change,
					at.Format("15:04 MST"), a.State.Words())
			}
		}
		if at := Entered(a, a.State); at.After(last) {
			last = at
		}
	}
	switch {
	case inIncident >= s.Rule.PerIncident:
		return deny("this incident had %s already; the limit is %d (per_incident)", text.Count(inIncident, "action"),
			s.Rule.PerIncident)
	case today >= s.Rule.PerTargetDay:
		return deny("this pool had %s within 24h; the limit is %d (per_target_day)", text.Count(today, "action"),
			s.Rule.PerTargetDay)
	case !last.IsZero() && s.Now.Sub(last) < s.Rule.Cooldown:
		until := last.Add(s.Rule.Cooldown)
		return hold(until, "the cooldown of %s after the last action ends at %s", state.FormatDuration(s.Rule.Cooldown),
			until.Format("15:04:05 MST"))
	}
	return allow("%d of %d actions in this incident, %d of %d on this pool within 24h", inIncident, s.Rule.PerIncident,
		today, s.Rule.PerTargetDay)
}

// budget denies more rollouts or evictions of a pool than the limits allow within their time. It
// counts the remembered runs, so that it survives a restart of the bot.
func budget(_ context.Context, s *Scene) verdict {
	if len(s.Pods) == 0 || s.Workload.Replicas <= 0 {
		return deny("%s", s.unsized())
	}
	used, allowed, within, noun := 0, 1, s.Rule.RolloutEvery, "rollout"
	if s.Action.Target.Kind == "Pod" {
		allowed = min(s.Rule.EvictionsPerHour, max(1, s.Workload.Replicas*s.Rule.EvictionPercent/100))
		within, noun = time.Hour, "eviction"
	}
	var oldest time.Time
	for _, a := range s.actions {
		if a.ID == s.Action.ID || a.Kind != s.Action.Kind || !Wrote(a) || !sameTarget(a.Target, s.Action.Target) {
			continue
		}
		if at := Written(a); s.Now.Sub(at) < within {
			if used++; oldest.IsZero() || at.Before(oldest) {
				oldest = at
			}
		}
	}
	if used >= allowed {
		return deny("this pool had %s within %s; the budget is %d, and the next is possible at %s", text.Count(used, noun),
			state.FormatDuration(within), allowed, oldest.Add(within).Format("15:04 MST"))
	}
	return allow("this pool had %d of %s within %s", used, text.Count(allowed, noun), state.FormatDuration(within))
}

// breaker denies every new action in a cluster after two failed ones within an hour. It counts the
// remembered runs, so that no restart of the bot resets it. Verification and rollback do not ask
// it.
func breaker(_ context.Context, s *Scene) verdict {
	n := 0
	for _, a := range s.actions {
		if a.Target.Cluster != s.Action.Target.Cluster || !Wrote(a) || !s.failed(a) {
			continue
		}
		if s.Now.Sub(Entered(a, a.State)) < time.Hour {
			n++
		}
	}
	if n >= 2 {
		return deny("%s failed in cluster %s within an hour: the breaker stops new actions there", text.Count(n, "action"),
			s.Action.Target.Cluster)
	}
	return allow("%s failed in cluster %s within an hour; 2 trip the breaker", text.Count(n, "action"),
		s.Action.Target.Cluster)
}
