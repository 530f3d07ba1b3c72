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
)

// mostUncommitted is how many changed records make the keeper commit though more inputs wait. With
// what most inputs change it stays under the 999 records that JetStream takes in one batch; a
// commit of more costs twice as much.
const mostUncommitted = 300

// KeeperConfig is what a Keeper needs.
type Config struct {
	Store  state.Store
	Fold   *fold.Fold
	Clock  state.Clock
	Logger *slog.Logger
}

// A Keeper applies every partition's inputs in order and commits what came of them, before anybody
// can see it. It is the one reader of its partitions: where another one commits, it drops what it
// holds and reads it again.
//
// It implements [View] and [Log], and gives the outbox what is due.
type Keeper struct {
	cfg    Config
	parts  []*partition
	agenda *agenda
	recent *recent

	changed chan struct{} // something may be due for the outbox
	rebuilt atomic.Uint64

	mu   sync.Mutex
	subs map[chan state.Entry]bool
}

// A partition is one board with its place in the log.
type partition struct {
	n     int
	mu    sync.RWMutex // held for writing from the first change until its commit, so that readers see committed state only
	board *fold.Board
	lists listings
	fence state.Fence
	ready bool
	why   string        // it is not ready
	wake  chan struct{} // an effect of time may be due sooner than the loop knows

	backlog backlog
}

// NewKeeper makes a keeper. It remembers nothing before Run.
func New(cfg Config) *Keeper {
	k := &Keeper{cfg: cfg, agenda: newAgenda(), recent: newRecent(), changed: make(chan struct{}, 1), subs: map[chan state.Entry]bool{}}
	for n := range cfg.Store.Partitions() {
		k.parts = append(k.parts, &partition{n: n, board: fold.NewBoard(), lists: newListings(), wake: make(chan struct{}, 1)})
	}
	return k
}

// Run applies inputs until the context ends. It returns nil then, and an error only where the log
// cannot be read at all.
func (k *Keeper) Run(ctx context.Context) error {
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

// Retrying after a failed read or commit waits this long, so that a store that is away is not
// hammered; where the state is damaged for good, which takes a person to mend, it waits for
// damagedPause.
const (
	retryPause   = 500 * time.Millisecond
	damagedPause = 30 * time.Second
)

func (k *Keeper) runPartition(ctx context.Context, p *partition) error {
	for ctx.Err() == nil {
		err := k.follow(ctx, p)
		k.agenda.unload(p.n)
		if ctx.Err() != nil {
			return nil
		}
		pause := retryPause
		if errors.Is(err, state.ErrDamaged) {
			pause = damagedPause
		}
		if errors.Is(err, state.ErrFenced) {
			k.cfg.Logger.Warn("another reader committed, reading the partition again", "partition", p.n)
		} else {
			p.say(err.Error())
			k.cfg.Logger.Error("partition stopped, trying again", "partition", p.n, "err", err)
		}
		select {
		case <-ctx.Done():
		case <-k.cfg.Clock.After(pause):
		}
	}
	return nil
}

// follow loads the partition and applies its inputs until something fails.
func (k *Keeper) follow(ctx context.Context, p *partition) error {
	board, fence, err := k.load(ctx, p)
	if err != nil {
		return err
	}
	reader, err := k.cfg.Store.Inputs(ctx, p.n, fence.Position)
	if err != nil {
		return fmt.Errorf("reading inputs of partition %d: %w", p.n, err)
	}
	defer reader.Close()
	p.backlog.follow(reader)
	k.recent.forget(board.EveryIncident())
	lists := listingsOf(board)
	p.mu.Lock()
	p.board, p.lists, p.fence, p.ready, p.why = board, lists, fence, true, ""
	k.agenda.load(p.n, allMoves(board)) // before a reader sees the partition ready
	p.mu.Unlock()
	k.signal()
	ringing, stop := context.WithCancel(ctx)
	rung := make(chan struct{})
	go func() {
		defer close(rung)
		k.ring(ringing, p)
	}()
	defer func() {
		stop()
		<-rung
	}()
	for {
		in, err := reader.Next(ctx)
		if err != nil {
			return fmt.Errorf("reading inputs of partition %d: %w", p.n, err)
		}
		if err := k.apply(ctx, p, reader, in); err != nil {
			return err
		}
	}
}

// load reads the partition's board, or makes it again where it is damaged.
func (k *Keeper) load(ctx context.Context, p *partition) (*fold.Board, state.Fence, error) {
	values, fence, err := k.cfg.Store.Load(ctx, p.n, fold.DecodeRecord)
	var damage *state.DamagedError
	switch {
	case errors.As(err, &damage) && damage.Gap == "":
		return k.rebuild(ctx, p, damage)
	case err != nil:
		return nil, state.Fence{}, fmt.Errorf("loading partition %d: %w", p.n, err)
	}
	return fold.BoardOf(values), fence, nil
}

// say notes why the partition is not ready.
func (p *partition) say(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = why
}

// apply applies one input and those that wait behind it, and commits.
func (k *Keeper) apply(ctx context.Context, p *partition, reader state.InputReader, in state.Input) error {
	entries, err := func() ([]state.Entry, error) {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ready = false // until what is on the board is committed, nothing of it may take effect
		last := p.fence.Position
		for {
			if in.Seq > last {
				p.backlog.begin(&in, k.cfg.Clock.Now())
				k.cfg.Fold.Apply(p.board, in)
				p.backlog.applied(&in, k.cfg.Clock.Now())
				last = in.Seq
			}
			if reader.Buffered() == 0 || p.board.Changes() >= mostUncommitted {
				break
			}
			next, err := reader.Next(ctx)
			if err != nil {
				return nil, fmt.Errorf("reading inputs of partition %d: %w", p.n, err)
			}
			in = next
		}
		moves := changedMoves(p.board)
		p.lists.follow(p.board)
		records, entries, err := p.board.Take()
		if err != nil {
			return nil, err
		}
		fence, err := k.cfg.Store.Commit(ctx, p.n, p.fence, last, records)
		if err != nil {
			return nil, fmt.Errorf("committing partition %d: %w", p.n, err)
		}
		p.fence, p.ready = fence, true
		k.agenda.apply(p.n, moves)
		k.recent.add(entries)
		p.backlog.committed(k.cfg.Clock.Now(), reader.Buffered() == 0)
		return entries, nil
	}()
	if err != nil {
		return err
	}
	k.publish(entries)
	k.signal()
	select {
	case p.wake <- struct{}{}:
	default:
	}
	return nil
}

// ring appends a tick whenever something on the board is due, until the context ends.
func (k *Keeper) ring(ctx context.Context, p *partition) {
	for ctx.Err() == nil {
		p.mu.RLock()
		due, cluster := p.board.NextDue()
		p.mu.RUnlock()
		now := k.cfg.Clock.Now()
		if !due.IsZero() && !due.After(now) {
			if err := k.cfg.Store.Append(ctx, state.Input{At: now, Cluster: cluster}); err != nil && ctx.Err() == nil {
				k.cfg.Logger.Warn("a timer could not be written, trying again", "partition", p.n, "err", err)
			}
			// The tick is in the log now; wait for it to be applied, or for a while where it could
			// not be written.
			select {
			case <-ctx.Done():
			case <-p.wake:
			case <-k.cfg.Clock.After(retryPause):
			}
			continue
		}
		var alarm <-chan time.Time
		if !due.IsZero() {
			alarm = k.cfg.Clock.After(due.Sub(now))
		}
		select {
		case <-ctx.Done():
			return
		case <-p.wake:
		case <-alarm:
		}
	}
}

// Append makes inputs durable; what has no time is stamped now.
func (k *Keeper) Append(ctx context.Context, inputs ...state.Input) error {
	for i := range inputs {
		if inputs[i].At.IsZero() {
			inputs[i].At = k.cfg.Clock.Now()
		}
	}
	now := k.cfg.Clock.Now()
	for i := range inputs {
		k.parts[k.cfg.Store.Partition(inputs[i].Cluster)].backlog.book(&inputs[i], now)
	}
	err := k.cfg.Store.Append(ctx, inputs...)
	if err != nil {
		for i := range inputs {
			k.parts[k.cfg.Store.Partition(inputs[i].Cluster)].backlog.strike(&inputs[i])
		}
	}
	return err
}

// Ready says whether every partition is loaded and the log takes inputs.
func (k *Keeper) Ready(ctx context.Context) error {
	for _, p := range k.parts {
		p.mu.RLock()
		ready, why := p.ready, p.why
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

// Changed has a value when something may be due for the outbox.
func (k *Keeper) Changed() <-chan struct{} { return k.changed }

func (k *Keeper) signal() {
	select {
	case k.changed <- struct{}{}:
	default:
	}
}

// Take gives out effects that are due, at most room of each lane, and returns when the next one is
// due (zero: none waits). In a lane the incidents' severity comes first, then age. An effect that
// was given out comes again when [Keeper.Finished] gives it back, or when it has another turn.
func (k *Keeper) Take(now time.Time, room func(Lane) int) (tasks []Task, next time.Time) {
	return k.agenda.take(now, room)
}

// Finished ends the delivery of a task. Answered says that its outcome is in the log.
func (k *Keeper) Finished(t Task, answered bool) { k.agenda.finish(t, answered) }

// OldestDue returns since when the oldest effect has been due, and how many are. Effects in
// delivery and those that wait for another attempt count, from when they were first wanted. The
// time is zero when none is due.
func (k *Keeper) OldestDue() (since time.Time, due int) {
	return k.agenda.oldestOwed(k.cfg.Clock.Now())
}
