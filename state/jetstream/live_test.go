package jetstream

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/connect"
	"paramedic/state/statetest"
)

// copyOf returns a copy of a store's files as a killed process leaves them, without the server's
// index of the state stream, which is then too old.
func copyOf(t *testing.T, dir string) string {
	t.Helper()
	to := filepath.Join(t.TempDir(), "copy")
	if err := os.CopyFS(to, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(to, "jetstream", "$G", "streams", stateStream, "msgs", connect.IndexFile)); err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return to
}

// awaitMessages waits until the state stream has a number of messages.
func awaitMessages(t *testing.T, s *Store, subject string, want int) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for have := -1; have != want; <-tick.C {
		info, err := s.st.Info(ctx, natsjs.WithSubjectFilter(subject))
		if err != nil {
			t.Fatalf("%d messages, want %d: %v", have, want, err)
		}
		have = len(info.State.Subjects)
	}
}

// A record that was deleted stays deleted if the process is killed after its tombstone has expired.
func TestDeletedRecordsStayDeleted(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openIn(t, dir)
	defer closeIt(t, s)
	s.tombstones, s.limits = time.Second, limits{}
	some := func(from, to int, value string) (list []state.Record) {
		for i := from; i < to; i++ {
			r := state.Record{Key: fmt.Sprintf("a.%d", i)}
			if value != "" {
				r.Value = []byte(value)
			}
			list = append(list, r)
		}
		return list
	}
	var fence state.Fence
	var err error
	for i, records := range [][]state.Record{some(0, 100, "first"), some(0, 100, "second"), some(0, 40, ""), some(30, 32, "third")} {
		if fence, err = s.Commit(t.Context(), 0, fence, uint64(i+1), records); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.saveLive(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	awaitMessages(t, s, recordSubject(0, ">"), 62)

	again := openIn(t, copyOf(t, dir))
	defer closeIt(t, again)
	values, got, err := again.Load(t.Context(), 0, statetest.Raw)
	if err != nil || len(values) != 62 || got != fence {
		t.Fatalf("loaded %d of 62 records at %+v, want %+v: %v", len(values), got, fence, err)
	}
	back := again.sums.TakeDead(0)
	if len(back) != 38 {
		t.Errorf("%d deleted records came back, want all 38: the server has changed", len(back))
	}
	again.sums.AddDead(0, back)
	if err := again.sweep(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	awaitMessages(t, again, recordSubject(0, ">"), 62)
	if _, err := again.Commit(t.Context(), 0, got, 5, some(0, 1, "fourth")); err != nil {
		t.Fatal(err)
	}
	if values, _, err = again.Load(t.Context(), 0, statetest.Raw); err != nil || len(values) != 63 {
		t.Errorf("loaded %d of 63 records: %v", len(values), err)
	}
}

// A process that was away for long does not replace a newer live set.
func TestOldLiveSetReplacesNoNewer(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")}, {Key: "a.2", Value: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	fence, err = s.Commit(t.Context(), 0, fence, 2, []state.Record{{Key: "a.1"}})
	if err != nil {
		t.Fatal(err)
	}
	old := s.newLedger(fence.Rev, 1)
	old.Add("a.2", state.Record{Key: "a.2", Value: []byte("x")}.Hash())
	old.Gone = 1
	next, err := s.Commit(t.Context(), 0, fence, 3, []state.Record{{Key: "a.2"}, {Key: "a.3", Value: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.saveLive(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	s.sums.Set(0, old)
	if err := s.saveLive(t.Context(), 0); err != nil {
		t.Fatal(err)
	}
	set, err := s.liveSet(t.Context(), 0)
	if err != nil || set.rev != next.Rev || !set.has("a.3", 1) || set.has("a.2", 1) || set.has("a.1", 1) {
		t.Errorf("the stored set is %+v, %v", set, err)
	}
}

// A live set whose messages do not belong together names no records: the sum decides.
func TestDamagedLiveSetIsIgnored(t *testing.T) {
	var log strings.Builder
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.log = slog.New(slog.NewTextHandler(&log, nil))
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")}, {Key: "a.2", Value: []byte("x")}})
	if err == nil {
		_, err = s.Commit(t.Context(), 0, fence, 2, []state.Record{{Key: "a.1"}})
	}
	if err == nil {
		err = s.saveLive(t.Context(), 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	head, err := s.st.GetLastMsgForSubject(t.Context(), liveSubject(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	m := &nats.Msg{Subject: head.Subject, Header: head.Header, Data: []byte{0x80}}
	m.Header.Del(expectLastHeader)
	if _, err := s.publish(t.Context(), []*nats.Msg{m}); err != nil {
		t.Fatal(err)
	}
	if values, _, err := s.Load(t.Context(), 0, statetest.Raw); err != nil || len(values) != 1 {
		t.Errorf("loaded %v, %v", values, err)
	}
	if !strings.Contains(log.String(), "continues without them") {
		t.Errorf("the log has no warning: %s", log.String())
	}
}

// BenchmarkSaveLive writes the live set of a partition, which happens at most once a minute. The
// lock that commits wait for is held for lock-ms of it.
func BenchmarkSaveLive(b *testing.B) {
	for _, records := range []int{10_000, 250_000, 1_000_000} {
		b.Run(fmt.Sprint("records=", records), func(b *testing.B) {
			s, err := Open(b.Context(), Config{Dir: b.TempDir()})
			if err != nil {
				b.Fatal(err)
			}
			defer func() { _ = s.Close(context.Background()) }()
			l := s.newLedger(0, records)
			for i := range records {
				l.Add(fmt.Sprint(i), 0)
			}
			for rev := uint64(1); b.Loop(); rev++ {
				l.Rev, l.Gone = rev, 1
				s.sums.Set(0, l)
				if err := s.saveLive(b.Context(), 0); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
