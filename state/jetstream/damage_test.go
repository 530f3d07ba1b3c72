package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	natsjs "github.com/nats-io/nats.go/jetstream"

	"paramedic/state"
	"paramedic/state/jetstream/connect"
	"paramedic/state/statetest"
)

// Records of an older version have no sum. They load, and the next commit adds one.
func TestStateWithoutSumLoads(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	rev, err := s.commit(t.Context(), 0, state.Fence{}, position{Position: 1}, []state.Record{{Key: "a.1", Value: []byte("x")},
		{Key: "a.2", Value: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	values, fence, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil || len(values) != 2 || fence != (state.Fence{Position: 1, Rev: rev}) {
		t.Fatalf("loaded %v at %+v, %v", values, fence, err)
	}
	if _, err := s.Commit(t.Context(), 0, fence, 2, []state.Record{{Key: "a.2"}, {Key: "a.3", Value: []byte("x")},
		{Key: "a.4", Value: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	pos, _, err := s.position(t.Context(), 0)
	if err != nil || pos.Sum == nil || pos.Sum.Records != 3 {
		t.Errorf("the next commit left %+v, %v", pos, err)
	}
}

// A missing record is detected, for any cause.
func TestMissingRecordIsDamage(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	if _, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")},
		{Key: "a.2", Value: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	if err := s.purge(t.Context(), recordSubject(0, "a.1")); err != nil {
		t.Fatal(err)
	}
	_, _, err := s.Load(t.Context(), 0, statetest.Raw)
	var damage *state.DamagedError
	if !errors.As(err, &damage) || !strings.Contains(damage.Wrong, "1 of its 2 records are missing") || damage.Sum.Records != 2 {
		t.Errorf("load: %v", err)
	}
}

// A replacement that did not complete leaves a partition that reports it.
func TestUnfinishedReplacementIsDamage(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	var records []state.Record
	for i := range MaxRecords + 1 {
		records = append(records, state.Record{Key: fmt.Sprintf("a.%d", i), Value: []byte("x")})
	}
	records[MaxRecords].Key = "not a key" // so that the second commit is refused
	if _, err := s.Replace(t.Context(), 0, fence, 5, records); err == nil {
		t.Fatal("replaced with a bad record")
	}
	_, _, err = s.Load(context.Background(), 0, statetest.Raw)
	var damage *state.DamagedError
	if !errors.As(err, &damage) || damage.Sum == nil || damage.Sum.Records != 1 || damage.Fence.Position != 1 {
		t.Errorf("load: %v", err)
	}
}

// Records that get the sequences of lost tombstones do not expire with them.
func TestLostTombstonesExpireNoRecords(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server's own clock")
	}
	t.Parallel()
	dir := t.TempDir()
	s := openIn(t, dir)
	s.tombstones, s.limits = time.Second, limits{}
	some := func(prefix string, value []byte) (list []state.Record) {
		for i := range 20 {
			list = append(list, state.Record{Key: fmt.Sprintf("%s.%d", prefix, i), Value: value})
		}
		return list
	}
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, some("old", []byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	block := filepath.Join(dir, "jetstream", "$G", "streams", stateStream, "msgs", "1.blk")
	before, err := os.Stat(block)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), 0, fence, 2, some("old", nil)); err != nil {
		t.Fatal(err)
	}
	closeIt(t, s)
	if err := errors.Join(os.Truncate(block, before.Size()), os.Remove(filepath.Join(filepath.Dir(block), connect.IndexFile))); err != nil {
		t.Fatal(err)
	}

	s = openIn(t, dir)
	defer closeIt(t, s)
	s.tombstones, s.limits = time.Second, limits{}
	_, fence, err = s.Load(t.Context(), 0, statetest.Raw)
	if err != nil {
		t.Fatal(err)
	}
	fence, err = s.Commit(t.Context(), 0, fence, 3, some("new", []byte("x")))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), 0, fence, 4, []state.Record{{Key: "old.0"}}); err != nil {
		t.Fatal(err)
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for { // the newest tombstone expires after the lost ones
		_, err := s.st.GetLastMsgForSubject(t.Context(), recordSubject(0, "old.0"))
		if errors.Is(err, natsjs.ErrMsgNotFound) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		<-tick.C
	}
	if records, _, err := s.Load(t.Context(), 0, statetest.Raw); err != nil || len(records) != 39 {
		t.Errorf("%d records are left of 39, %v", len(records), err)
	}
}

// A damaged record is detected although a newer one waits in the position.
func TestReplacedDamageIsDetected(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := openIn(t, dir)
	fence := state.Fence{}
	for i, value := range []string{"old value", "new value"} {
		var err error
		if fence, err = s.Commit(t.Context(), 0, fence, uint64(i)+1, []state.Record{{Key: "a.1", Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	closeIt(t, s)
	block := filepath.Join(dir, "jetstream", "$G", "streams", stateStream, "msgs", "1.blk")
	data, err := os.ReadFile(block)
	if err != nil {
		t.Fatal(err)
	}
	data[bytes.Index(data, []byte("old value"))] ^= 0xff
	if err := os.WriteFile(block, data, 0o600); err != nil {
		t.Fatal(err)
	}
	s = openIn(t, dir)
	defer closeIt(t, s)
	if _, _, err = s.Load(t.Context(), 0, statetest.Raw); !errors.Is(err, state.ErrDamaged) || !strings.Contains(err.Error(), "record a.1") {
		t.Errorf("load: %v", err)
	}
}
