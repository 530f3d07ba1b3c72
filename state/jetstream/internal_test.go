package jetstream

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream/natstest"
	"paramedic/state/jetstream/queue"
	"paramedic/state/statetest"
)

func openIn(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func closeIt(t *testing.T, s *Store) {
	t.Helper()
	if err := s.Close(context.Background()); err != nil {
		t.Error(err)
	}
}

// A deleted record leaves nothing behind: its tombstone expires, too.
func TestTombstonesExpire(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for the server's own clock")
	}
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	s.tombstones, s.limits = time.Second, limits{}
	fence, err := s.Commit(t.Context(), 0, state.Fence{}, 1, []state.Record{{Key: "a.1", Value: []byte("x")},
		{Key: "a.2", Value: []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Commit(t.Context(), 0, fence, 2, []state.Record{{Key: "a.1"}}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		info, err := s.st.Info(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if info.State.Msgs == 4 { // a.2, the position and two probes
			break
		}
		<-tick.C
	}
	if records, _, err := s.Load(ctx, 0, statetest.Raw); err != nil || len(records) != 1 {
		t.Errorf("loaded %v, %v", records, err)
	}
}

// A failed batch fails all of its callers, and the next batch is not affected.
func TestFailedBatchFailsItsCallers(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	var group []*queue.Write
	for range 3 {
		inputs, err := s.encode([]state.Input{{Cluster: "prod", ID: "x"}}, new(bytes.Buffer))
		if err != nil {
			t.Fatal(err)
		}
		group = append(group, queue.NewWrite(inputs))
	}
	packs, _ := queue.PackGroup(group, 0)
	msgs := s.messages(packs)
	msgs[1].Header.Set("Nats-Expected-Stream", "ANOTHER")
	s.writeJoined(group, msgs)
	for i, w := range group {
		if err := <-w.Done(); !errors.Is(err, state.ErrUnavailable) {
			t.Errorf("caller %d: %v, want ErrUnavailable", i, err)
		}
	}
	info, err := s.in.Info(t.Context())
	if err != nil || info.State.Msgs != 0 {
		t.Errorf("a failed batch left %d inputs (%v)", info.State.Msgs, err)
	}
	if err := s.Append(t.Context(), state.Input{Cluster: "prod"}); err != nil {
		t.Error(err)
	}
}

// Close writes what was accepted.
func TestCloseWritesQueuedInputs(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	var wg sync.WaitGroup
	var mu sync.Mutex
	kept := uint64(0)
	for range 200 {
		wg.Go(func() {
			if s.Append(context.Background(), state.Input{Cluster: "prod"}) == nil {
				mu.Lock()
				kept++
				mu.Unlock()
			}
		})
	}
	closeIt(t, s)
	wg.Wait()
	s = openIn(t, dir)
	defer closeIt(t, s)
	found := uint64(0)
	err := s.EachInput(t.Context(), func(l Logged) error {
		found += uint64(len(decodeInputs(l.Data, l.Seq, "")))
		return nil
	})
	if err != nil || found != kept {
		t.Errorf("%d inputs are there and %d were called durable (%v)", found, kept, err)
	}
}

// A damaged record gives an error that names it, never a missing record.
func TestDamagedRecordIsNamed(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	var records []state.Record
	for i := range 50 {
		records = append(records, state.Record{Key: fmt.Sprintf("a.%d", i), Value: fmt.Appendf(nil, "value-of-%03d", i)})
	}
	if _, err := s.Commit(t.Context(), 0, state.Fence{}, 1, records); err != nil {
		t.Fatal(err)
	}
	closeIt(t, s)
	damage(t, dir, "value-of-025")
	s = openIn(t, dir)
	defer closeIt(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	got, _, err := s.Load(ctx, 0, statetest.Raw)
	if err == nil || !strings.Contains(err.Error(), "record a.25 ") {
		t.Errorf("loaded %d records with %v, want an error that names a.25", len(got), err)
	}
}

// After an unclean end the server reads its files anew and drops everything after a damaged record,
// including the position.
func TestStateWithoutPositionIsRefused(t *testing.T) {
	dir := t.TempDir()
	s := openIn(t, dir)
	records := []state.Record{{Key: "a.1", Value: []byte("value-one")}, {Key: "a.2", Value: []byte("value-two")}}
	if _, err := s.Commit(t.Context(), 0, state.Fence{}, 1, records); err != nil {
		t.Fatal(err)
	}
	closeIt(t, s)
	damage(t, dir, "value-two")
	index, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stateStream, "msgs", "index.db"))
	if err != nil || len(index) != 1 {
		t.Fatalf("index files %v, %v", index, err)
	}
	if err := os.Remove(index[0]); err != nil {
		t.Fatal(err)
	}
	s = openIn(t, dir)
	defer closeIt(t, s)
	if got, _, err := s.Load(t.Context(), 0, statetest.Raw); err == nil || !strings.Contains(err.Error(), "paramedic.pos.0") {
		t.Errorf("loaded %v with %v, want an error that names the position", got, err)
	}
}

// damage changes one byte of a value in the state stream's files.
func damage(t *testing.T, dir, value string) {
	t.Helper()
	blocks, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stateStream, "msgs", "*.blk"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range blocks {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		i := bytes.Index(data, []byte(value))
		if i < 0 {
			continue
		}
		data[i] ^= 1
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	t.Fatalf("%s is in none of the %d files", value, len(blocks))
}

// People stop reading warnings that come at every start.
func TestStartLogsNoWarnings(t *testing.T) {
	var log bytes.Buffer
	s, err := Open(t.Context(),
		Config{Dir: t.TempDir(), Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	if err != nil {
		t.Fatal(err)
	}
	// The largest record is stored, with its headers.
	if _, err := s.Commit(t.Context(), 0, state.Fence{}, 1,
		[]state.Record{{Key: "a.1", Value: bytes.Repeat([]byte("x"), MaxValue)}}); err != nil {
		t.Error(err)
	}
	closeIt(t, s)
	if log.Len() > 0 {
		t.Errorf("the start warned:\n%s", &log)
	}
}

// A bot that loses NATS while it opens the store waits until the connection is back.
func TestOpeningOutlivesLostConnection(t *testing.T) {
	links := natstest.Links(t, natstest.Start(t))
	cfg := Config{URL: natstest.URLs(links), Replicas: 1}
	if err := cfg.Validate(); err != nil {
		t.Fatal(err)
	}
	s := &Store{log: cfg.Logger, cfg: cfg, closed: make(chan struct{}), queue: queue.New(maxBatch)}
	if err := s.connect(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	defer s.nc.Close()
	links[0].Cut()
	for s.nc.IsConnected() {
		<-time.After(time.Millisecond)
	}
	links[0].Mend() // the client tries again after its pause
	if err := s.prepare(t.Context(), cfg); err != nil {
		t.Error(err)
	}
}

// A cluster may place a consumer on a server that has just died, and never answers then.
func TestUnansweredRequestIsRepeated(t *testing.T) {
	tries := 0
	got, err := repeat(t.Context(), func(ctx context.Context) (int, error) {
		if tries++; tries == 1 {
			<-ctx.Done()
			return 0, ctx.Err()
		}
		return tries, nil
	})
	if got != 2 || err != nil {
		t.Errorf("repeat = %d, %v; want the second answer", got, err)
	}
}

// A start of the same version leaves the streams alone. It repairs a limit that would lose records.
func TestStreamsAreUpdatedOnlyIfNeeded(t *testing.T) {
	s := openIn(t, t.TempDir())
	defer closeIt(t, s)
	cfg := Config{Retain: 30 * 24 * time.Hour, Replicas: 1, Version: "devel"}
	updates, err := s.nc.SubscribeSync("$JS.EVENT.ADVISORY.STREAM.UPDATED.>")
	if err != nil {
		t.Fatal(err)
	}
	updated := func() int {
		t.Helper()
		if err := errors.Join(s.create(t.Context(), &cfg), s.nc.Flush()); err != nil {
			t.Fatal(err)
		}
		n, _, err := updates.Pending()
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	if n := updated(); n != 0 {
		t.Errorf("%d updates without a change", n)
	}
	_, limited := cfg.Streams()
	limited.MaxBytes = 1 << 20
	if _, err := s.js.UpdateStream(t.Context(), limited); err != nil {
		t.Fatal(err)
	}
	if n := updated(); n != 2 || s.st.CachedInfo().Config.MaxBytes != -1 {
		t.Errorf("after a limit was set: %d updates, and a limit of %d bytes", n, s.st.CachedInfo().Config.MaxBytes)
	}
}
