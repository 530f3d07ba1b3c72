package state

import "slices"

// want adds an effect.
func (b *Board) want(e *Effect) {
	b.effects[e.ID] = e
	b.wants[e.Incident] = append(b.wants[e.Incident], e.ID)
}

// unwant takes an effect away.
func (b *Board) unwant(e *Effect) {
	delete(b.effects, e.ID)
	left := slices.DeleteFunc(b.wants[e.Incident], func(id EffectID) bool { return id == e.ID })
	if len(left) == 0 {
		delete(b.wants, e.Incident)
		return
	}
	b.wants[e.Incident] = left
}

// moves returns what the changes since the last Take mean for the agenda.
func (b *Board) moves() []move {
	var out []move
	for _, c := range b.dirty {
		switch c.kind {
		case kindEffect:
			out = append(out, b.moveOf(EffectID(c.id)))
		case kindIncident: // its severity and what was shown of it order its effects
			for _, id := range b.wants[IncidentID(c.id)] {
				out = append(out, b.moveOf(id))
			}
		}
	}
	return out
}

// allMoves returns what the whole board means for the agenda.
func (b *Board) allMoves() []move {
	out := make([]move, 0, len(b.effects))
	for id := range b.effects {
		out = append(out, b.moveOf(id))
	}
	return out
}

func (b *Board) moveOf(id EffectID) move {
	e := b.effects[id]
	if e == nil {
		return move{id: id, gone: true}
	}
	m := move{id: id, effect: *e, lane: Lane{Kind: e.Kind}}
	in := b.incidents[e.Incident]
	if e.Kind == EffectNotify {
		m.lane.Channel = e.Channel
		m.lane.First = in != nil && in.Told[e.Channel].Rev == 0
	}
	if in != nil {
		m.urgency = urgency{severity: in.Severity.Rank(), again: !in.DiagnosedAt.IsZero()}
	}
	return m
}
