package statetest

import (
	"context"
	"errors"
	"testing"
	"time"

	"paramedic/state"
)

func readerWakes(t *testing.T, b Backend) {
	s := open(t, b)
	ctx := within(t)
	r, err := s.Inputs(ctx, s.Partition("prod"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got := make(chan string)
	go func() {
		defer close(got)
		for range 2 {
			in, err := r.Next(ctx)
			if err != nil {
				t.Errorf("next: %v", err)
				return
			}
			got <- in.ID
		}
	}()
	for _, id := range []string{"one", "two"} {
		appendAll(t, s, input("prod", id))
		if read := <-got; read != id {
			t.Fatalf("read %q, want %q", read, id)
		}
	}
	if n := r.Buffered(); n != 0 {
		t.Errorf("%d inputs are buffered, and there are none", n)
	}
	if n := r.Waiting(); n != 0 {
		t.Errorf("%d inputs wait, and there are none", n)
	}
}

// Waiting counts the inputs in the log, whether the reader has fetched them or not. It may estimate
// how many, but not whether there are any.
func readerCountsWhatWaits(t *testing.T, b Backend) {
	s := open(t, b)
	const waiting = 2500
	for range waiting / 500 {
		inputs := make([]state.Input, 500)
		for i := range inputs {
			inputs[i] = input("prod", "one")
		}
		if err := s.Append(within(t), inputs...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Inputs(within(t), s.Partition("prod"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	ctx := within(t)
	for given := 1; given <= waiting; given++ {
		if _, err := r.Next(ctx); err != nil {
			t.Fatal(err)
		}
		if given%500 != 0 {
			continue
		}
		for n := r.Waiting(); (n > 0) != (given < waiting); n = r.Waiting() { // one may be on its way into the buffer
			if ctx.Err() != nil {
				t.Fatalf("after %d inputs %d wait", given, n)
			}
			<-time.After(time.Millisecond)
		}
	}
}

func readerEnds(t *testing.T, b Backend) {
	s := open(t, b)
	r, err := s.Inputs(within(t), 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { _, err := r.Next(ctx); ended <- err }()
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("next after its context ended: %v", err)
	}
	go func() { _, err := r.Next(context.Background()); ended <- err }()
	r.Close()
	r.Close()
	if err := <-ended; err == nil {
		t.Error("next of a closed reader gave an input")
	}
}
