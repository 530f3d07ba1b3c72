package keeper

import (
	"sync"
	"time"

	"paramedic/state"
)

// Lag returns the lag of every partition.
func (k *Keeper) Lag() []state.Lag {
	out := make([]state.Lag, len(k.parts))
	for i, p := range k.parts {
		out[i] = p.backlog.lag(p.n, k.cfg.Clock.Now())
	}
	return out
}

// LagOf returns the lag of the partition of a cluster's inputs.
func (k *Keeper) LagOf(cluster string) state.Lag {
	n := k.cfg.Store.Partition(cluster)
	return k.parts[n].backlog.lag(n, k.cfg.Clock.Now())
}

// speedWindow is the working time over which the speed is measured. It is short, so that the speed
// follows a board that becomes slow.
const speedWindow = 10 * time.Second

// The speed of less than leastWork says little: the first inputs of a storm share the processors
// with the payloads that arrive. What is missing of it counts at usualSpeed, in alerts a second,
// which is half of what two processors triage (BenchmarkServe).
const (
	leastWork  = 5 * time.Second
	usualSpeed = 10_000
)

// lostAfter decides that an input is lost: one that was accepted this much later is applied before
// it. Two concurrent appends may change places, but an append takes at most ten seconds.
const lostAfter = time.Minute

// A backlog counts the inputs that wait to be applied. Inputs of this process are counted exactly,
// before the reader has read them. For inputs of other processes, and for those that waited at the
// start, it relies on the reader.
type backlog struct {
	mu      sync.Mutex
	pending map[string]pendingCount // this process's alert inputs that are not applied yet, by ID
	order   []appended              // the same in the order of their append; some are applied already
	inputs  int                     // number of pending inputs
	alerts  int                     // number of alerts in them
	reader  state.InputReader       // nil before the partition is loaded

	current time.Time // when the current input was accepted; zero: none is being applied
	working time.Time // start of the work that is not in spent yet; zero: none

	// The recent work, and the time that it took.
	count, weight float64
	spent         time.Duration
}

type pendingCount struct{ inputs, alerts int }

type appended struct {
	id string
	at time.Time
}

// alertsIn returns the number of alerts in an input, at least one.
func alertsIn(in *state.Input) int {
	if in.Alerts == nil {
		return 1
	}
	return max(1, len(in.Alerts.Alerts))
}

// add counts an input that is about to be appended. It is called before the append, because the
// input may be applied before the append returns.
func (b *backlog) add(in *state.Input, now time.Time) {
	if in.Alerts == nil || in.ID == "" {
		return // other inputs are too few to matter
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.pending == nil {
		b.pending = map[string]pendingCount{}
	}
	was := b.pending[in.ID]
	b.pending[in.ID] = pendingCount{was.inputs + 1, was.alerts + alertsIn(in)}
	b.order = append(b.order, appended{in.ID, now})
	b.inputs++
	b.alerts += alertsIn(in)
}

// remove removes an input that was applied, or that was not appended.
func (b *backlog) remove(in *state.Input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(in)
}

func (b *backlog) removeLocked(in *state.Input) {
	was, ok := b.pending[in.ID]
	if !ok {
		return
	}
	one := was.alerts / was.inputs // the same ID means the same alerts
	b.inputs--
	b.alerts -= one
	if was.inputs == 1 {
		delete(b.pending, in.ID)
	} else {
		b.pending[in.ID] = pendingCount{was.inputs - 1, was.alerts - one}
	}
	for len(b.order) > 0 && b.pending[b.order[0].id].inputs == 0 {
		b.order = b.order[1:]
	}
}

// reset starts with a new reader. Another process may have applied the pending inputs.
func (b *backlog) reset(reader state.InputReader) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pending, b.order, b.inputs, b.alerts = nil, nil, 0, 0
	b.reader, b.current, b.working = reader, time.Time{}, time.Time{}
}

// hold records that an input waits although it was read.
func (b *backlog) hold(in *state.Input) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = in.At
}

// begin records that an input is being applied.
func (b *backlog) begin(in *state.Input, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current = in.At
	if b.working.IsZero() {
		b.working = now
	}
}

// applied records that an input was applied.
func (b *backlog) applied(in *state.Input, now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.removeLocked(in)
	// The disk lost it: a later one would not come first.
	for len(b.order) > 0 && b.order[0].at.Before(in.At.Add(-lostAfter)) {
		b.removeLocked(&state.Input{ID: b.order[0].id})
	}
	b.count++
	b.weight += float64(alertsIn(in))
	b.addWork(now)
	b.working = now
}

// committed records that the applied inputs are durable.
func (b *backlog) committed(now time.Time) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.addWork(now)
	b.working = now
}

// caughtUp records that no input waits.
func (b *backlog) caughtUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.current, b.working = time.Time{}, time.Time{}
}

// addWork adds the time since the last call, and scales older work down to speedWindow.
func (b *backlog) addWork(now time.Time) {
	b.spent += now.Sub(b.working)
	if b.spent > speedWindow {
		keep := float64(speedWindow) / float64(b.spent)
		b.spent, b.weight, b.count = speedWindow, b.weight*keep, b.count*keep
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
		weight := b.weight
		if missing := leastWork - took; missing > 0 {
			took, weight = leastWork, weight+missing.Seconds()*usualSpeed
		}
		l.Work = time.Duration(float64(l.Alerts) / weight * float64(took))
	}
	return l
}
