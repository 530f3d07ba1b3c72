// Package link describes links: messages in which the records of large commits wait.
package link

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A Link is a message with the records of one commit, or with a part of them. They wait there until
// later commits write them to their places, the oldest link first. The position names the links, so
// that it makes a commit of any size durable with few messages instead of a batch. Only an embedded
// store has links: an older replica would not read them.
type Link struct {
	Seq     uint64
	Records int
	Bytes   int // of the message

	Since    time.Time // when it was written
	keys     []uint64  // hashes of the records' keys, in their order
	prefixes []uint64  // sorted hashes of the first tokens of the keys
}

var seed = maphash.MakeSeed()

func hash(key string) uint64 { return maphash.String(seed, key) }

// Name notes the keys of the link's records, and when it was written.
func (l *Link) Name(records []state.Record, at time.Time) {
	l.Since, l.keys, l.prefixes = at, make([]uint64, len(records)), nil
	for i, r := range records {
		l.keys[i] = hash(r.Key)
		for prefix := parent(r.Key); prefix != ""; prefix = parent(prefix) {
			l.prefixes = append(l.prefixes, hash(prefix))
		}
	}
	slices.Sort(l.prefixes)
	l.prefixes = slices.Clone(slices.Compact(l.prefixes))
}

// parent returns all tokens of a key but the last.
func parent(key string) string { return key[:max(0, strings.LastIndexByte(key, '.'))] }

// Has reports whether a key of the link's records is the prefix, or starts with its tokens.
func (l *Link) Has(prefix string) bool {
	h := hash(prefix)
	_, found := slices.BinarySearch(l.prefixes, h)
	return found || slices.Contains(l.keys, h)
}

// A List has links, the oldest first.
type List []Link

// Stale reports for each record of the first n links whether a later link or one of the newer
// records has its key.
func (l List) Stale(n int, newer []state.Record) [][]bool {
	type place struct{ link, record int }
	newest, stale := map[uint64]place{}, make([][]bool, n)
	replace := func(key uint64) {
		if p, ok := newest[key]; ok {
			stale[p.link][p.record] = true
		}
	}
	for i := range n {
		stale[i] = make([]bool, len(l[i].keys))
		for j, key := range l[i].keys {
			replace(key)
			newest[key] = place{i, j}
		}
	}
	for _, later := range l[n:] {
		for _, key := range later.keys {
			replace(key)
		}
	}
	for _, r := range newer {
		replace(hash(r.Key))
	}
	return stale
}

// Size returns the bytes and the number of records of all links.
func (l List) Size() (bytes, records int) {
	for _, one := range l {
		bytes, records = bytes+one.Bytes, records+one.Records
	}
	return bytes, records
}

// MarshalJSON writes about eleven bytes a link, because each position has the list.
func (l List) MarshalJSON() ([]byte, error) {
	var packed []byte
	last := uint64(0)
	for _, one := range l {
		packed = binary.AppendUvarint(packed, one.Seq-last)
		packed = binary.AppendUvarint(packed, uint64(one.Records)) //nolint:gosec // a number of records
		packed = binary.AppendUvarint(packed, uint64(one.Bytes))   //nolint:gosec // a number of bytes
		last = one.Seq
	}
	return json.Marshal(packed)
}

// UnmarshalJSON reads what MarshalJSON writes.
func (l *List) UnmarshalJSON(data []byte) error {
	var packed []byte
	if err := json.Unmarshal(data, &packed); err != nil {
		return fmt.Errorf("the list of links: %w", err)
	}
	*l = nil
	last := uint64(0)
	for len(packed) > 0 {
		var numbers [3]uint64
		for i := range numbers {
			number, size := binary.Uvarint(packed)
			if size <= 0 {
				return fmt.Errorf("the list of links ends after %d", len(*l))
			}
			numbers[i], packed = number, packed[size:]
		}
		last += numbers[0]
		*l = append(*l, Link{Seq: last, Records: int(numbers[1]), Bytes: int(numbers[2])}) //nolint:gosec // of MarshalJSON
	}
	return nil
}
