package state

import (
	"errors"
	"fmt"
	"hash/fnv"
)

// ErrDamaged means that records of a partition were lost or changed, as a failing disk does it. A [DamagedError] has the particulars.
var ErrDamaged = errors.New("the state was damaged")

// A Sum is how many records a partition has, and what their hashes add up to. It does not depend on their order.
type Sum struct {
	Records uint64 `json:"records"`
	Hash    uint64 `json:"hash"`
}

// Add counts a record.
func (s *Sum) Add(hash uint64) { s.Records, s.Hash = s.Records+1, s.Hash+hash }

// Remove takes a record off again.
func (s *Sum) Remove(hash uint64) { s.Records, s.Hash = s.Records-1, s.Hash-hash }

// Hash is the record's part of a [Sum]. It is part of the stored form.
func (r Record) Hash() uint64 {
	h := fnv.New64a()
	h.Write([]byte(r.Key))
	h.Write([]byte{0})
	h.Write(r.Value)
	return h.Sum64()
}

// A DamagedError says what is wrong with a partition's records, and whether the log that they were made of is whole. It is ErrDamaged.
type DamagedError struct {
	Partition int
	Wrong     string // what is missing or cannot be read
	Fence     Fence  // of the newest commit that can be read
	Sum       *Sum   // of what that commit left; nil: not known
	Inputs    uint64 // how many inputs the log has for the partition
	Last      uint64 // the last of them
	Gap       string // what the log lacks; empty: it has every input there ever was
}

func (e *DamagedError) Error() string {
	text := fmt.Sprintf("%s: partition %d: %s", ErrDamaged, e.Partition, e.Wrong)
	if e.Gap == "" {
		return text
	}
	return fmt.Sprintf("%s; it cannot be made again from the log: %s; restore the state (both streams) from a backup, or move it away and start with an empty one",
		text, e.Gap)
}

// Is says that it is ErrDamaged.
func (e *DamagedError) Is(target error) bool { return target == ErrDamaged }
