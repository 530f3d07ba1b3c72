package jetstream

import (
	"hash/maphash"
	"sync"

	"paramedic/state"
)

// sums holds the sum of the live records of each partition, so that a commit can store its new sum.
type sums struct {
	seed maphash.Seed
	mu   sync.Mutex
	of   [partitions]ledger
}

// A ledger is the sum at one revision of the position, with each record's part of it by a hash of
// its key.
type ledger struct {
	rev   uint64
	sum   state.Sum
	parts map[uint64]uint64
}

// A change is a record's new part, or none for a deleted record.
type change struct {
	key, part uint64
	gone      bool
}

// set stores what a load has found.
func (s *sums) set(partition int, l ledger) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[partition] = l
}

// sumAfter returns the sum after a commit of the records. known is false if the stored sum is of
// another revision.
func (s *sums) sumAfter(partition int, rev uint64,
	records []state.Record) (sum state.Sum, changes []change, known bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.rev != rev {
		return state.Sum{}, nil, false
	}
	sum = l.sum
	for _, r := range records {
		if isTimeline(recordSubject(partition, r.Key)) {
			continue
		}
		c := change{key: maphash.String(s.seed, r.Key), gone: r.Value == nil}
		if old, ok := l.parts[c.key]; ok {
			sum.Remove(old)
		}
		if !c.gone {
			c.part = r.Hash()
			sum.Add(c.part)
		}
		changes = append(changes, c)
	}
	return sum, changes, true
}

// commit stores the result of sumAfter, unless another commit came first.
func (s *sums) commit(partition int, was, rev uint64, sum state.Sum, changes []change) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.rev != was {
		return
	}
	if l.parts == nil {
		l.parts = map[uint64]uint64{}
	}
	l.rev, l.sum = rev, sum
	for _, c := range changes {
		if c.gone {
			delete(l.parts, c.key)
		} else {
			l.parts[c.key] = c.part
		}
	}
}
