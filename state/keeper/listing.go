package keeper

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/state"
	"paramedic/state/fold"
)

// A place is the sort key of a listing. The greatest is listed first. Rank is zero in listings by
// age.
type place struct {
	rank int
	at   int64 // nanoseconds since 1970
	id   string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.rank, q.rank), cmp.Compare(p.at, q.at), strings.Compare(p.id, q.id))
}

// An index keeps records in the order of a listing, so that the cost of a page does not depend on
// the number of records. The last row is listed first: new records are appended.
type index[T any] struct {
	rows   []indexRow[T]
	places map[string]place // by ID
}

type indexRow[T any] struct {
	place
	item *T
}

func newIndex[T any]() *index[T] { return &index[T]{places: map[string]place{}} }

// seek returns the number of rows before a place.
func (x *index[T]) seek(p place) int {
	n, _ := slices.BinarySearchFunc(x.rows, p, func(r indexRow[T], p place) int { return r.compare(p) })
	return n
}

// set puts a record at its place, and moves one that is listed elsewhere.
func (x *index[T]) set(p place, item *T) {
	if old, ok := x.places[p.id]; ok {
		if i := x.seek(p); old == p && x.rows[i].item == item {
			return
		}
		x.remove(p.id)
	}
	x.places[p.id] = p
	x.rows = slices.Insert(x.rows, x.seek(p), indexRow[T]{p, item})
}

func (x *index[T]) remove(id string) {
	if p, ok := x.places[id]; ok {
		i := x.seek(p)
		x.rows = slices.Delete(x.rows, i, i+1)
		delete(x.places, id)
	}
}

// fill replaces all rows at once, which is faster than inserting them in random order.
func (x *index[T]) fill(rows []indexRow[T]) {
	slices.SortFunc(rows, func(a, b indexRow[T]) int { return a.compare(b.place) })
	x.rows = rows
	for _, r := range rows {
		x.places[r.id] = r.place
	}
}

// listings holds the orders in which a board's records are read page by page.
type listings struct {
	open     *index[state.Incident] // newest first
	urgent   *index[state.Incident] // the open ones, the most severe first
	resolved *index[state.Incident] // newest first
	actions  *index[state.Action]   // newest first
	needy    *index[state.Action]   // the same, those that need a person first
	begun    *index[state.Action]   // those that guards count, newest first
}

func newListings() listings {
	return listings{open: newIndex[state.Incident](), urgent: newIndex[state.Incident](),
		resolved: newIndex[state.Incident](),
		actions:  newIndex[state.Action](), needy: newIndex[state.Action](), begun: newIndex[state.Action]()}
}

func newestIncident(in *state.Incident) place {
	return place{at: in.OpenedAt.UnixNano(), id: string(in.ID)}
}

func urgentIncident(in *state.Incident) place {
	return place{rank: in.Severity.Rank(), at: in.StartedAt.UnixNano(), id: string(in.ID)}
}

func newestAction(a *state.Action) place { return place{at: planned(a), id: string(a.ID)} }

func needyAction(a *state.Action) place {
	return place{rank: a.Need(), at: planned(a), id: string(a.ID)}
}

// planned returns the time of the plan, in nanoseconds since 1970. The time in the action's ID is
// another.
func planned(a *state.Action) int64 {
	if len(a.Steps) == 0 {
		return 0
	}
	return a.Steps[0].At.UnixNano()
}

// follow updates the places of the records that the board has changed since its last Take.
func (l *listings) follow(b *fold.Board) {
	for id := range b.ChangedIncidents() {
		in := b.Incident(id)
		if in != nil && in.Open() {
			l.open.set(newestIncident(in), in)
			l.urgent.set(urgentIncident(in), in)
		} else {
			l.open.remove(string(id))
			l.urgent.remove(string(id))
		}
		if in != nil && !in.Open() {
			l.resolved.set(newestIncident(in), in)
		} else {
			l.resolved.remove(string(id))
		}
	}
	for id := range b.ChangedActions() {
		a := b.Action(id)
		if a == nil {
			l.actions.remove(string(id))
			l.needy.remove(string(id))
		} else {
			l.actions.set(newestAction(a), a)
			l.needy.set(needyAction(a), a)
		}
		if a != nil && a.Begun() {
			l.begun.set(newestAction(a), a)
		} else {
			l.begun.remove(string(id))
		}
	}
}

// listingsOf returns the listings of a whole board.
func listingsOf(b *fold.Board) listings {
	var open, urgent, resolved []indexRow[state.Incident]
	for in := range b.EveryIncident() {
		if in.Open() {
			open = append(open, indexRow[state.Incident]{newestIncident(in), in})
			urgent = append(urgent, indexRow[state.Incident]{urgentIncident(in), in})
		} else {
			resolved = append(resolved, indexRow[state.Incident]{newestIncident(in), in})
		}
	}
	var actions, needy, begun []indexRow[state.Action]
	for a := range b.EveryAction() {
		actions = append(actions, indexRow[state.Action]{newestAction(a), a})
		needy = append(needy, indexRow[state.Action]{needyAction(a), a})
		if a.Begun() {
			begun = append(begun, indexRow[state.Action]{newestAction(a), a})
		}
	}
	l := newListings()
	l.open.fill(open)
	l.urgent.fill(urgent)
	l.resolved.fill(resolved)
	l.actions.fill(actions)
	l.needy.fill(needy)
	l.begun.fill(begun)
	return l
}
