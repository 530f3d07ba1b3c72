package state

import (
	"errors"
	"fmt"
	"hash/fnv"
)

// ErrDamaged means that records of a partition were lost or changed, for instance by a failing
// disk. A [DamagedError] has the details.
var ErrDamaged = errors.New("the state was damaged")

// A Sum holds the number of a partition's records and the sum of their hashes. It does not depend
// on their order.
type Sum struct {
	Records uint64 `json:"records"`
	Hash    uint64 `json:"hash"`
}

// Add adds a record.
func (s *Sum) Add(hash uint64) { s.Records, s.Hash = s.Records+1, s.Hash+hash }

// Remove removes a record.
func (s *Sum) Remove(hash uint64) { s.Records, s.Hash = s.Records-1, s.Hash-hash }

// Hash returns the record's part of a [Sum]. It is part of the stored form.
func (r Record) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(r.Key))
	h.Write([]byte{0})
	h.Write(r.Value)
	return h.Sum64()
}

// A DamagedError describes the damage of a partition's records, and whether the log that they were
// made from is complete. It matches ErrDamaged.
type DamagedError struct {
	Partition int
	Wrong     string // the records that are missing or cannot be read
	Fence     Fence  // of the newest commit that can be read
	Sum       *Sum   // of the records after that commit; nil: not known
	Inputs    uint64 // number of the partition's inputs in the log
	Last      uint64 // sequence of the last of them
	Gap       string // the inputs that the log lacks; empty: the log is complete
}

func (e *DamagedError) Error() string {
	text := fmt.Sprintf("%s: partition %d: %s", ErrDamaged, e.Partition, e.Wrong)
	if e.Gap == "" {
		return text
	}
	return fmt.Sprintf("%s; it cannot be made again from the log: %s; restore the state (both streams) from a "+
		"backup, or move it away and start with an empty one",
		text, e.Gap)
}

// Is reports whether target is ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }
