package keeper_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
	"paramedic/state/statetest"
)

// An image holds every file of a directory, by its path.
type image map[string][]byte

// imageOf reads a directory. A file that is removed meanwhile is left out.
func imageOf(t *testing.T, dir string) image {
	t.Helper()
	out := image{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreGone(err)
		}
		data, err := os.ReadFile(path)
		if err == nil {
			rel, _ := filepath.Rel(dir, path)
			out[rel] = data
		}
		return ignoreGone(err)
	})
	if err != nil {
		t.Error(err)
	}
	return out
}

func ignoreGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// A tail chooses which bytes of a file the disk keeps, of those that were written after the last
// sync. A disk may keep any part of them.
type tail struct {
	name string
	of   func(grown []byte) []byte
}

var tails = []tail{
	{"dropped", func([]byte) []byte { return nil }},
	{"cut in half", func(grown []byte) []byte { return grown[:len(grown)/2] }},
	{"of zeros", func(grown []byte) []byte { return make([]byte, len(grown)) }},
	{"of garbage", func(grown []byte) []byte { return bytes.Repeat([]byte{0xa5, 0x5a, 0xff}, len(grown)/3+1)[:len(grown)] }},
	{"with a hole", func(grown []byte) []byte {
		holed := bytes.Clone(grown)
		clear(holed[:len(holed)/2])
		return holed
	}},
}

// lose returns the files after a loss of power between two syncs: of a file that grew, the synced
// part with a tail.
func lose(before, after image, keep tail) image {
	out := image{}
	for path, was := range before {
		out[path] = was
	}
	for path, now := range after {
		if was, ok := before[path]; strings.HasSuffix(path, ".blk") && (!ok || len(now) > len(was) && bytes.HasPrefix(now, was)) {
			out[path] = append(bytes.Clone(was), keep.of(now[len(was):])...)
		}
	}
	return out
}

func (im image) write(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for path, data := range im {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, data, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// A moment is right after the store has acknowledged an append or a commit.
type moment struct {
	files image
	acked int // inputs that were acknowledged
}

// A filmedStore takes an image of its directory after each append and each commit. Between them
// nothing is written.
type filmedStore struct {
	state.Store
	t   *testing.T
	dir string

	hold    sync.Mutex // held by a test that lets no commit begin
	mu      sync.Mutex
	acked   int
	moments []moment
}

func (s *filmedStore) take() {
	s.moments = append(s.moments, moment{imageOf(s.t, s.dir), s.acked})
}

func (s *filmedStore) Append(ctx context.Context, in ...state.Input) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Store.Append(ctx, in...)
	if err == nil {
		s.acked += len(in)
		s.take()
	}
	return err
}

func (s *filmedStore) Commit(ctx context.Context, p int, f state.Fence, to uint64, records []state.Record) (state.Fence, error) {
	s.hold.Lock()
	defer s.hold.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err := s.Store.Commit(ctx, p, f, to, records)
	if err == nil {
		s.take()
	}
	return next, err
}

// awaitPosition waits until everything up to an input is committed.
func awaitPosition(t *testing.T, store *jetstream.Store, to uint64) {
	t.Helper()
	until(t, "it is committed", func() bool {
		_, fence, err := store.Load(t.Context(), store.Partition("prod"), statetest.Raw)
		return err == nil && fence.Position == to
	})
}

// script returns inputs, and what a bot remembers after each number of them.
func script(t *testing.T, clock *handClock) (inputs []state.Input, memories []string) {
	t.Helper()
	b := start(t, t.TempDir(), clock)
	memories = []string{memoryOf(t, b)}
	for i := range 6 {
		in := alert(fmt.Sprint("fp", i), fmt.Sprint("pool", i/2), clock.Now())
		if i%3 == 2 {
			e := b.pendingEffects()[0]
			in = state.Input{At: clock.Now(), Cluster: "prod", Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true, Rev: e.Want}}
		}
		if err := b.Append(t.Context(), in); err != nil {
			t.Fatal(err)
		}
		awaitPosition(t, b.store, uint64(i+1))
		until(t, "readers see it", func() bool { return b.Ready(t.Context()) == nil })
		inputs, memories = append(inputs, in), append(memories, memoryOf(t, b))
	}
	b.stop()
	return inputs, memories
}

// film runs a bot that gets the inputs, two before each commit, and returns its moments.
func film(t *testing.T, clock *handClock, inputs []state.Input) []moment {
	t.Helper()
	dir := t.TempDir()
	store := openIn(t, dir)
	filmed := &filmedStore{Store: store, t: t, dir: dir}
	filmed.take()
	b := run(t, store, keeper.New(keeper.Config{Store: filmed, Clock: clock, Logger: slog.New(slog.DiscardHandler),
		Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
	until(t, "ready", func() bool { return b.Ready(t.Context()) == nil })
	for i := 0; i < len(inputs); i += 2 {
		filmed.hold.Lock()
		err := errors.Join(b.Append(t.Context(), inputs[i]), b.Append(t.Context(), inputs[i+1]))
		filmed.hold.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		awaitPosition(t, store, uint64(i+2))
	}
	b.stop()
	return filmed.moments
}

// A bot that loses its power at any moment has every input that it had acknowledged, applied once.
// An input that was not acknowledged is there as a whole or not at all.
func TestPowerLossKeepsAcknowledgedInputs(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	inputs, memories := script(t, clock)
	moments := film(t, clock, inputs)
	for i := range len(moments) - 1 {
		if testing.Short() && i%3 != 1 {
			continue
		}
		for _, keep := range tails {
			t.Run(fmt.Sprintf("moment %d tail %s", i, keep.name), func(t *testing.T) {
				t.Parallel()
				now, next, clock := moments[i], moments[i+1], newHandClock()
				b, log := startOn(t, lose(now.files, next.files, keep).write(t), clock)
				until(t, "the bot is ready", func() bool {
					clock.advance(time.Millisecond) // a partition may try again after the store was opened anew
					return b.Ready(t.Context()) == nil
				})
				until(t, "it remembers what was acknowledged", func() bool {
					got := memoryOf(t, b)
					return got == memories[now.acked] || got == memories[next.acked]
				})
				if b.store.Lost() > 0 {
					t.Errorf("%d inputs are reported as lost, and the bot logged\n%s", b.store.Lost(), log)
				}
			})
		}
	}
}
