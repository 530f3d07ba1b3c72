package jetstream

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Inputs and records are JSON with the same names again and again. An embedded store writes them as
// S2 blocks with a dictionary, mostly at a third to a half of their size (BenchmarkCompress). So
// the disk and the server's buffers have less to do. A store on an external server writes them as
// they are: while replicas are upgraded, an older one may have to read them.
//
// A compressed value begins with its kind. JSON never begins with that byte.
const compressed = 0x01

const (
	// compressFrom is the least number of bytes that is compressed.
	compressFrom = 128
	// maxDecompressed bounds the bytes of a value, so that a damaged one cannot fill the memory. It
	// is far above MaxValue and packBytes.
	maxDecompressed = 64 << 20
)

// samples are records and inputs of a simulated fleet. They are part of the format of the store:
// another dictionary needs another kind.
//
//go:embed samples.txt
var samples []byte

var dictionary = s2.MakeDictManual(samples, 0)

var errTooLarge = errors.New("it is too large")

// scratch holds buffers in which values are compressed.
var scratch = sync.Pool{New: func() any { return new([]byte) }}

// compress returns the form in which the store writes a value, or the value itself.
func (s *Store) compress(value []byte) []byte {
	ambiguous := len(value) > 0 && value[0] == compressed
	if !ambiguous && (s.server == nil || len(value) < compressFrom) {
		return value
	}
	buffer := scratch.Get().(*[]byte)
	defer scratch.Put(buffer)
	if need := s2.MaxEncodedLen(len(value)); cap(*buffer) < need {
		*buffer = make([]byte, need)
	}
	block := dictionary.Encode((*buffer)[:cap(*buffer)], value)
	if !ambiguous && len(block) >= len(value) {
		return value
	}
	return append(append(make([]byte, 0, len(block)+1), compressed), block...)
}

// decompress returns the value that compress was given.
func decompress(stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != compressed {
		return stored, nil
	}
	n, err := s2.DecodedLen(stored[1:])
	if err == nil && n > maxDecompressed {
		err = errTooLarge
	}
	var value []byte
	if err == nil {
		value, err = dictionary.Decode(nil, stored[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return value, nil
}
