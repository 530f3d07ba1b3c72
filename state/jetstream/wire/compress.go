// Package wire has the stored form of values: compressed, as lists of records, and as sets of
// names. It is part of the format of the store.
package wire

import (
	_ "embed"
	"errors"
	"fmt"
	"sync"

	"github.com/klauspost/compress/s2"
)

// Compressed is the first byte of a compressed value. JSON never begins with it.
const Compressed = 0x01

const (
	// compressFrom is the least number of bytes that is compressed.
	compressFrom = 128
	// maxDecompressed bounds the bytes of a value, so that a damaged one cannot fill the memory. It
	// is far above what a NATS server takes.
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

// Compress returns a value as an S2 block with a dictionary, or the value itself if that is not
// smaller. Inputs and records are JSON with the same names again and again, and mostly become a
// third to a half of their size (BenchmarkCompress).
func Compress(value []byte) []byte { return compress(value, len(value) >= compressFrom) }

// Plain returns a value as it is, unless it looks like a compressed one.
func Plain(value []byte) []byte { return compress(value, false) }

func compress(value []byte, smaller bool) []byte {
	ambiguous := len(value) > 0 && value[0] == Compressed
	if !ambiguous && !smaller {
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
	return append(append(make([]byte, 0, len(block)+1), Compressed), block...)
}

// Decompress returns the value that [Compress] or [Plain] was given.
func Decompress(stored []byte) ([]byte, error) { return DecompressTo(nil, stored) }

// DecompressTo returns the same value, in the buffer if that has room for it. The buffer's content
// is lost. A value that was stored as it is comes back as it is. In new memory a value takes three
// times as long (BenchmarkDecompress).
func DecompressTo(buffer, stored []byte) ([]byte, error) {
	if len(stored) == 0 || stored[0] != Compressed {
		return stored, nil
	}
	n, err := s2.DecodedLen(stored[1:])
	if err == nil && n > maxDecompressed {
		err = errTooLarge
	}
	var value []byte
	if err == nil {
		value, err = dictionary.Decode(buffer, stored[1:])
	}
	if err != nil {
		return nil, fmt.Errorf("decompressing: %w", err)
	}
	return value, nil
}
