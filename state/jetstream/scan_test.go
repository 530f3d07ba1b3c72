package jetstream

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/statetest"
)

// A syncBuffer is a buffer that several goroutines write to.
type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// storeOf opens a store with a number of records in partition 0. Its warnings go to the buffer.
func storeOf(t *testing.T, records int) (*Store, *syncBuffer) {
	t.Helper()
	warned := &syncBuffer{}
	s, err := Open(t.Context(),
		Config{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(warned, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { closeIt(t, s) })
	s.limits = limits{}
	var fence state.Fence
	for n := 0; n < records; {
		batch := make([]state.Record, 0, MaxRecords)
		for ; n < records && len(batch) < MaxRecords; n++ {
			batch = append(batch, state.Record{Key: fmt.Sprintf("a.%d", n), Value: fmt.Append(nil, n)})
		}
		if fence, err = s.Commit(t.Context(), 0, fence, uint64(n), batch); err != nil {
			t.Fatal(err)
		}
	}
	return s, warned
}

// sentToConsumers returns how many messages the server has sent to the consumers of the state
// stream, and the number of consumers.
func sentToConsumers(t *testing.T, s *Store) (sent uint64, consumers int) {
	list := s.st.ListConsumers(t.Context())
	for info := range list.Info() {
		sent += info.Delivered.Consumer
		consumers++
	}
	if err := list.Err(); err != nil {
		t.Error(err)
	}
	return sent, consumers
}

// A reader that is a full window behind gets every record once, in the first pass.
func TestSlowReaderLosesNothing(t *testing.T) {
	const records = 5 * readAhead
	s, warned := storeOf(t, records)
	last, err := s.lastOf(t.Context(), []string{recordSubject(0, ">")})
	if err != nil {
		t.Fatal(err)
	}
	came := map[string]int{}
	highest := uint64(0)
	window := func() { // waits until the server has sent all that it may
		for before := uint64(0); ; {
			sent, consumers := sentToConsumers(t, s)
			if consumers != 1 {
				t.Errorf("%d consumers read", consumers)
				return
			}
			if sent == before && sent >= uint64(len(came)) {
				return
			}
			before = sent
			<-time.After(50 * time.Millisecond)
		}
	}
	left, err := s.scan(t.Context(), s.records([]string{recordSubject(0, ">")}...), 1, last, func(m natsjs.Msg, seq uint64) {
		came[m.Subject()]++
		if seq <= highest {
			t.Errorf("sequence %d came after %d", seq, highest)
		}
		highest = seq
		if len(came)%(readAhead/4) == 2 { // also while a second pull is in progress
			window()
		}
	})
	if err != nil || left != 0 || len(came) != records {
		t.Errorf("%d of %d records came, %d are left, %v", len(came), records, left, err)
	}
	for subject, n := range came {
		if n != 1 {
			t.Errorf("%s came %d times", subject, n)
		}
	}
	if warned.String() != "" {
		t.Errorf("the read warned:\n%s", warned)
	}
}

// A read that loses its consumer continues after the last record that arrived.
func TestInterruptedReadContinues(t *testing.T) {
	const records = 3 * readAhead
	s, _ := storeOf(t, records)
	var seen []uint64
	filter := []string{recordSubject(0, ">")}
	last, err := s.lastOf(t.Context(), filter)
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.scan(t.Context(), s.records(filter...), 1, last, func(_ natsjs.Msg, seq uint64) {
		if seen = append(seen, seq); len(seen) == readAhead/2 {
			for name := range s.st.ConsumerNames(t.Context()).Name() {
				if err := s.st.DeleteConsumer(t.Context(), name); err != nil {
					t.Error(err)
				}
			}
		}
	})
	if err != nil || len(seen) != records {
		t.Fatalf("%d of %d records came: %v", len(seen), records, err)
	}
	for i := range seen[1:] {
		if seen[i+1] <= seen[i] {
			t.Fatalf("sequence %d came after %d", seen[i+1], seen[i])
		}
	}
}

// A load during another reader's commit reads the new records, and none twice.
func TestOvertakenLoadContinues(t *testing.T) {
	const records = 2 * readAhead
	s, _ := storeOf(t, records)
	_, rev, err := s.position(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	decoded := map[string]int{}
	overtake := sync.OnceFunc(func() {
		if _, err := s.Commit(context.Background(), 0, state.Fence{Position: records, Rev: rev}, records+1,
			[]state.Record{{Key: "a.1", Value: []byte("new")}, {Key: "a.2"}, {Key: "b.1", Value: []byte("new")}}); err != nil {
			t.Error(err)
		}
	})
	values, fence, err := s.Load(t.Context(), 0, func(r state.Record) (any, error) {
		overtake()
		mu.Lock()
		defer mu.Unlock()
		decoded[r.Key]++
		return statetest.Raw(r)
	})
	if err != nil || fence.Position != records+1 || len(values) != records {
		t.Fatalf("loaded %d records at %d: %v", len(values), fence.Position, err)
	}
	for _, v := range values {
		if r := v.(state.Record); r.Key == "a.2" || r.Key == "a.1" && string(r.Value) != "new" {
			t.Errorf("%s is %q after the commit", r.Key, r.Value)
		}
	}
	for key, n := range decoded {
		if n > 1 && key != "a.1" {
			t.Errorf("%s was read %d times", key, n)
		}
	}
}
