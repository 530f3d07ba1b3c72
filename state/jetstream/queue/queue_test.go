package queue

import (
	"errors"
	"fmt"
	"testing"

	"paramedic/state"
)

// Waiting appends are joined up to the size of a batch, without those whose caller has given up.
func TestQueueGroups(t *testing.T) {
	q := New(1000)
	put := func(inputs, bytes int) *Write {
		w := &Write{Inputs: make([]Input, inputs), bytes: bytes}
		if err := q.Put(w); err != nil {
			t.Fatal(err)
		}
		return w
	}
	sizes := func() (n []int) {
		for {
			group := q.Take()
			if len(group) == 0 {
				return n
			}
			inputs := 0
			for _, w := range group {
				inputs += len(w.Inputs)
			}
			n = append(n, inputs)
		}
	}
	put(1, 1)
	put(999, 1)
	put(1, 1)
	if got := fmt.Sprint(sizes()); got != "[1000 1]" {
		t.Errorf("by inputs: %s", got)
	}
	put(1, MaxJoin)
	put(1, 1)
	put(1, 1)
	if got := fmt.Sprint(sizes()); got != "[1 2]" {
		t.Errorf("by bytes: %s", got)
	}
	gone := put(5, 1)
	put(1, 1)
	if !gone.GiveUp() {
		t.Error("a write that waits cannot be given up")
	}
	if got := fmt.Sprint(sizes()); got != "[1]" {
		t.Errorf("with one that gave up: %s", got)
	}
	gone = put(1, 1)
	put(1, MaxJoin+1)
	gone.GiveUp()
	if got := fmt.Sprint(sizes()); got != "[1]" {
		t.Errorf("a large one behind one that gave up: %s", got)
	}
	if err := q.Put(&Write{bytes: maxQueue + 1}); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("a full queue: %v", err)
	}
	q.Close()
	if err := q.Put(&Write{}); !errors.Is(err, state.ErrUnavailable) {
		t.Errorf("a closed queue: %v", err)
	}
}
