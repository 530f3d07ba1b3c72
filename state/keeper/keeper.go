package keeper

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/keeper/agenda"
)

// Config holds what a Keeper needs.
type Config struct {
	Store  state.Store
	Fold   *fold.Fold
	Clock  state.Clock
	Logger *slog.Logger
	// Lease decides whether this process commits and delivers. Without it, the keeper only follows
	// the log. Nil: it always commits and delivers.
	Lease state.Lease
	// Published is called after each commit, with its timeline entries. Nil: it is not called.
	Published func([]state.Entry)
	// Traced is called after each commit that has inputs with a trace, with these inputs. Nil: it
	// is not called.
	Traced func([]Applied)
}

// A Keeper applies every partition's inputs in order and commits the changes before anyone can read
// them. If another process commits, it drops the board and loads it again. Without the lease it
// applies the inputs and commits nothing, so that its readers see the same incidents, and hands out
// no effect.
//
// It implements [state.View] and [state.Log], and hands the outbox the effects that are due.
type Keeper struct {
	cfg    Config
	parts  []*partition
	agenda *agenda.Agenda
	recent *recent
	role   role

	changed     chan struct{} // an effect may be due for the outbox
	rebuilt     atomic.Uint64
	aside       atomic.Uint64 // inputs that were set aside
	triaged     rate
	entriesLost atomic.Uint64                      // of timelines
	skipped     atomic.Pointer[state.SkippedInput] // the newest of them

	mu   sync.Mutex
	subs map[chan state.Entry]bool
}

// A partition is one board with its position in the log.
type partition struct {
	n int
	// mu is held for writing from the first change until the last commit in a row, so that readers
	// see committed state only.
	mu     sync.RWMutex
	board  *fold.Board
	lists  listings
	fence  state.Fence
	active bool // this process commits
	whole  bool // of a follower: the board is that of the fence, without a part of an input
	// committed is a position that the active process has committed, for a follower; used by
	// runPartition's own goroutine only.
	committed uint64
	// delivers means that the effects are on the agenda. since is when this process took them over
	// from another one; zero: from none.
	delivers bool
	since    time.Time
	ready    bool
	loaded   bool          // its board is of the store, though perhaps of a while ago
	reason   string        // why it is not ready
	wake     chan struct{} // a timer may expire sooner than the loop expects

	backlog backlog
	poison  map[logPlace]bool // inputs to skip; used by runPartition's own goroutine only
}

// New returns a keeper. It holds no state before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, agenda: agenda.New(), recent: newRecent(), changed: make(chan struct{}, 1),
		subs: map[chan state.Entry]bool{}}
	for n := range cfg.Store.Partitions() {
		k.parts = append(k.parts, &partition{n: n, board: fold.NewBoard(), lists: newListings(),
			wake: make(chan struct{}, 1), poison: map[logPlace]bool{}})
	}
	return k
}

// Run applies inputs until the context ends, and then returns nil. It tries a partition that fails
// again and again.
func (k *Keeper) Run(ctx context.Context) error {
	var watching sync.WaitGroup
	defer watching.Wait()
	watching.Go(func() { k.watchRole(ctx) })
	watching.Go(func() { k.scrub(ctx) })
	errs := make(chan error, len(k.parts))
	for _, p := range k.parts {
		go func() { errs <- k.runPartition(ctx, p) }()
	}
	var all error
	for range k.parts {
		all = errors.Join(all, <-errs)
	}
	return all
}

// After a failed read or commit the keeper waits retryPause, to spare a store that is unavailable.
// If the state is damaged for good, and a person must repair it, it waits damagedPause.
const (
	retryPause   = 500 * time.Millisecond
	damagedPause = 30 * time.Second
)

func (k *Keeper) runPartition(ctx context.Context, p *partition) error {
	for ctx.Err() == nil {
		err := k.follow(ctx, p)
		k.agenda.Unload(p.n)
		if ctx.Err() != nil {
			return nil
		}
		pause := retryPause
		if errors.Is(err, state.ErrDamaged) {
			pause = damagedPause
		}
		if errors.Is(err, errTurn) {
			continue
		}
		if errors.Is(err, state.ErrFenced) {
			k.cfg.Logger.WarnContext(ctx, "another process committed, Paramedic reads the partition again", "partition", p.n)
		} else {
			p.setReason(err.Error())
			k.cfg.Logger.ErrorContext(ctx, "a partition stopped, Paramedic starts it again", "partition", p.n, "err", err)
		}
		_, changed := k.lease()
		select {
		case <-ctx.Done():
		case <-changed:
		case <-k.cfg.Clock.After(pause):
		}
	}
	return nil
}

// follow loads the partition and applies its inputs until something fails or the lease changes.
func (k *Keeper) follow(ctx context.Context, p *partition) (err error) {
	active, ctx, stop := k.turn(ctx)
	defer stop()
	defer func() {
		if cause := context.Cause(ctx); errors.Is(cause, errTurn) {
			err = cause
		}
	}()
	resumed, board, fence := false, p.board, p.fence
	if active {
		fence, resumed = k.resume(ctx, p)
	}
	if !resumed {
		if board, fence, err = k.load(ctx, p, active); err != nil {
			return err
		}
	}
	if active && !k.alone() {
		// From here on, what another process has still on its way is refused.
		if fence, err = k.cfg.Store.Commit(ctx, p.n, fence, fence.Position, nil); err != nil {
			return fmt.Errorf("taking over partition %d: %w", p.n, err)
		}
	}
	reader, err := k.cfg.Store.Inputs(ctx, p.n, fence.Position)
	if err != nil {
		return fmt.Errorf("reading inputs of partition %d: %w", p.n, err)
	}
	defer reader.Close()
	p.backlog.reset(reader)
	if resumed {
		p.takeOver(fence)
	} else {
		k.recent.forget(board.EveryIncident())
		p.replace(board, fence, active)
	}
	if active {
		if err := k.catchUp(ctx, p, reader); err != nil {
			return err
		}
	}
	if active {
		k.begin(p) // before readers see the partition as ready
		rung := make(chan struct{})
		go func() {
			defer close(rung)
			k.runTimer(ctx, p)
		}()
		defer func() {
			stop()
			<-rung
		}()
	}
	p.open()
	k.signal()
	var last commit
	for {
		if last, err = k.step(ctx, p, reader, last); err != nil {
			return err
		}
	}
}

// A commit is the last one of a partition.
type commit struct {
	at     time.Time
	inputs int
}

const (
	// commitPause is the time from one commit of a busy partition to the next. A commit syncs
	// the disk about as often for one input as for hundreds, and the payloads of senders wait
	// meanwhile.
	commitPause = 20 * time.Millisecond
	// pauseFrom is the number of inputs in a commit from which the next one waits, and pauseBelow
	// the number of waiting inputs from which it does not.
	pauseFrom, pauseBelow = 4, 100
)

// step applies the next input, and those that wait behind it. It waits for more if the last commit
// was just now. It uses the machine's clock, since it saves the machine's time.
func (k *Keeper) step(ctx context.Context, p *partition, reader state.InputReader, last commit) (commit, error) {
	in, err := k.next(ctx, p, reader)
	if err == nil && !p.active {
		err = k.awaitCommit(ctx, p, &in)
	}
	if err != nil {
		return last, err
	}
	if left := commitPause - time.Since(last.at); left > 0 && last.inputs >= pauseFrom && reader.Buffered() < pauseBelow {
		select {
		case <-time.After(left):
		case <-ctx.Done():
			return last, ctx.Err()
		}
	}
	n, err := k.apply(ctx, p, reader, in)
	return commit{time.Now(), n}, err
}

// load reads the partition's board. If its records are damaged, the active process rebuilds it.
func (k *Keeper) load(ctx context.Context, p *partition, active bool) (*fold.Board, state.Fence, error) {
	values, fence, err := k.cfg.Store.Load(ctx, p.n, fold.DecodeRecord)
	var damage *state.DamagedError
	switch {
	case errors.As(err, &damage) && damage.Gap == "" && active:
		return k.rebuild(ctx, p, damage)
	case err != nil:
		return nil, state.Fence{}, fmt.Errorf("loading partition %d: %w", p.n, err)
	}
	return fold.BoardOf(values), fence, nil
}

// setReason records why the partition is not ready.
func (p *partition) setReason(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ready, p.reason = false, why
}

// Append makes inputs durable. An input without a time gets the current one.
func (k *Keeper) Append(ctx context.Context, inputs ...state.Input) error {
	for i := range inputs {
		if inputs[i].At.IsZero() {
			inputs[i].At = k.cfg.Clock.Now()
		}
	}
	now := k.cfg.Clock.Now()
	for i := range inputs {
		k.parts[k.cfg.Store.Partition(inputs[i].Cluster)].backlog.add(&inputs[i], now)
	}
	err := k.cfg.Store.Append(ctx, inputs...)
	if err != nil {
		for i := range inputs {
			k.parts[k.cfg.Store.Partition(inputs[i].Cluster)].backlog.remove(&inputs[i])
		}
	}
	return err
}

// Ready returns an error unless every partition is loaded and the log takes inputs.
func (k *Keeper) Ready(ctx context.Context) error {
	for _, p := range k.parts {
		p.mu.RLock()
		ready, why := p.ready, p.reason
		p.mu.RUnlock()
		switch {
		case !ready && why != "":
			return fmt.Errorf("partition %d is not loaded: %s", p.n, why)
		case !ready:
			return fmt.Errorf("partition %d is not loaded", p.n)
		}
	}
	return k.cfg.Store.Ready(ctx)
}

// Loading returns an error until every partition was loaded once. Until then, incidents are
// missing.
func (k *Keeper) Loading() error {
	for _, p := range k.parts {
		p.mu.RLock()
		loaded := p.loaded
		p.mu.RUnlock()
		if !loaded {
			return fmt.Errorf("partition %d of %d is not loaded yet", p.n, len(k.parts))
		}
	}
	return nil
}

// Changed receives a value when an effect may be due for the outbox.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

func (k *Keeper) signal() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Take hands out effects that are due, at most room of each lane, and returns when the next one is
// due. The time is zero if none waits. Within a lane the incidents' severity comes first, then age.
// An effect comes again if [Keeper.Finished] returns it, or if it has another turn.
func (k *Keeper) Take(now time.Time, room func(agenda.Lane) int) (tasks []agenda.Task, next time.Time) {
	return k.agenda.Take(now, room)
}

// Finished ends the delivery of a task. answered means that its outcome is in the log. A task ahead
// has none, and does not come again.
func (k *Keeper) Finished(t agenda.Task, answered bool) { k.agenda.Finish(t, answered) }

// OldestDue returns the number of effects that are due, and since when the oldest is. Effects in
// delivery count, and those that wait for another attempt count from the time when they were first
// wanted. The time is zero if none is due.
func (k *Keeper) OldestDue() (since time.Time, due int) {
	return k.agenda.OldestOwed(k.cfg.Clock.Now())
}
