package keeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"paramedic/state"
	"paramedic/state/fold"
)

// progressEvery is the number of inputs between two reports of a rebuild's progress.
const progressEvery = 1000

// A rebuilding makes a partition's records again from its log, because they are damaged.
type rebuilding struct {
	*Keeper
	p        *partition
	damage   *state.DamagedError
	board    *fold.Board
	records  map[string][]byte // the records after the inputs so far, timelines included
	order    []string          // keys in the order of their first write
	last     uint64            // sequence of the last applied input
	applied  uint64            // number of applied messages of the log
	compared bool
	same     bool // after the last committed input the records equalled those of the commit
}

// rebuild makes the partition's records again from its log, and returns what a load would have
// returned.
//
// If the records are not proven to equal those that were committed, the rules may have changed
// since. Then rebuild halts first aid and gives up the notifications about resolved incidents. Both
// are inputs, and are applied before anything takes effect.
func (k *Keeper) rebuild(ctx context.Context, p *partition,
	damage *state.DamagedError) (*fold.Board, state.Fence, error) {
	k.cfg.Logger.ErrorContext(ctx, "the state is damaged, Paramedic rebuilds it from the log", "partition", p.n, "wrong", damage.Wrong,
		"inputs", damage.Inputs)
	r := &rebuilding{Keeper: k, p: p, damage: damage, board: fold.NewBoard(), records: map[string][]byte{}}
	for {
		if err := r.fold(ctx); err != nil {
			return nil, state.Fence{}, err
		}
		appended, err := r.appendCautions(ctx)
		if err != nil {
			return nil, state.Fence{}, err
		}
		if appended == 0 {
			break
		}
		if r.damage, err = k.damageOf(ctx, p); err != nil {
			return nil, state.Fence{}, err
		}
	}
	list := make([]state.Record, 0, len(r.records))
	for _, key := range r.order {
		if value, ok := r.records[key]; ok {
			list = append(list, state.Record{Key: key, Value: value})
			delete(r.records, key) // a key that was deleted and written again is in the order twice
		}
	}
	fence, err := k.cfg.Store.Replace(ctx, p.n, r.damage.Fence, r.last, list)
	if err != nil {
		return nil, state.Fence{}, fmt.Errorf("writing partition %d again: %w", p.n, err)
	}
	k.rebuilt.Add(1)
	k.cfg.Logger.WarnContext(ctx, "Paramedic rebuilt the state from the log", "partition", p.n, "inputs", r.applied,
		"records", len(list), "proven_equal", r.same)
	return r.board, fence, nil
}

// damageOf queries again how far the log of a damaged partition goes.
func (k *Keeper) damageOf(ctx context.Context, p *partition) (*state.DamagedError, error) {
	_, _, err := k.cfg.Store.Load(ctx, p.n, fold.DecodeRecord)
	var damage *state.DamagedError
	switch {
	case err == nil:
		return nil, fmt.Errorf("loading partition %d: it is no longer damaged: %w", p.n, state.ErrFenced)
	case !errors.As(err, &damage) || damage.Gap != "":
		return nil, fmt.Errorf("loading partition %d: %w", p.n, err)
	}
	return damage, nil
}

// fold applies the rest of the log.
func (r *rebuilding) fold(ctx context.Context) error {
	reader, err := r.cfg.Store.Inputs(ctx, r.p.n, r.last)
	if err != nil {
		return fmt.Errorf("reading inputs of partition %d: %w", r.p.n, err)
	}
	defer reader.Close()
	for more := false; more || r.last < r.damage.Last; {
		in, err := r.next(ctx, r.p, reader)
		if err != nil {
			return err
		}
		if in.Seq > r.damage.Fence.Position {
			r.compare()
		}
		if err := r.applyTo(ctx, r.p, r.board, in); err != nil {
			return err
		}
		r.last = in.Seq
		if err := r.keep(); err != nil {
			return err
		}
		if more = in.More; more {
			continue
		}
		if r.applied++; r.applied%progressEvery == 0 {
			r.p.setReason(fmt.Sprintf("%v; Paramedic rebuilds it from the log: %d of %d inputs are applied", r.damage,
				r.applied, r.damage.Inputs))
		}
	}
	r.compare()
	if r.applied != r.damage.Inputs || r.last != r.damage.Last {
		broken := *r.damage
		broken.Gap = fmt.Sprintf("only %[2]d of its %[1]d inputs can be read", r.damage.Inputs, r.applied)
		return &broken
	}
	return nil
}

// keep stores the changes of the last input.
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

// compare checks once whether the records equal those of the newest readable commit.
func (r *rebuilding) compare() {
	if r.compared {
		return
	}
	r.compared = true
	var sum state.Sum
	for key, value := range r.records {
		if !strings.HasPrefix(key, state.TimelinePrefix+".") {
			sum.Add(state.Record{Key: key, Value: value}.Hash())
		}
	}
	r.same = r.damage.Sum != nil && *r.damage.Sum == sum
}

// appendCautions appends the inputs that stop unproven records from repeating effects. It returns
// how many.
func (r *rebuilding) appendCautions(ctx context.Context) (appended int, err error) {
	if r.same {
		return 0, nil
	}
	now := r.cfg.Clock.Now()
	clusters := map[string]bool{}
	var inputs []state.Input
	for in := range r.board.EveryIncident() {
		if !clusters[in.Cluster] && r.board.Halt(in.Cluster) == nil {
			clusters[in.Cluster] = true
			inputs = append(inputs, state.Input{At: now, Cluster: in.Cluster,
				Command: &state.Command{Verb: state.VerbHalt, Actor: state.Actor{ID: "paramedic", Via: "paramedic"},
					Reason: "the state was damaged and rebuilt from the log: check the runs in progress, then resume"}})
		}
	}
	for e := range r.board.EveryEffect() {
		if e.Kind == state.EffectRun {
			continue // it sends no message, and its run would want it again; under the halt it finishes what was begun
		}
		if in := r.board.Incident(e.Incident); in == nil || !in.Open() {
			inputs = append(inputs,
				state.Input{At: now, Cluster: e.Cluster, Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true,
					Error: "the state was rebuilt from the log, and its incident has ended"}})
		}
	}
	for batch := range slices.Chunk(inputs, maxUncommitted) {
		if err := r.cfg.Store.Append(ctx, batch...); err != nil {
			return 0, fmt.Errorf("halting first aid after partition %d was damaged: %w", r.p.n, err)
		}
	}
	return len(inputs), nil
}

// Rebuilt returns how often a damaged partition was rebuilt from its log.
func (k *Keeper) Rebuilt() uint64 { return k.rebuilt.Load() }
