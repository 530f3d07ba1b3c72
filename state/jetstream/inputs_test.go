package jetstream

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"

	"paramedic/state"
	"paramedic/state/statetest"
)

// The connection is lost while the reader's buffer is full in the middle of a message. The client
// library then reads on while the reader still waits to pass the rest of that message.
func TestReaderKeepsOrderAfterReconnect(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	total := 0
	for i := range 30 {
		n := 100
		if i >= 11 && i%2 == 1 {
			n = 5
		}
		inputs := make([]state.Input, n)
		for i := range inputs {
			inputs[i] = state.Input{ID: fmt.Sprint(i), Cluster: "prod"}
		}
		if err := s.Append(t.Context(), inputs...); err != nil {
			t.Fatal(err)
		}
		total += n
	}
	in, err := s.Inputs(t.Context(), s.Partition("prod"), 0)
	if err != nil {
		t.Fatal(err)
	}
	r := in.(*reader)
	defer r.Close()
	statetest.Until(t, "the buffer is full", func() bool { return r.Buffered() == readAhead })
	before := s.consumers(t)
	if err := s.nc.ForceReconnect(); err != nil {
		t.Fatal(err)
	}
	statetest.Until(t, "another consumer has delivered messages", func() bool {
		for name, delivered := range s.consumers(t) {
			if _, old := before[name]; !old && delivered > 0 {
				return true
			}
		}
		return false
	})
	last := state.Input{}
	for range total {
		next, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		follows := next.Seq == last.Seq && next.Part == last.Part+1 || next.Seq > last.Seq && next.Part == 0 && !last.More
		if !follows {
			t.Fatalf("input %d.%d came after %d.%d", next.Seq, next.Part, last.Seq, last.Part)
		}
		last = next
	}
}

// consumers returns how many messages each consumer of the log has delivered.
func (s *Store) consumers(t *testing.T) map[string]uint64 {
	t.Helper()
	out := map[string]uint64{}
	list := s.in.ListConsumers(t.Context())
	for c := range list.Info() {
		out[c.Name] = c.Delivered.Consumer
	}
	if err := list.Err(); err != nil {
		t.Log(err) // not connected yet
	}
	return out
}

// Inputs that wait are bounded by their size, too.
func TestReaderBufferIsBoundedInBytes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newReader(&Store{closed: make(chan struct{})}, 0)
		const total, most = 40, 16 // inputs of 1 MiB
		go func() {
			for range total {
				r.pass(t.Context(), read{size: 1 << 20})
			}
			r.pass(t.Context(), read{size: 64 << 20}) // larger than the buffer
		}()
		for range total {
			synctest.Wait()
			if n := r.Buffered(); n > most {
				t.Fatalf("%d inputs of 1 MiB wait", n)
			}
			if _, err := r.Next(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := r.Next(t.Context()); err != nil {
			t.Errorf("an input that is larger than the buffer: %v", err)
		}
	})
}

// A follow-up copy is ahead of the revision that it loaded, perhaps with other rules. It must not
// store its live set as that of the revision.
func TestFollowerStoresNoLiveSet(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.limits = limits{}
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")}, {Key: "a.2", Value: []byte("y")}, {Key: "a.3", Value: []byte("z")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = s.Commit(t.Context(), 0, fence, 2, []state.Record{{Key: "a.3"}}); err != nil {
		t.Fatal(err)
	}
	_, fence, err = s.Load(t.Context(), 0, statetest.Raw)
	if err != nil {
		t.Fatal(err)
	}
	s.Follow(0, fence, []state.Record{{Key: "a.1"}}) // the active process keeps it
	if err := s.saveLive(context.Background(), 0); err != nil {
		t.Fatal(err)
	}
	if got, _, err := s.Load(t.Context(), 0, statetest.Raw); err != nil || len(got) != 2 {
		t.Errorf("%d records, %v", len(got), err)
	}
}
