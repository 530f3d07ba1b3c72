package wire

import (
	"fmt"
	"slices"
	"testing"
)

// Names come back in chunks of any number.
func TestNamesSurviveEncoding(t *testing.T) {
	const most = 512 << 10
	for _, n := range []int{0, 1, 250_000} {
		names := make([]uint64, n)
		for i := range names {
			names[i] = Name(fmt.Sprint(i))
		}
		slices.Sort(names)
		var got []uint64
		chunks := EncodeNames(names, most)
		for _, c := range chunks {
			var err error
			if got, err = DecodeNames(got, c); err != nil || len(c) > most {
				t.Fatalf("%d names: a chunk of %d bytes, %v", n, len(c), err)
			}
		}
		if !slices.Equal(got, names) {
			t.Errorf("%d names came back as %d in %d chunks", n, len(got), len(chunks))
		}
	}
}
