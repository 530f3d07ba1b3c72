package agenda

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

// A Lane groups effects that must not wait for those of another lane: a kind, and for notifications
// one channel of it. The first message about an incident has a lane of its own, so that edits of
// older messages do not delay it.
type Lane struct {
	Kind    state.EffectKind
	Channel state.Channel // of notifications
	First   bool          // of notifications: the channel has not shown the incident yet
}

const (
	// overdue is the time that an effect waits behind more urgent ones before it gets a share of
	// its lane.
	overdue = time.Minute
	// maxPassed bounds how many more urgent effects go before one that is overdue.
	maxPassed = 3
)

// A queue holds the effects of one lane.
type queue struct {
	waiting effectHeap // not due yet, by due time
	urgent  effectHeap // due, the most urgent first
	oldest  effectHeap // the same, by age
	passed  int        // how many went before the oldest since an oldest one went
	retries int        // how many of waiting were tried before
	served  uint64     // when an effect was last handed out, in hand-outs of the agenda
}

func (q *queue) add(it *item) {
	q.waiting.put(it)
	if it.effect.Attempts > 0 {
		q.retries++
	}
}

func (q *queue) drop(it *item) {
	if it.at[byDue] > 0 && it.effect.Attempts > 0 {
		q.retries--
	}
	q.waiting.drop(it)
	q.urgent.drop(it)
	q.oldest.drop(it)
}

// wake moves the effects that have become due to the urgent and oldest heaps.
func (q *queue) wake(now time.Time) {
	for it := q.waiting.first(); it != nil && !it.effect.Due.After(now); it = q.waiting.first() {
		q.drop(it)
		q.urgent.put(it)
		q.oldest.put(it)
	}
}

// next removes and returns the next effect of the lane. The most urgent goes first, but overdue
// effects get a share of the lane.
func (q *queue) next(now time.Time) *item {
	it, old := q.urgent.first(), q.oldest.first()
	switch {
	case it == old:
		q.passed = 0
	case q.passed >= maxPassed && now.Sub(old.owedSince()) > overdue:
		it, q.passed = old, 0
	default:
		q.passed++
	}
	q.drop(it)
	return it
}

// inTurn returns the lanes, the one that was served longest ago first. Lanes of one channel share
// its limit, and each gets its turn.
func (a *Agenda) inTurn() []Lane {
	lanes := slices.Collect(maps.Keys(a.lanes))
	slices.SortFunc(lanes, func(x, y Lane) int { return cmp.Compare(a.lanes[x].served, a.lanes[y].served) })
	return lanes
}
