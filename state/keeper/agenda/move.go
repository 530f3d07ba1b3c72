package agenda

import (
	"paramedic/state"
	"paramedic/state/fold"
)

// Changed returns the moves for the changes of a board since its last Take.
func Changed(b *fold.Board) []Move {
	out := make([]Move, 0, b.Changes())
	for id := range b.ChangedEffects() {
		out = append(out, moveOf(b, id))
	}
	for in := range b.ChangedIncidents() { // the incident's severity and shown revisions order its effects
		for _, id := range b.EffectsOf(in) {
			out = append(out, moveOf(b, id))
		}
	}
	return out
}

// All returns the moves for a whole board.
func All(b *fold.Board) []Move {
	var out []Move
	for e := range b.EveryEffect() {
		out = append(out, moveOf(b, e.ID))
	}
	return out
}

func moveOf(b *fold.Board, id state.EffectID) Move {
	e := b.Effect(id)
	if e == nil {
		return Move{id: id, gone: true}
	}
	m := Move{id: id, effect: e, lane: Lane{Kind: e.Kind}}
	in := b.Incident(e.Incident)
	switch e.Kind {
	case state.EffectFlood:
		m.lane.Channel = e.Channel
	case state.EffectNotify:
		m.lane.Channel = e.Channel
		m.lane.First = in != nil && in.Told.Rev(e.Channel) == 0
	}
	if in != nil && in.Open() {
		m.cause = in.Cause()
	}
	if in != nil {
		m.urgency = urgencyOf(in, m.lane)
	}
	return m
}

// urgencyOf returns the urgency of an effect of the incident. The size of an incident is the number
// of workers that it covers, or of its firing alerts if that is more.
func urgencyOf(in *state.Incident, l Lane) urgency {
	if l.First {
		return urgency{severity: in.Severity.Rank(), size: max(len(in.Scope.Pods), in.ActiveAlerts)}
	}
	return urgency{severity: in.Severity.Rank(), diagnosed: !in.DiagnosedAt.IsZero()}
}
