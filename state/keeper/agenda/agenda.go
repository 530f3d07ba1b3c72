// Package agenda orders the effects that wait for delivery.
package agenda

import (
	"sync"
	"time"

	"paramedic/state"
)

// A Task is a due effect that the keeper has handed out for delivery.
type Task struct {
	Effect state.Effect
	Lane   Lane
	// Ahead means that the work is done before the effect is due, and has no outcome. It is handed
	// out once for each load of the partition. Effect is a copy with the kind of that work.
	Ahead bool

	partition int
}

// An Agenda orders the committed effects of all partitions by lane and due time. Within a lane the
// severity of the incident comes first, then incidents without a verdict, then age. First messages
// go by severity, then size, then age. It is safe for concurrent use. The cost of a query does not
// grow with the number of effects.
type Agenda struct {
	mu         sync.Mutex
	items      map[itemKey]*item
	deliveries map[itemKey]*delivery // effects that were handed out
	lanes      map[Lane]*queue
	unloaded   map[int]bool // partitions that must be loaded again
	owed       effectHeap   // every item, by the time since which it is owed
	served     uint64       // how many effects were handed out
}

type itemKey struct {
	partition int
	id        state.EffectID
	ahead     bool // the preparation of the effect
}

func (k itemKey) preparation() itemKey { return itemKey{k.partition, k.id, true} }

// A delivery is an effect in delivery, or one whose outcome is in the log and not applied yet.
type delivery struct {
	turn    uint64
	running bool
}

// urgency orders the effects of one lane.
type urgency struct {
	severity  int
	diagnosed bool // the incident has a verdict already; not set for first messages
	size      int  // the workers or alerts that the incident covers; first messages only
}

// An item is one effect on the agenda.
type item struct {
	key     itemKey
	effect  *state.Effect
	lane    Lane
	urgency urgency
	cause   state.Cause // of the incident while it is open
	at      [heaps]int  // its index in each heap, plus one; 0: not in it
}

// owedSince returns the time at which the effect should have been delivered.
func (i *item) owedSince() time.Time {
	if i.effect.Attempts == 0 {
		return i.effect.Due
	}
	return i.effect.Since
}

// New returns an empty agenda.
func New() *Agenda {
	return &Agenda{items: map[itemKey]*item{}, deliveries: map[itemKey]*delivery{}, lanes: map[Lane]*queue{},
		unloaded: map[int]bool{}, owed: effectHeap{slot: byOwed}}
}

// A Move is a change of an effect's place on the agenda. If gone is set, the effect is not wanted
// any more.
type Move struct {
	id      state.EffectID
	gone    bool
	effect  *state.Effect // of the board, which does not change it
	lane    Lane
	urgency urgency
	cause   state.Cause
}

// Apply applies the changes of a commit.
func (a *Agenda) Apply(partition int, moves []Move) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, m := range moves {
		a.move(partition, m)
	}
}

// Load replaces all effects of a partition.
func (a *Agenda) Load(partition int, moves []Move) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(partition)
	delete(a.unloaded, partition)
	for _, m := range moves {
		a.move(partition, m)
	}
	for key, l := range a.deliveries {
		if key.partition == partition && !l.running && a.items[key] == nil {
			delete(a.deliveries, key)
		}
	}
}

// Unload removes a partition from the agenda until it is loaded again. Effects in delivery stay
// known.
func (a *Agenda) Unload(partition int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.forget(partition)
	a.unloaded[partition] = true
}

func (a *Agenda) forget(partition int) {
	for key, it := range a.items {
		if key.partition == partition {
			a.remove(it)
			delete(a.items, key)
		}
	}
}

func (a *Agenda) move(partition int, m Move) {
	key := itemKey{partition: partition, id: m.id}
	it := a.items[key]
	switch ahead := a.items[key.preparation()]; {
	case ahead == nil:
	case m.gone || m.urgency.diagnosed:
		a.dropAhead(key)
	case ahead.urgency != m.urgency:
		a.remove(ahead)
		ahead.urgency = m.urgency
		a.insert(ahead)
	}
	if m.gone {
		if it != nil {
			a.remove(it)
			delete(a.items, key)
		}
		if l := a.deliveries[key]; l != nil && !l.running {
			delete(a.deliveries, key)
		}
		return
	}
	if it == nil {
		it = &item{key: key}
		a.items[key] = it
	} else {
		if *it.effect == *m.effect && it.lane == m.lane && it.urgency == m.urgency && it.cause == m.cause {
			return
		}
		a.remove(it)
	}
	isNew := it.effect == nil
	it.effect, it.lane, it.urgency, it.cause = m.effect, m.lane, m.urgency, m.cause
	a.insert(it)
	first := it.effect.Kind == state.EffectEnrich && it.effect.Attempts == 0 && !it.urgency.diagnosed
	if isNew && first && it.effect.Due.After(it.effect.Since) {
		a.prepare(it)
	}
}

// prepare adds the preparation of a first gathering, which is due now. It is no effect of its own:
// a board would have to write it twice for each incident, and nothing depends on it.
func (a *Agenda) prepare(it *item) {
	effect := *it.effect
	effect.Kind, effect.Due = state.EffectPrepare, effect.Since
	ahead := &item{key: it.key.preparation(), effect: &effect, lane: Lane{Kind: state.EffectPrepare}, urgency: it.urgency}
	a.items[ahead.key] = ahead
	a.insert(ahead)
}

// dropAhead removes the preparation of an effect, if it waits.
func (a *Agenda) dropAhead(key itemKey) {
	if it := a.items[key.preparation()]; it != nil {
		a.remove(it)
		delete(a.items, it.key)
	}
}

// insert adds an item to its lane, unless its turn was handed out.
func (a *Agenda) insert(it *item) {
	a.owed.put(it)
	if l := a.deliveries[it.key]; l != nil {
		if l.running || l.turn == it.effect.Turn {
			return
		}
		delete(a.deliveries, it.key) // its outcome was applied
	}
	a.queue(it.lane).add(it)
}

// remove removes an item from every heap.
func (a *Agenda) remove(it *item) {
	a.owed.drop(it)
	a.queue(it.lane).drop(it)
}

func (a *Agenda) queue(l Lane) *queue {
	q := a.lanes[l]
	if q == nil {
		q = &queue{waiting: effectHeap{slot: byDue}, urgent: effectHeap{slot: byUrgency},
			oldest: effectHeap{slot: byAge}}
		a.lanes[l] = q
	}
	return q
}

// Take hands out due effects, at most room of each lane, and returns when the next one is due. The
// time is zero if none waits.
func (a *Agenda) Take(now time.Time, room func(Lane) int) (tasks []Task, next time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, lane := range a.inTurn() {
		q := a.lanes[lane]
		q.wake(now)
		n := 0
		if q.urgent.Len() > 0 {
			n = room(lane)
		}
		for ; n > 0 && q.urgent.Len() > 0; n-- {
			it := q.next(now)
			a.dropAhead(it.key)
			if !it.key.ahead {
				a.deliveries[it.key] = &delivery{turn: it.effect.Turn, running: true}
			}
			a.served++
			q.served = a.served
			tasks = append(tasks, Task{Effect: *it.effect, Lane: lane, Ahead: it.key.ahead, partition: it.key.partition})
		}
		if it := q.waiting.first(); it != nil {
			if due := it.effect.Due; next.IsZero() || due.Before(next) {
				next = due
			}
		}
	}
	return tasks, next
}

// Finish ends a delivery. If its outcome is in the log, only another turn brings the effect back.
func (a *Agenda) Finish(t Task, answered bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := itemKey{partition: t.partition, id: t.Effect.ID, ahead: t.Ahead}
	l, it := a.deliveries[key], a.items[key]
	if l == nil {
		return
	}
	l.running = false
	// While its partition is unloaded, it is not known whether the effect is still wanted.
	if !answered || it == nil && !a.unloaded[t.partition] {
		delete(a.deliveries, key)
	}
	if it != nil {
		a.remove(it)
		a.insert(it)
	}
}

// OldestOwed returns the number of effects that are owed, and since when the oldest is.
func (a *Agenda) OldestOwed(now time.Time) (since time.Time, owed int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	it := a.owed.first()
	if it == nil || it.owedSince().After(now) {
		return time.Time{}, 0
	}
	for _, q := range a.lanes {
		q.wake(now)
		owed += q.retries + q.urgent.Len()
	}
	for key := range a.deliveries {
		if a.items[key] != nil {
			owed++
		}
	}
	return it.owedSince(), owed
}

// FirstWaiting counts the open incidents that wait for their first message on a channel. It returns
// false while some partition is not loaded.
func (a *Agenda) FirstWaiting(ch state.Channel) (state.FloodCount, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	count := state.FloodCount{Channel: ch}
	q := a.lanes[Lane{Kind: state.EffectNotify, Channel: ch, First: true}]
	if len(a.unloaded) > 0 || q == nil {
		return count, len(a.unloaded) == 0
	}
	causes, severity := map[state.Cause]int{}, 0
	for _, p := range []effectHeap{q.urgent, q.waiting} {
		for _, it := range p.items {
			if it.cause == "" {
				continue // it has ended
			}
			count.Waiting++
			causes[it.cause]++
			severity = max(severity, it.urgency.severity)
		}
	}
	for _, s := range []state.Severity{state.Info, state.Warning, state.Critical} {
		if s.Rank() == severity {
			count.Severity = s
		}
	}
	for cause, n := range causes {
		count.Causes = append(count.Causes, state.CauseCount{Cause: cause, N: n})
	}
	state.SortCauses(count.Causes)
	return count, true
}
