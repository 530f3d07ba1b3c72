package state

import (
	"context"
	"fmt"
	"strings"
)

// progressEvery is how many inputs a rebuilding applies before it says again how far it is.
const progressEvery = 1000

// A rebuilding folds a partition's log anew, because the records that were made of it are damaged.
type rebuilding struct {
	*Keeper
	p       *partition
	damage  *DamagedError
	board   *Board
	records map[string][]byte // what the inputs so far left, timelines included
	order   []string          // keys, as they were first written
	same    bool              // after the last input that was committed, the records were those of the commit
}

// rebuild makes the partition's records again from its log. It gives what a load would have given. Where nothing proves that the rules
// made the same of the log as they did before, it halts first aid and gives up what was to be told of incidents that are over, before
// anything takes effect; held is true then until those inputs are applied.
func (k *Keeper) rebuild(ctx context.Context, p *partition, damage *DamagedError) (board *Board, fence Fence, held bool, err error) {
	k.cfg.Logger.Error("the state is damaged, making it again from the log", "partition", p.n, "wrong", damage.Wrong, "inputs", damage.Inputs)
	r := &rebuilding{Keeper: k, p: p, damage: damage, board: NewBoard(), records: map[string][]byte{}}
	last, err := r.fold(ctx)
	if err != nil {
		return nil, Fence{}, false, err
	}
	list := make([]Record, 0, len(r.records))
	for _, key := range r.order {
		if value, ok := r.records[key]; ok {
			list = append(list, Record{Key: key, Value: value})
			delete(r.records, key) // a key that was deleted and written again is in the order twice
		}
	}
	if !r.same {
		if held, err = r.caution(ctx); err != nil {
			return nil, Fence{}, false, err
		}
	}
	if fence, err = k.cfg.Store.Replace(ctx, p.n, damage.Fence, last, list); err != nil {
		return nil, Fence{}, false, fmt.Errorf("writing partition %d again: %w", p.n, err)
	}
	k.rebuilt.Add(1)
	k.cfg.Logger.Warn("the state was made again from the log", "partition", p.n, "inputs", damage.Inputs, "records", len(list), "proven_equal", r.same)
	return r.board, fence, held, nil
}

// fold applies the whole log and returns its last input.
func (r *rebuilding) fold(ctx context.Context) (last uint64, err error) {
	reader, err := r.cfg.Store.Inputs(ctx, r.p.n, 0)
	if err != nil {
		return 0, fmt.Errorf("reading inputs of partition %d: %w", r.p.n, err)
	}
	defer reader.Close()
	applied := uint64(0)
	compared := false
	for last < r.damage.Last {
		in, err := reader.Next(ctx)
		if err != nil {
			return 0, fmt.Errorf("reading inputs of partition %d: %w", r.p.n, err)
		}
		if !compared && in.Seq > r.damage.Fence.Position {
			r.compare()
			compared = true
		}
		r.cfg.Fold.Apply(r.board, in)
		last = in.Seq
		if err := r.keep(); err != nil {
			return 0, err
		}
		if applied++; applied%progressEvery == 0 {
			r.p.say(fmt.Sprintf("%v; making it again from the log: %d of %d inputs are applied", r.damage, applied, r.damage.Inputs))
		}
	}
	if !compared {
		r.compare()
	}
	if applied != r.damage.Inputs || last != r.damage.Last {
		broken := *r.damage
		broken.Gap = fmt.Sprintf("of its %d inputs %d can be read", r.damage.Inputs, applied)
		return 0, &broken
	}
	return last, nil
}

// keep takes what the last input changed.
func (r *rebuilding) keep() error {
	records, _, err := r.board.Take()
	if err != nil {
		return err
	}
	for _, rec := range records {
		_, there := r.records[rec.Key]
		switch {
		case rec.Value == nil:
			delete(r.records, rec.Key)
			continue
		case !there:
			r.order = append(r.order, rec.Key)
		}
		r.records[rec.Key] = rec.Value
	}
	return nil
}

// compare looks whether the records are now those that the newest readable commit left.
func (r *rebuilding) compare() {
	var sum Sum
	for key, value := range r.records {
		if !strings.HasPrefix(key, TimelinePrefix+".") {
			sum.Add(Record{Key: key, Value: value}.Hash())
		}
	}
	r.same = r.damage.Sum != nil && *r.damage.Sum == sum
}

// caution appends what keeps the new records from doing anew what was done: the rules may have changed since.
func (r *rebuilding) caution(ctx context.Context) (bool, error) {
	now := r.cfg.Clock.Now()
	clusters := map[string]bool{}
	var inputs []Input
	for _, in := range r.board.incidents {
		if !clusters[in.Cluster] && r.board.halts[in.Cluster] == nil {
			clusters[in.Cluster] = true
			inputs = append(inputs, Input{At: now, Cluster: in.Cluster, Command: &Command{Verb: VerbHalt, Actor: Actor{ID: "paramedic", Via: "paramedic"},
				Reason: "the state was damaged and made again from the log: look at what was under way, then resume"}})
		}
	}
	for _, e := range r.board.effects {
		if in := r.board.incidents[e.Incident]; in == nil || !in.Open() {
			inputs = append(inputs, Input{At: now, Cluster: e.Cluster, Outcome: &Outcome{Effect: e.ID, Turn: e.Turn, Done: true,
				Error: "the state was made again from the log, and this is over"}})
		}
	}
	for len(inputs) > 0 {
		n := min(len(inputs), mostUncommitted)
		if err := r.cfg.Store.Append(ctx, inputs[:n]...); err != nil {
			return false, fmt.Errorf("halting first aid after partition %d was damaged: %w", r.p.n, err)
		}
		inputs = inputs[n:]
	}
	return len(clusters) > 0, nil
}

// Rebuilt is how often a damaged partition was made again from its log.
func (k *Keeper) Rebuilt() uint64 { return k.rebuilt.Load() }
