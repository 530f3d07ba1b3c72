package keeper

import (
	"math"
	"slices"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
)

// ListIncidents returns one page of the matching incidents.
func (k *Keeper) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	indexes := []func(*listings) *index[state.Incident]{
		func(l *listings) *index[state.Incident] { return l.open },
		func(l *listings) *index[state.Incident] { return l.resolved },
	}
	switch {
	case q.Urgent:
		indexes = []func(*listings) *index[state.Incident]{func(l *listings) *index[state.Incident] { return l.urgent }}
	case q.Which == state.OpenIncidents:
		indexes = indexes[:1]
	case q.Which == state.ResolvedIncidents:
		indexes = indexes[1:]
	}
	l := lister[state.Incident]{match: q.Match, after: before(q.After), need: needed(q.Skip, q.Limit),
		last: place{at: math.MinInt64}}
	if !q.Since.IsZero() {
		l.last.at = q.Since.UnixNano()
	}
	found := l.look(k, indexes)
	var out state.IncidentPage
	for i, at := range found[min(q.Skip, len(found)):] {
		if q.Limit > 0 && i == q.Limit {
			last := found[q.Skip+q.Limit-1]
			out.Next = &state.Place{At: time.Unix(0, last.at).UTC(), ID: last.id}
			break
		}
		// It may have changed or been erased since: a page shows matches only.
		if in, ok := at.part.incident(state.IncidentID(at.id), q.Match); ok {
			out.Incidents = append(out.Incidents, in)
		}
	}
	return out
}

// ListActions returns one page of the matching actions.
func (k *Keeper) ListActions(q state.ActionQuery) state.ActionPage {
	order := func(l *listings) *index[state.Action] { return l.actions }
	if q.Needy {
		order = func(l *listings) *index[state.Action] { return l.needy }
	}
	return k.actionPage(order, q)
}

// BegunActions returns the actions that were admitted or recorded an intent, newest first.
func (k *Keeper) BegunActions() []state.Action {
	return k.actionPage(func(l *listings) *index[state.Action] { return l.begun }, state.ActionQuery{}).Actions
}

func (k *Keeper) actionPage(order func(*listings) *index[state.Action], q state.ActionQuery) state.ActionPage {
	l := lister[state.Action]{match: q.Match, after: before(q.After), need: needed(q.Skip, q.Limit),
		last: place{at: math.MinInt64}}
	found := l.look(k, []func(*listings) *index[state.Action]{order})
	var out state.ActionPage
	for i, at := range found[min(q.Skip, len(found)):] {
		if q.Limit > 0 && i == q.Limit {
			last := found[q.Skip+q.Limit-1]
			out.Next = &state.Place{At: time.Unix(0, last.at).UTC(), ID: last.id}
			break
		}
		if a, ok := at.part.action(state.ActionID(at.id), q.Match); ok {
			out.Actions = append(out.Actions, a)
		}
	}
	return out
}

// Tally counts the incidents and actions within retention.
func (k *Keeper) Tally() (t state.Tally) {
	for _, p := range k.parts {
		p.mu.RLock()
		t.Open += len(p.lists.open.rows)
		t.Resolved += len(p.lists.resolved.rows)
		t.Actions += len(p.lists.actions.rows)
		p.mu.RUnlock()
	}
	return t
}

// ActionsOf returns the actions that were planned for an incident, newest first.
func (k *Keeper) ActionsOf(id state.IncidentID) []state.Action {
	var out []state.Action
	k.find(func(b *fold.Board) bool {
		in := b.Incident(id)
		if in == nil {
			return false
		}
		seen := map[state.ActionID]bool{}
		// An action that was planned before a merge may have come after it: then the root lists it.
		for ; in != nil; in = b.Incident(in.MergedInto) {
			for _, aid := range in.Actions {
				if a := b.Action(aid); a != nil && a.Incident == id && !seen[aid] {
					seen[aid] = true
					out = append(out, a.Clone())
				}
			}
		}
		return true
	})
	slices.Reverse(out) // an incident lists its actions in the order of their plans
	return out
}

func (p *partition) incident(id state.IncidentID, match func(*state.Incident) bool) (state.Incident, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	in := p.board.Incident(id)
	if in == nil || match != nil && !match(in) {
		return state.Incident{}, false
	}
	return in.Clone(), true
}

func (p *partition) action(id state.ActionID, match func(*state.Action) bool) (state.Action, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	a := p.board.Action(id)
	if a == nil || match != nil && !match(a) {
		return state.Action{}, false
	}
	return a.Clone(), true
}

// foremost comes before every place of a listing.
var foremost = place{rank: math.MaxInt, at: math.MaxInt64}

func before(p *state.Place) place {
	switch {
	case p == nil:
		return foremost
	case p.At.IsZero():
		return place{id: p.ID}
	}
	return place{at: p.At.UnixNano(), id: p.ID}
}

// needed returns how many places decide a page. One more shows whether another page follows.
func needed(skip, limit int) int {
	if limit <= 0 {
		return math.MaxInt
	}
	return skip + limit + 1
}

// maxWalked bounds the records that one look under a partition's lock passes. A long listing must
// not delay the reader of the inputs.
const maxWalked = 1000

// A lister finds the first places of a listing over several partitions and indexes.
type lister[T any] struct {
	match func(*T) bool
	after place // the listing begins after it
	last  place // the listing ends with it
	need  int
	found []spot
}

type spot struct {
	place
	part *partition
}

func (l *lister[T]) look(k *Keeper, indexes []func(*listings) *index[T]) []spot {
	for _, p := range k.parts {
		for _, of := range indexes {
			l.walk(p, of)
		}
	}
	return l.found
}

// walk adds the places of an index, and keeps the list sorted and short.
func (l *lister[T]) walk(p *partition, of func(*listings) *index[T]) {
	start, at := len(l.found), l.after
	for more := true; more; {
		at, more = l.chunk(p, of, at, start)
	}
	if start > 0 {
		slices.SortFunc(l.found, func(a, b spot) int { return b.compare(a.place) })
	}
	if len(l.found) > l.need {
		l.found = l.found[:l.need]
	}
	if len(l.found) == l.need && l.found[l.need-1].compare(l.last) > 0 {
		l.last = l.found[l.need-1].place // later places are on no requested page
	}
}

// chunk passes at most maxWalked records. It returns where it stopped, and whether there are more.
func (l *lister[T]) chunk(p *partition, of func(*listings) *index[T], at place, start int) (place, bool) {
	p.mu.RLock()
	defer p.mu.RUnlock()
	x := of(&p.lists)
	for i, walked := x.seek(at)-1, 0; i >= 0 && len(l.found)-start < l.need; i-- {
		r := x.rows[i]
		if r.compare(l.last) < 0 {
			return r.place, false
		}
		if walked++; walked > maxWalked {
			return at, true
		}
		at = r.place
		if l.match == nil || l.match(r.item) {
			l.found = append(l.found, spot{r.place, p})
		}
	}
	return at, false
}
