package fold

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"paramedic/state"
	"paramedic/state/fold/packed"
)

// A keeper reads a board with these methods. The records are the board's own: a caller must not
// change them, and must not keep them beyond the lock that guards the board.

// Incident returns the incident, or nil.
func (b *Board) Incident(id state.IncidentID) *state.Incident { return b.incidents[id] }

// Action returns the action, or nil.
func (b *Board) Action(id state.ActionID) *state.Action { return b.actions[id] }

// About returns the incidents that an applied input is about, each once.
func (b *Board) About(in *state.Input) []state.IncidentID {
	var ids []state.IncidentID
	add := func(id state.IncidentID) {
		if root := b.root(id); root != nil && !slices.Contains(ids, root.ID) {
			ids = append(ids, root.ID)
		}
	}
	switch {
	case in.Alerts != nil:
		for i := range in.Alerts.Alerts {
			if rec := b.alerts.Get(in.Alerts.Alerts[i].Fingerprint); rec != nil {
				add(rec.Incident())
			}
		}
	case in.Evidence != nil:
		add(in.Evidence.Incident)
	case in.Action != nil:
		add(in.Action.Action.Incident)
	}
	return ids
}

// Effect returns the effect, or nil. It is never changed, and may be kept.
func (b *Board) Effect(id state.EffectID) *state.Effect { return b.effects[id] }

// Evidence returns the incident's newest gathering of evidence, or nil.
func (b *Board) Evidence(id state.IncidentID) *state.Evidence { return b.evidence[id] }

// Halt returns the halt of first aid in a cluster, or nil.
func (b *Board) Halt(cluster string) *state.Halt { return b.halts[cluster] }

// EveryIncident yields all incidents, in no order.
func (b *Board) EveryIncident() iter.Seq[*state.Incident] { return maps.Values(b.incidents) }

// EveryAction yields all actions, in no order.
func (b *Board) EveryAction() iter.Seq[*state.Action] { return maps.Values(b.actions) }

// EveryEffect yields all effects, in no order.
func (b *Board) EveryEffect() iter.Seq[*state.Effect] { return maps.Values(b.effects) }

// EffectsOf returns the effects that are wanted for an incident.
func (b *Board) EffectsOf(id state.IncidentID) []state.EffectID { return b.effectsByIncident[id] }

// ChangedIncidents yields the incidents that were changed or erased since the last Take.
func (b *Board) ChangedIncidents() iter.Seq[state.IncidentID] {
	return changedOf[state.IncidentID](b, kindIncident)
}

// ChangedActions yields the actions that were changed or erased since the last Take.
func (b *Board) ChangedActions() iter.Seq[state.ActionID] {
	return changedOf[state.ActionID](b, kindAction)
}

// ChangedEffects yields the effects that were changed or dropped since the last Take.
func (b *Board) ChangedEffects() iter.Seq[state.EffectID] {
	return changedOf[state.EffectID](b, kindEffect)
}

func changedOf[ID ~string](b *Board, kind string) iter.Seq[ID] {
	return func(yield func(ID) bool) {
		for _, c := range b.dirty {
			if c.kind == kind && !yield(ID(c.id)) {
				return
			}
		}
	}
}

// Firing lists the alerts that the cluster's Alertmanager reported and that count as firing, with
// the times at which it reported them last.
func (b *Board) Firing(cluster string) map[state.Fingerprint]time.Time {
	out := map[state.Fingerprint]time.Time{}
	for rec := range b.alerts.All() {
		in := b.root(rec.Incident())
		if rec.Active() && in != nil && in.Cluster == cluster && !strings.HasPrefix(string(rec.Fingerprint()), "pagerduty-") {
			out[rec.Fingerprint()] = rec.LastAt()
		}
	}
	return out
}

// AlertsOf returns copies of the alerts of an incident and of those merged into it, the earliest
// first.
func (b *Board) AlertsOf(in *state.Incident) []state.AlertRecord {
	var out []state.AlertRecord
	for _, rec := range b.alertsOf(in) {
		out = append(out, rec.Full())
	}
	return out
}

// alertsOf returns the alerts of an incident and of those merged into it, the earliest first.
func (b *Board) alertsOf(in *state.Incident) []*packed.Alert {
	var out []*packed.Alert
	for queue := []*state.Incident{in}; len(queue) > 0; queue = queue[1:] {
		out = slices.AppendSeq(out, b.alerts.Of(queue[0].ID))
		for _, id := range queue[0].Absorbed {
			if merged := b.incidents[id]; merged != nil {
				queue = append(queue, merged)
			}
		}
	}
	slices.SortFunc(out, func(a, b *packed.Alert) int {
		return cmp.Or(a.StartsAt().Compare(b.StartsAt()), cmp.Compare(a.Fingerprint(), b.Fingerprint()))
	})
	return out
}
