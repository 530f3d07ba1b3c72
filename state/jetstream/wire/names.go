package wire

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
)

// Name returns the name of a key in a live set: 48 bits of its hash. If a deleted record has the
// name of a live one, the sum of the records detects it.
func Name(key string) uint64 {
	h := sha256.Sum256([]byte(key))
	return binary.BigEndian.Uint64(h[:8]) >> 16
}

// EncodeNames returns sorted names in chunks of at most so many bytes. Each name is a varint: its
// distance to the one before, or in the beginning of a chunk the name itself.
func EncodeNames(names []uint64, most int) [][]byte {
	chunks := [][]byte{{}}
	before := uint64(0)
	for _, n := range names {
		last := len(chunks) - 1
		if len(chunks[last]) >= most-binary.MaxVarintLen64 {
			chunks, before, last = append(chunks, nil), 0, last+1
		}
		chunks[last] = binary.AppendUvarint(chunks[last], n-before)
		before = n
	}
	return chunks
}

// DecodeNames appends the names of a chunk.
func DecodeNames(names []uint64, chunk []byte) ([]uint64, error) {
	for before := uint64(0); len(chunk) > 0; {
		d, n := binary.Uvarint(chunk)
		if n <= 0 {
			return nil, errors.New("it does not end in a whole number")
		}
		before, chunk = before+d, chunk[n:]
		names = append(names, before)
	}
	return names, nil
}
