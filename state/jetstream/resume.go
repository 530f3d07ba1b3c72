package jetstream

import (
	"context"
	"fmt"

	"paramedic/state"
)

// Committed returns the position of the partition's newest commit.
func (s *Store) Committed(ctx context.Context, partition int) (uint64, error) {
	if err := checkPartition(partition); err != nil {
		return 0, err
	}
	pos, _, err := s.boundedPosition(ctx, partition)
	return pos.Position, err
}

// Follow keeps the sum of the records of a caller that another process is ahead of, for
// [Store.Resume].
func (s *Store) Follow(partition int, fence state.Fence, records []state.Record) {
	s.sums.Follow(partition, fence.Rev, records)
}

// Resume compares the sum of the caller's records with that of the newest commit. It reads the
// position only, however many records there are.
func (s *Store) Resume(ctx context.Context, partition int, fence state.Fence) (state.Fence, error) {
	if err := checkPartition(partition); err != nil {
		return state.Fence{}, err
	}
	pos, rev, err := s.boundedPosition(ctx, partition)
	if err != nil {
		return state.Fence{}, fmt.Errorf("resuming partition %d: %w", partition, err)
	}
	whole := !pos.Partial && pos.Draft == nil && len(pos.Links) == 0 && pos.Sum != nil
	if !whole || pos.Position != fence.Position || !s.sums.Resume(partition, fence.Rev, rev, *pos.Sum) {
		return state.Fence{}, fmt.Errorf("resuming partition %d: %w", partition, state.ErrFenced)
	}
	s.keepWaiting(partition, rev, pos)
	return state.Fence{Position: pos.Position, Rev: rev}, nil
}
