package jetstream

import (
	"hash/maphash"
	"slices"
	"sync"

	"paramedic/state"
	"paramedic/state/jetstream/wire"
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
	parts map[uint64]part
	// leftovers are deleted records that may still be at their places, and need a tombstone there.
	// Nil on an external server: there every record counts as placed.
	leftovers map[uint64]bool
	gone      int    // deletions that the stored live set may not know
	dead      []dead // deleted records to remove again
}

// newLedger returns the ledger as this store keeps it. On an external server other processes write
// to the places, too.
func (s *Store) newLedger(l ledger) ledger {
	if s.server != nil {
		l.leftovers = map[uint64]bool{}
	}
	return l
}

// A part holds a record's share of the sum, and its name in a live set, which has 48 bits.
type part struct{ hash, name uint64 }

// unplaced is set in the name of a record that has never been at its place, as far as this process
// knows. Its deletion needs no tombstone.
const unplaced = 1 << 63

func (p part) placed() bool { return p.name&unplaced == 0 }

// A dead message holds a record that was deleted.
type dead struct {
	subject string
	seq     uint64
}

// A change is a record's new part, or none for a deleted record.
type change struct {
	key  uint64
	part part
	gone bool
	left bool // it was deleted, and may be at its place
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
	sum, changes = l.after(partition, s.seed, records)
	return sum, changes, true
}

// after returns the ledger's sum after a change of the records.
func (l *ledger) after(partition int, seed maphash.Seed, records []state.Record) (sum state.Sum, changes []change) {
	sum = l.sum
	for _, r := range records {
		if isTimeline(recordSubject(partition, r.Key)) {
			continue
		}
		c := change{key: maphash.String(seed, r.Key), gone: r.Value == nil}
		old, ok := l.parts[c.key]
		if ok {
			sum.Remove(old.hash)
		}
		placed := l.leftovers == nil || l.leftovers[c.key] || ok && old.placed()
		if !c.gone {
			c.part = part{r.Hash(), wire.Name(r.Key)}
			sum.Add(c.part.hash)
			if !placed {
				c.part.name |= unplaced
			}
		}
		c.left = c.gone && placed
		changes = append(changes, c)
	}
	return sum, changes
}

// commit stores the result of sumAfter, unless another commit came first, and which records were
// written to their places. A live set of this revision is made of both.
func (s *sums) commit(partition int, was, rev uint64, sum state.Sum, changes []change, placed []state.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.rev != was {
		return
	}
	l.rev = rev
	l.gone += l.take(sum, changes)
	l.notePlaced(s.seed, placed)
}

// take changes the ledger, and returns how many records were deleted.
func (l *ledger) take(sum state.Sum, changes []change) (gone int) {
	if l.parts == nil {
		l.parts = map[uint64]part{}
	}
	l.sum = sum
	for _, c := range changes {
		if c.gone {
			gone++
			delete(l.parts, c.key)
		} else {
			l.parts[c.key] = c.part
		}
		if l.leftovers == nil {
			continue
		}
		if delete(l.leftovers, c.key); c.left {
			l.leftovers[c.key] = true
		}
	}
	return gone
}

// dropNeedlessDeletions leaves out the deletions of records that have never been at their places.
// The revision is that before the commit. Timelines are not left out.
func (s *sums) dropNeedlessDeletions(partition int, rev uint64, records []state.Record) []state.Record {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.rev != rev || l.leftovers == nil {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), func(r state.Record) bool {
		if r.Value != nil || isTimeline(recordSubject(partition, r.Key)) {
			return false
		}
		key := maphash.String(s.seed, r.Key)
		old, live := l.parts[key]
		return !l.leftovers[key] && !(live && old.placed())
	})
}

// notePlaced records that a commit has written records to their places.
func (l *ledger) notePlaced(seed maphash.Seed, records []state.Record) {
	if l.leftovers == nil {
		return
	}
	for _, r := range records {
		key := maphash.String(seed, r.Key)
		if r.Value == nil {
			delete(l.leftovers, key)
		} else if p, ok := l.parts[key]; ok {
			p.name &^= unplaced
			l.parts[key] = p
		}
	}
}

// follow changes the ledger of a revision by records that another process has committed since. The
// live set of the revision must not be stored from then on: the ledger is ahead of it.
func (s *sums) follow(partition int, rev uint64, records []state.Record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.rev == rev {
		l.take(l.after(partition, s.seed, records))
		l.gone = 0
	}
}

// resume moves the ledger of a revision to a newer one if it has the sum of that one.
func (s *sums) resume(partition int, was, rev uint64, sum state.Sum) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.rev != was || l.sum != sum {
		return false
	}
	l.rev = rev
	l.gone++ // the stored live set may not know what another process deleted
	return true
}

// live returns the sorted names of the records at their places with their revision, and the number
// of deletions that the stored live set may not know.
func (s *sums) live(partition int) (rev uint64, names []uint64, gone int) {
	rev, names, gone = s.unsortedNames(partition)
	slices.Sort(names) // without the lock, for which every commit waits
	return rev, names, gone
}

func (s *sums) unsortedNames(partition int) (rev uint64, names []uint64, gone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	if l.gone == 0 {
		return l.rev, nil, 0
	}
	names = make([]uint64, 0, len(l.parts))
	for _, p := range l.parts {
		// The place of an unplaced record may have an older message of its subject, which is dead.
		if p.placed() {
			names = append(names, p.name)
		}
	}
	return l.rev, names, l.gone
}

// saved subtracts the deletions that the stored live set knows now.
func (s *sums) saved(partition, gone int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	l.gone = max(0, l.gone-gone)
}

// takeDead takes the deleted records to remove again.
func (s *sums) takeDead(partition int) []dead {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	found := l.dead
	l.dead = nil
	return found
}

// addDead adds deleted records to remove later.
func (s *sums) addDead(partition int, found []dead) {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := &s.of[partition]
	l.dead = append(l.dead, found...)
}
