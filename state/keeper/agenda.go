package keeper

import (
	"cmp"
	"container/heap"
	"strings"
	"sync"
	"time"

	"paramedic/state"
)

// A Lane groups effects that must not wait for those of another lane: a kind, and for notifications
// one channel of it. The first message about an incident has a lane of its own, because edits of
// older messages must not delay it.
type Lane struct {
	Kind    state.EffectKind
	Channel state.Channel // of notifications
	First   bool          // of notifications: the channel has not shown the incident yet
}

// A Task is a due effect that the keeper has given out for delivery.
type Task struct {
	Effect state.Effect
	Lane   Lane

	partition int
}

const (
	// overdue is how long an effect waits behind more urgent ones before it gets a share of its
	// lane.
	overdue = time.Minute
	// passes is how many more urgent effects go before one that is overdue.
	passes = 3
)

// An agenda orders the committed effects of all partitions by lane and due time. Within a lane the
// severity of the incident comes first, then an incident without a verdict, then age. It is safe
// for concurrent use, and asking it costs no more with more effects.
type agenda struct {
	mu    sync.Mutex
	items map[agendaKey]*item
	loans map[agendaKey]*loan // what was given out
	lanes map[Lane]*queue
	away  map[int]bool // partitions that are to be loaded again
	owed  pile         // every item, by the time since which it is owed
}

type agendaKey struct {
	partition int
	id        state.EffectID
}

// A loan is an effect in delivery, or one whose outcome is in the log and not applied yet.
type loan struct {
	turn    uint64
	running bool
}

// urgency orders the effects of one lane.
type urgency struct {
	severity int
	again    bool // the incident has a verdict already
}

// An item is one effect on the agenda.
type item struct {
	key     agendaKey
	effect  state.Effect
	lane    Lane
	urgency urgency
	at      [piles]int // its place in each pile, plus one; 0: not in it
}

// owedSince returns the time from which the effect should have been delivered.
func (i *item) owedSince() time.Time {
	if i.effect.Attempts == 0 {
		return i.effect.Due
	}
	return i.effect.Since
}

// A queue holds the effects of one lane.
type queue struct {
	waiting pile // not due yet, by due time
	urgent  pile // due, the most urgent first
	oldest  pile // the same, by age
	passed  int  // how many went before the oldest since one of the oldest went
	again   int  // how many of waiting were tried before
}

func newAgenda() *agenda {
	return &agenda{items: map[agendaKey]*item{}, loans: map[agendaKey]*loan{}, lanes: map[Lane]*queue{}, away: map[int]bool{}, owed: pile{slot: byOwed}}
}

// A move is a change of what one effect's place on the agenda rests on; gone says that the effect
// is not wanted any more.
type move struct {
	id      state.EffectID
	gone    bool
	effect  state.Effect
	lane    Lane
	urgency urgency
}

// apply takes over what a commit changed.
func (a *agenda) apply(partition int, moves []move) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range moves {
		a.move(partition, m)
	}
}

// load replaces what is known of a partition.
func (a *agenda) load(partition int, moves []move) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(partition)
	delete(a.away, partition)
	for _, m := range moves {
		a.move(partition, m)
	}
	for key, l := range a.loans {
		if key.partition == partition && !l.running && a.items[key] == nil {
			delete(a.loans, key)
		}
	}
}

// unload takes a partition off the agenda until it is loaded again. What is in delivery stays
// known.
func (a *agenda) unload(partition int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(partition)
	a.away[partition] = true
}

func (a *agenda) forget(partition int) {
	for key, it := range a.items {
		if key.partition == partition {
			a.lift(it)
			delete(a.items, key)
		}
	}
}

func (a *agenda) move(partition int, m move) {
	key := agendaKey{partition, m.id}
	it := a.items[key]
	if m.gone {
		if it != nil {
			a.lift(it)
			delete(a.items, key)
		}
		if l := a.loans[key]; l != nil && !l.running {
			delete(a.loans, key)
		}
		return
	}
	if it == nil {
		it = &item{key: key}
		a.items[key] = it
	} else {
		if it.effect == m.effect && it.lane == m.lane && it.urgency == m.urgency {
			return
		}
		a.lift(it)
	}
	it.effect, it.lane, it.urgency = m.effect, m.lane, m.urgency
	a.place(it)
}

// place puts an item where it can be found: in its lane, unless its turn was given out.
func (a *agenda) place(it *item) {
	a.owed.put(it)
	if l := a.loans[it.key]; l != nil {
		if l.running || l.turn == it.effect.Turn {
			return
		}
		delete(a.loans, it.key) // answered, and the answer was applied
	}
	a.queue(it.lane).add(it)
}

// lift takes an item out of every pile.
func (a *agenda) lift(it *item) {
	a.owed.drop(it)
	a.queue(it.lane).drop(it)
}

func (a *agenda) queue(l Lane) *queue {
	q := a.lanes[l]
	if q == nil {
		q = &queue{waiting: pile{slot: byDue}, urgent: pile{slot: byUrgency}, oldest: pile{slot: byAge}}
		a.lanes[l] = q
	}
	return q
}

func (q *queue) add(it *item) {
	q.waiting.put(it)
	if it.effect.Attempts > 0 {
		q.again++
	}
}

func (q *queue) drop(it *item) {
	if it.at[byDue] > 0 && it.effect.Attempts > 0 {
		q.again--
	}
	q.waiting.drop(it)
	q.urgent.drop(it)
	q.oldest.drop(it)
}

// wake makes ready what has fallen due.
func (q *queue) wake(now time.Time) {
	for it := q.waiting.first(); it != nil && !it.effect.Due.After(now); it = q.waiting.first() {
		q.drop(it)
		q.urgent.put(it)
		q.oldest.put(it)
	}
}

// pick takes the next effect out of the lane. The most urgent goes first, but what is overdue keeps
// a share of the lane.
func (q *queue) pick(now time.Time) *item {
	it, old := q.urgent.first(), q.oldest.first()
	switch {
	case it == old:
		q.passed = 0
	case q.passed >= passes && now.Sub(old.owedSince()) > overdue:
		it, q.passed = old, 0
	default:
		q.passed++
	}
	q.drop(it)
	return it
}

// take gives out due effects, at most room of each lane, and returns when the next one is due
// (zero: none waits).
func (a *agenda) take(now time.Time, room func(Lane) int) (tasks []Task, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for lane, q := range a.lanes {
		q.wake(now)
		for n := room(lane); n > 0 && q.urgent.Len() > 0; n-- {
			it := q.pick(now)
			a.loans[it.key] = &loan{turn: it.effect.Turn, running: true}
			tasks = append(tasks, Task{Effect: it.effect, Lane: lane, partition: it.key.partition})
		}
		if it := q.waiting.first(); it != nil {
			if due := it.effect.Due; next.IsZero() || due.Before(next) {
				next = due
			}
		}
	}
	return tasks, next
}

// finish takes a task back. Where its outcome is in the log, the effect comes again with another
// turn only.
func (a *agenda) finish(t Task, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := agendaKey{t.partition, t.Effect.ID}
	l, it := a.loans[key], a.items[key]
	if l == nil {
		return
	}
	l.running = false
	if !answered || it == nil && !a.away[t.partition] { // of what is away it is not known whether it is wanted
		delete(a.loans, key)
	}
	if it != nil {
		a.lift(it)
		a.place(it)
	}
}

// oldestOwed returns since when the oldest effect that is owed has been, and how many are owed.
func (a *agenda) oldestOwed(now time.Time) (since time.Time, owed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	it := a.owed.first()
	if it == nil || it.owedSince().After(now) {
		return time.Time{}, 0
	}
	for _, q := range a.lanes {
		q.wake(now)
		owed += q.again + q.urgent.Len()
	}
	for key := range a.loans {
		if a.items[key] != nil {
			owed++
		}
	}
	return it.owedSince(), owed
}

// The piles that an item can be in.
const (
	byDue = iota
	byUrgency
	byAge
	byOwed
	piles
)

// A pile is a heap of items that knows the place of each, so that one can be taken out of its
// middle.
type pile struct {
	slot  int
	items []*item
}

func (p *pile) Len() int { return len(p.items) }

func (p *pile) Less(i, j int) bool {
	x, y := p.items[i], p.items[j]
	switch p.slot {
	case byDue:
		return x.effect.Due.Before(y.effect.Due)
	case byOwed:
		return x.owedSince().Before(y.owedSince())
	case byAge:
		return cmp.Or(x.owedSince().Compare(y.owedSince()), strings.Compare(string(x.effect.ID), string(y.effect.ID))) < 0
	}
	if x.urgency.severity != y.urgency.severity {
		return x.urgency.severity > y.urgency.severity
	}
	if x.urgency.again != y.urgency.again {
		return y.urgency.again
	}
	return cmp.Or(x.effect.Due.Compare(y.effect.Due), x.effect.Since.Compare(y.effect.Since), strings.Compare(string(x.effect.ID), string(y.effect.ID))) < 0
}

func (p *pile) Swap(i, j int) {
	p.items[i], p.items[j] = p.items[j], p.items[i]
	p.items[i].at[p.slot], p.items[j].at[p.slot] = i+1, j+1
}

// Push is container/heap's; put is how an item gets in.
func (p *pile) Push(x any) {
	it := x.(*item)
	p.items = append(p.items, it)
	it.at[p.slot] = len(p.items)
}

// Pop is container/heap's; drop is how an item gets out.
func (p *pile) Pop() any {
	last := len(p.items) - 1
	it := p.items[last]
	p.items[last] = nil
	p.items = p.items[:last]
	it.at[p.slot] = 0
	return it
}

func (p *pile) first() *item {
	if len(p.items) == 0 {
		return nil
	}
	return p.items[0]
}

func (p *pile) put(it *item) { heap.Push(p, it) }

// drop takes the item out where it is in the pile.
func (p *pile) drop(it *item) {
	if at := it.at[p.slot]; at > 0 {
		heap.Remove(p, at-1)
	}
}
