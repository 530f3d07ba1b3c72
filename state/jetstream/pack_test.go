package jetstream

import (
	"errors"
	"testing"
	"time"

	"paramedic/state"
)

func TestUnpackSparesTheOthers(t *testing.T) {
	got := decodeInputs([]byte(`[{"id":"a","cluster":"prod"},{"id":7},{"id":"c","cluster":"prod"}]`), 42, "s")
	if len(got) != 3 || got[0].err != nil || got[2].err != nil || got[0].input.ID != "a" || got[2].input.ID != "c" {
		t.Fatalf("unpacked %+v", got)
	}
	var broken *state.UnreadableError
	if !errors.As(got[1].err, &broken) || broken.Seq != 42 || broken.Part != 1 || !broken.More {
		t.Errorf("the middle one: %v", got[1].err)
	}
	for i, want := range []bool{true, true, false} {
		if in := got[i].input; in.Seq != 42 || in.Part != i || in.More != want {
			t.Errorf("input %d is at %d.%d, more %v", i, in.Seq, in.Part, in.More)
		}
	}
	for _, damaged := range []string{`[{"id":"a"}`, `[]`, `{`, ``} {
		got := decodeInputs([]byte(damaged), 42, "s")
		if len(got) != 1 || !errors.As(got[0].err, &broken) || broken.More {
			t.Errorf("%q: %+v", damaged, got)
		}
	}
}

// The log counts messages, and a reader counts inputs.
func TestReaderCountsPackedInputs(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	const messages = 30
	inputs := make([]state.Input, state.MaxBatch)
	for i := range inputs {
		inputs[i] = state.Input{ID: "x", Cluster: "prod"}
	}
	for range messages {
		if err := s.Append(t.Context(), inputs...); err != nil {
			t.Fatal(err)
		}
	}
	r, err := s.Inputs(t.Context(), s.Partition("prod"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	for given := 1; given <= messages*state.MaxBatch; given++ {
		in, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := (given - 1) % state.MaxBatch; in.Part != want || in.More != (want+1 < state.MaxBatch) {
			t.Fatalf("input %d is part %d, more %v", given, in.Part, in.More)
		}
		for n := r.Waiting(); n != messages*state.MaxBatch-given; n = r.Waiting() { // one may be on its way into the buffer
			if t.Context().Err() != nil {
				t.Fatalf("after %d inputs %d wait", given, n)
			}
			<-time.After(time.Millisecond)
		}
	}
}
