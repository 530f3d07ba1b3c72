package keeper

import (
	"paramedic/state"
	"paramedic/state/fold"
)

// changedMoves returns what the changes since the last Take mean for the agenda.
func changedMoves(b *fold.Board) []move {
	var out []move
	for id := range b.ChangedEffects() {
		out = append(out, moveOf(b, id))
	}
	for in := range b.ChangedIncidents() { // its severity and what was shown of it order its effects
		for _, id := range b.EffectsOf(in) {
			out = append(out, moveOf(b, id))
		}
	}
	return out
}

// allMoves returns what the whole board means for the agenda.
func allMoves(b *fold.Board) []move {
	var out []move
	for e := range b.EveryEffect() {
		out = append(out, moveOf(b, e.ID))
	}
	return out
}

func moveOf(b *fold.Board, id state.EffectID) move {
	e := b.Effect(id)
	if e == nil {
		return move{id: id, gone: true}
	}
	m := move{id: id, effect: *e, lane: Lane{Kind: e.Kind}}
	in := b.Incident(e.Incident)
	if e.Kind == state.EffectNotify {
		m.lane.Channel = e.Channel
		m.lane.First = in != nil && in.Told[e.Channel].Rev == 0
	}
	if in != nil {
		m.urgency = urgency{severity: in.Severity.Rank(), again: !in.DiagnosedAt.IsZero()}
	}
	return m
}
