package engine

import (
	"slices"
	"time"

	"paramedic/rules/signals"
)

// If the history is shorter than an hour, its beginning is the baseline. It must end long enough
// before the onset, because a fault begins before its first alert.
const (
	beginning = 90 * time.Second
	headStart = 2 * time.Minute
)

// A past holds the moments whose values a query compares with those of now.
type past struct {
	onset, hour time.Time // hour is an hour before the onset
	// oldest is the first page of the history, and begun the end of its beginning. Both are zero if
	// no target has three pages.
	oldest, begun time.Time
}

// pastOf returns the moments of a query. The targets are all that ever were.
func pastOf(ever []*target, onset time.Time) past {
	p := past{onset: onset, hour: onset.Add(-time.Hour)}
	var rows []row
	for _, t := range ever {
		if have := t.history.rows; len(have) > 2 && (rows == nil || have[0].at.Before(rows[0].at)) {
			rows = have
		}
	}
	if rows == nil {
		return p
	}
	p.oldest, p.begun = rows[0].at, rows[0].at.Add(beginning)
	if third := rows[2].at; third.After(p.begun) { // an old history keeps fewer pages
		p.begun = third
	}
	return p
}

// baseline returns the moment of the baselines.
func (p past) baseline() time.Time {
	if p.oldest.After(p.hour) {
		return p.begun
	}
	return p.hour
}

// baseline evaluates the values an hour before the onset, or else at the beginning of the history.
func (e *evaluation) baseline(p past, evaluate func(time.Time) map[string]entityValue) map[string]entityValue {
	switch at := p.baseline(); {
	case at.Equal(p.hour):
		return evaluate(at)
	case p.onset.Sub(at) >= headStart:
		return e.first(p, evaluate)
	}
	return nil
}

// earlier evaluates the values at the beginning of the history, if that is over two hours before
// the onset. An hour before the onset may be of the trouble itself. Engines export some counters
// only after their first event, such as an aborted request; before that their rate is zero.
func (e *evaluation) earlier(p past, evaluate func(time.Time) map[string]entityValue) map[string]entityValue {
	if p.oldest.IsZero() || p.onset.Sub(p.begun) < 2*time.Hour {
		return nil
	}
	e.unborn = true
	defer func() { e.unborn = false }()
	return e.first(p, evaluate)
}

// first evaluates the values of the beginning of the history.
func (e *evaluation) first(p past, evaluate func(time.Time) map[string]entityValue) map[string]entityValue {
	if watched := p.begun.Sub(p.oldest); e.source.Window > 0 && watched != e.source.Window {
		if slices.Contains([]signals.Fn{signals.FnIncrease, signals.FnChanges, signals.FnNews}, e.source.Fn) {
			return nil // a count over another time cannot be compared
		}
		window := e.source.Window
		defer func() { e.source.Window = window }()
		e.source.Window = watched // a rate needs two pages, and a longer window than observed would be too low
	}
	return evaluate(p.begun)
}
