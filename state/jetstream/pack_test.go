package jetstream

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

func writeOf(inputs ...encoded) *write { return &write{inputs: inputs} }

func encodedOf(partition, bytes, alerts int) encoded {
	return encoded{partition: partition, data: []byte(strings.Repeat("1", bytes)), alerts: alerts}
}

// shape prints the partition and the number of inputs of each message.
func shape(packs []*packed) string {
	var b strings.Builder
	for _, p := range packs {
		fmt.Fprintf(&b, "%d:%d ", p.partition, len(p.inputs))
	}
	return strings.TrimSpace(b.String())
}

func TestPackBoundsMessages(t *testing.T) {
	for _, c := range []struct {
		name  string
		group []*write
		most  int
		want  string
		whole bool
	}{
		{"two payloads", []*write{writeOf(encodedOf(1, 9, 1)), writeOf(encodedOf(1, 9, 1))}, packBytes, "1:2", true},
		{"a passive replica", []*write{writeOf(encodedOf(1, 9, 1)), writeOf(encodedOf(1, 9, 1))}, 0, "1:1 1:1", true},
		{"two partitions", []*write{writeOf(encodedOf(1, 9, 1)), writeOf(encodedOf(2, 9, 1)), writeOf(encodedOf(1, 9, 1))}, packBytes,
			"1:2 2:1", true},
		{"many alerts", []*write{writeOf(encodedOf(1, 9, 60)), writeOf(encodedOf(1, 9, 60))}, packBytes, "1:1 1:1", true},
		{"many bytes", []*write{writeOf(encodedOf(1, packBytes, 1)), writeOf(encodedOf(1, 9, 1))}, packBytes, "1:1 1:1", true},
		{"a large input", []*write{writeOf(encodedOf(1, 2*packBytes, 1)), writeOf(encodedOf(1, 9, 1))}, packBytes, "1:1 1:1", true},
		{"a payload in parts", []*write{writeOf(encodedOf(1, 9, 1)), writeOf(encodedOf(1, 9, 100), encodedOf(1, 9, 50))}, packBytes,
			"1:1 1:1 1:1", false},
		{"a write to two partitions", []*write{writeOf(encodedOf(1, 9, 1), encodedOf(2, 9, 1))}, packBytes, "1:1 2:1", false},
	} {
		packs, whole := pack(c.group, c.most)
		if got := shape(packs); got != c.want || whole != c.whole {
			t.Errorf("%s: %s (whole %v), want %s (%v)", c.name, got, whole, c.want, c.whole)
		}
	}
}

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
	inputs := make([]state.Input, packAlerts)
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
	for given := 1; given <= messages*packAlerts; given++ {
		in, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if want := (given - 1) % packAlerts; in.Part != want || in.More != (want+1 < packAlerts) {
			t.Fatalf("input %d is part %d, more %v", given, in.Part, in.More)
		}
		for n := r.Waiting(); n != messages*packAlerts-given; n = r.Waiting() { // one may be on its way into the buffer
			if t.Context().Err() != nil {
				t.Fatalf("after %d inputs %d wait", given, n)
			}
			<-time.After(time.Millisecond)
		}
	}
}
