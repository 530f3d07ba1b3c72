// Package ledger keeps the sum of the live records of each partition, and what their places hold.
package ledger

import (
	"hash/maphash"
	"slices"
	"sync"

	"paramedic/state"
	"paramedic/state/jetstream/wire"
)

// A Book has a ledger for each partition, so that a commit can store its new sum. Methods may be
// called concurrently.
type Book struct {
	seed maphash.Seed
	mu   sync.Mutex
	of   []Ledger
}

// NewBook returns a book of empty ledgers.
func NewBook(partitions int) *Book {
	b := &Book{seed: maphash.MakeSeed(), of: make([]Ledger, partitions)}
	for i := range b.of {
		b.of[i].seed = b.seed
	}
	return b
}

// A Ledger is the sum at one revision of the position, with each record's part of it by a hash of
// its key.
type Ledger struct {
	Rev  uint64
	Sum  state.Sum
	Gone int    // deletions that the stored live set may not know
	Dead []Dead // deleted records to remove again

	seed  maphash.Seed
	parts map[uint64]part
	// leftovers are deleted records that may still be at their places, and need a tombstone there.
	// Nil if other processes write to the places, too: then every record counts as placed.
	leftovers map[uint64]bool
}

// New returns an empty ledger with room for some records. Shared means that other processes write
// to the places, too.
func (b *Book) New(rev uint64, records int, shared bool) Ledger {
	l := Ledger{Rev: rev, seed: b.seed, parts: make(map[uint64]part, records)}
	if !shared {
		l.leftovers = map[uint64]bool{}
	}
	return l
}

// Add adds a live record with the hash of its value.
func (l *Ledger) Add(key string, hash uint64) {
	l.Sum.Add(hash)
	l.parts[maphash.String(l.seed, key)] = part{hash, wire.Name(key)}
}

// AddDeleted adds a deleted record that may still be at its place.
func (l *Ledger) AddDeleted(key string) {
	if l.leftovers != nil {
		l.leftovers[maphash.String(l.seed, key)] = true
	}
}

// A part holds a record's share of the sum, and its name in a live set, which has 48 bits.
type part struct{ hash, name uint64 }

// unplaced is set in the name of a record that has never been at its place, as far as this process
// knows. Its deletion needs no tombstone.
const unplaced = 1 << 63

func (p part) placed() bool { return p.name&unplaced == 0 }

// A Dead message holds a record that was deleted.
type Dead struct {
	Subject string
	Seq     uint64
}

// A Change is a record's new part, or none for a deleted record.
type Change struct {
	key  uint64
	part part
	gone bool
	left bool // it was deleted, and may be at its place
}

// Sum returns the partition's sum.
func (b *Book) Sum(partition int) state.Sum {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.of[partition].Sum
}

// Set stores what a load has found.
func (b *Book) Set(partition int, l Ledger) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.of[partition] = l
}

// SumAfter returns the sum after a commit of the records. known is false if the stored sum is of
// another revision.
func (b *Book) SumAfter(partition int, rev uint64,
	records []state.Record) (sum state.Sum, changes []Change, known bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	if l.Rev != rev {
		return state.Sum{}, nil, false
	}
	sum, changes = l.after(records)
	return sum, changes, true
}

// after returns the ledger's sum after a change of the records.
func (l *Ledger) after(records []state.Record) (sum state.Sum, changes []Change) {
	sum = l.Sum
	for _, r := range records {
		if r.Timeline() {
			continue
		}
		c := Change{key: maphash.String(l.seed, r.Key), gone: r.Value == nil}
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

// Commit stores the result of SumAfter, unless another commit came first, and which records were
// written to their places. A live set of this revision is made of both.
func (b *Book) Commit(partition int, was, rev uint64, sum state.Sum, changes []Change, placed []state.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	if l.Rev != was {
		return
	}
	l.Rev = rev
	l.Gone += l.take(sum, changes)
	l.notePlaced(placed)
}

// take changes the ledger, and returns how many records were deleted.
func (l *Ledger) take(sum state.Sum, changes []Change) (gone int) {
	if l.parts == nil {
		l.parts = map[uint64]part{}
	}
	l.Sum = sum
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

// DropNeedlessDeletions leaves out the deletions of records that have never been at their places.
// The revision is that before the commit. Timelines are not left out.
func (b *Book) DropNeedlessDeletions(partition int, rev uint64, records []state.Record) []state.Record {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	if l.Rev != rev || l.leftovers == nil {
		return records
	}
	return slices.DeleteFunc(slices.Clone(records), func(r state.Record) bool {
		if r.Value != nil || r.Timeline() {
			return false
		}
		key := maphash.String(l.seed, r.Key)
		old, live := l.parts[key]
		return !l.leftovers[key] && !(live && old.placed())
	})
}

// notePlaced records that a commit has written records to their places.
func (l *Ledger) notePlaced(records []state.Record) {
	if l.leftovers == nil {
		return
	}
	for _, r := range records {
		key := maphash.String(l.seed, r.Key)
		if r.Value == nil {
			delete(l.leftovers, key)
		} else if p, ok := l.parts[key]; ok {
			p.name &^= unplaced
			l.parts[key] = p
		}
	}
}

// Follow changes the ledger of a revision by records that another process has committed since. The
// live set of the revision must not be stored from then on: the ledger is ahead of it.
func (b *Book) Follow(partition int, rev uint64, records []state.Record) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	if l.Rev == rev {
		l.take(l.after(records))
		l.Gone = 0
	}
}

// Resume moves the ledger of a revision to a newer one if it has the sum of that one.
func (b *Book) Resume(partition int, was, rev uint64, sum state.Sum) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	if l.Rev != was || l.Sum != sum {
		return false
	}
	l.Rev = rev
	l.Gone++ // the stored live set may not know what another process deleted
	return true
}

// Live returns the sorted names of the records at their places with their revision, and the number
// of deletions that the stored live set may not know.
func (b *Book) Live(partition int) (rev uint64, names []uint64, gone int) {
	rev, names, gone = b.unsortedNames(partition)
	slices.Sort(names) // without the lock, for which every commit waits
	return rev, names, gone
}

func (b *Book) unsortedNames(partition int) (rev uint64, names []uint64, gone int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	if l.Gone == 0 {
		return l.Rev, nil, 0
	}
	names = make([]uint64, 0, len(l.parts))
	for _, p := range l.parts {
		// The place of an unplaced record may have an older message of its subject, which is dead.
		if p.placed() {
			names = append(names, p.name)
		}
	}
	return l.Rev, names, l.Gone
}

// Saved subtracts the deletions that the stored live set knows now.
func (b *Book) Saved(partition, gone int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	l.Gone = max(0, l.Gone-gone)
}

// TakeDead takes the deleted records to remove again.
func (b *Book) TakeDead(partition int) []Dead {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	found := l.Dead
	l.Dead = nil
	return found
}

// AddDead adds deleted records to remove later.
func (b *Book) AddDead(partition int, found []Dead) {
	b.mu.Lock()
	defer b.mu.Unlock()
	l := &b.of[partition]
	l.Dead = append(l.Dead, found...)
}
