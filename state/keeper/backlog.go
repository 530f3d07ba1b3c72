package keeper

import (
	"sync"
	"time"

	"paramedic/state"
)

// Lag returns how far every partition is behind.
func (k *Keeper) Lag() []state.Lag {
	out := make([]state.Lag, len(k.parts))
	for i, p := range k.parts {
		out[i] = p.backlog.lag(p.n, k.cfg.Clock.Now())
	}
	return out
}

// LagOf returns how far the partition of a cluster's inputs is behind.
func (k *Keeper) LagOf(cluster string) state.Lag {
	n := k.cfg.Store.Partition(cluster)
	return k.parts[n].backlog.lag(n, k.cfg.Clock.Now())
}

// speedOver is the working time over which speed is measured: short enough to follow a board that
// grows slow.
const speedOver = 10 * time.Second

// lostAfter is how much later an input has to be accepted than one that it overtakes, so that the
// other is lost. Two that are appended at once may change places; an append takes ten seconds at
// most.
const lostAfter = time.Minute

// A backlog counts what waits to be applied. What this process appends it knows exactly, before
// anyone has read it; of what others appended, and of what waited at the start, it knows what the
// reader knows.
type backlog struct {
	mu     sync.Mutex
	booked map[string]booking // this process's alert inputs that are not applied yet, by ID
	order  []appended         // the same, as they came; some are applied already
	inputs int                // of booked
	alerts int                // of booked
	reader state.InputReader  // nil before the partition is loaded

	current time.Time // when the input that is being applied was accepted; zero: none is
	working time.Time // when the work began that is not in spent yet; zero: there is none

	// What was done lately, and how long it took.
	count, weight float64
	spent         time.Duration
}

type booking struct{ inputs, alerts int }

type appended struct {
	id string
	at time.Time
}

// weigh returns what an input counts: its alerts, and one for anything else.
func weigh(in *state.Input) int {
	if in.Alerts == nil {
		return 1
	}
	return max(1, len(in.Alerts.Alerts))
}

// book counts an input that is about to be appended. It comes before the append, so that an input
// cannot be applied first.
func (b *backlog) book(in *state.Input, now time.Time) {
	if in.Alerts == nil || in.ID == "" {
		return // nothing else comes in numbers that matter
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.booked == nil {
		b.booked = map[string]booking{}
	}
	was := b.booked[in.ID]
	b.booked[in.ID] = booking{was.inputs + 1, was.alerts + weigh(in)}
	b.order = append(b.order, appended{in.ID, now})
	b.inputs++
	b.alerts += weigh(in)
}

// strike takes an input off the books: it was applied, or not appended.
func (b *backlog) strike(in *state.Input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.struck(in)
}

func (b *backlog) struck(in *state.Input) {
	was, ok := b.booked[in.ID]
	if !ok {
		return
	}
	one := was.alerts / was.inputs // the same ID means the same alerts
	b.inputs--
	b.alerts -= one
	if was.inputs == 1 {
		delete(b.booked, in.ID)
	} else {
		b.booked[in.ID] = booking{was.inputs - 1, was.alerts - one}
	}
	for len(b.order) > 0 && b.booked[b.order[0].id].inputs == 0 {
		b.order = b.order[1:]
	}
}

// follow begins anew with a reader: what was booked before may have been applied by another
// process.
func (b *backlog) follow(reader state.InputReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.booked, b.order, b.inputs, b.alerts = nil, nil, 0, 0
	b.reader, b.current, b.working = reader, time.Time{}, time.Time{}
}

// begin notes that an input is being applied.
func (b *backlog) begin(in *state.Input, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = in.At
	if b.working.IsZero() {
		b.working = now
	}
}

// applied notes that an input was applied.
func (b *backlog) applied(in *state.Input, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.struck(in)
	for len(b.order) > 0 && b.order[0].at.Before(in.At.Add(-lostAfter)) { // the disk lost it: a later one would not come first
		b.struck(&state.Input{ID: b.order[0].id})
	}
	b.count++
	b.weight += float64(weigh(in))
	b.spend(now)
	b.working = now
}

// committed notes that what was applied is durable. Caught up says that nothing waits behind it.
func (b *backlog) committed(now time.Time, caughtUp bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.spend(now)
	b.working = now
	if caughtUp {
		b.current, b.working = time.Time{}, time.Time{}
	}
}

// spend adds the work since it was last added, and lets what is older fade.
func (b *backlog) spend(now time.Time) {
	b.spent += now.Sub(b.working)
	if b.spent > speedOver {
		keep := float64(speedOver) / float64(b.spent)
		b.spent, b.weight, b.count = speedOver, b.weight*keep, b.count*keep
	}
}

func (b *backlog) lag(partition int, now time.Time) state.Lag {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := state.Lag{Partition: partition, Inputs: b.inputs, Alerts: b.alerts}
	oldest := b.current
	if len(b.order) > 0 && (oldest.IsZero() || b.order[0].at.Before(oldest)) {
		oldest = b.order[0].at
	}
	if !oldest.IsZero() {
		l.Age = max(0, now.Sub(oldest))
	}
	if b.reader != nil {
		waiting := b.reader.Waiting()
		if !b.current.IsZero() {
			waiting++
		}
		if others := waiting - b.inputs; others > 0 {
			l.Inputs += others
			each := 1.0
			if b.count > 0 {
				each = b.weight / b.count
			}
			l.Alerts += int(float64(others) * each)
		}
	}
	took := b.spent
	if !b.working.IsZero() {
		took += max(0, now.Sub(b.working))
	}
	if b.weight > 0 {
		l.Work = time.Duration(float64(l.Alerts) / b.weight * float64(took))
	}
	return l
}
