package queue

import (
	"fmt"
	"strings"
	"testing"
)

func writeOf(inputs ...Input) *Write { return NewWrite(inputs) }

func inputOf(partition, bytes, alerts int) Input {
	return Input{Partition: partition, Data: []byte(strings.Repeat("1", bytes)), Alerts: alerts}
}

// shape prints the partition and the number of inputs of each message.
func shape(packs []*Pack) string {
	var b strings.Builder
	for _, p := range packs {
		fmt.Fprintf(&b, "%d:%d ", p.Partition, len(p.Inputs))
	}
	return strings.TrimSpace(b.String())
}

func TestPackBoundsMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		group []*Write
		most  int
		want  string
		whole bool
	}{
		{"two payloads", []*Write{writeOf(inputOf(1, 9, 1)), writeOf(inputOf(1, 9, 1))}, PackBytes, "1:2", true},
		{"a passive replica", []*Write{writeOf(inputOf(1, 9, 1)), writeOf(inputOf(1, 9, 1))}, 0, "1:1 1:1", true},
		{"two partitions", []*Write{writeOf(inputOf(1, 9, 1)), writeOf(inputOf(2, 9, 1)), writeOf(inputOf(1, 9, 1))}, PackBytes,
			"1:2 2:1", true},
		{"many alerts", []*Write{writeOf(inputOf(1, 9, 60)), writeOf(inputOf(1, 9, 60))}, PackBytes, "1:1 1:1", true},
		{"many bytes", []*Write{writeOf(inputOf(1, PackBytes, 1)), writeOf(inputOf(1, 9, 1))}, PackBytes, "1:1 1:1", true},
		{"a large input", []*Write{writeOf(inputOf(1, 2*PackBytes, 1)), writeOf(inputOf(1, 9, 1))}, PackBytes, "1:1 1:1", true},
		{"a payload in parts", []*Write{writeOf(inputOf(1, 9, 1)), writeOf(inputOf(1, 9, 100), inputOf(1, 9, 50))}, PackBytes,
			"1:1 1:1 1:1", false},
		{"a write to two partitions", []*Write{writeOf(inputOf(1, 9, 1), inputOf(2, 9, 1))}, PackBytes, "1:1 2:1", false},
	} {
		packs, whole := PackGroup(c.group, c.most)
		if got := shape(packs); got != c.want || whole != c.whole {
			t.Errorf("%s: %s (whole %v), want %s (%v)", c.name, got, whole, c.want, c.whole)
		}
	}
}
