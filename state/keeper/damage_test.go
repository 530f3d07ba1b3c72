package keeper_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/fold"
	"paramedic/state/jetstream"
	"paramedic/state/keeper"
	"paramedic/state/keeper/agenda"
)

// The streams, by the names of their directories.
const (
	inputs  = "PARAMEDIC_INPUT"
	records = "PARAMEDIC_STATE"
)

// A logBuffer is a log that a test reads.
type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (s *logBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.Write(p)
}

func (s *logBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.buf.String()
}

// startOn starts a bot on a directory that may be damaged. It does not wait for readiness.
func startOn(t *testing.T, dir string, clock state.Clock) (*bot, *logBuffer) {
	t.Helper()
	log := &logBuffer{}
	logger := slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir, Logger: logger})
	if err != nil {
		t.Fatal(err)
	}
	b := run(t, store, keeper.New(keeper.Config{Store: store, Clock: clock, Logger: logger,
		Fold: &fold.Fold{Triage: poolTriage{}, Routing: poolTriage{}, Settings: state.DefaultSettings()}}))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("ready: %v; the bot logged\n%s", b.Ready(context.Background()), log)
		}
	})
	if hand, ok := clock.(*handClock); ok {
		b.retries(t, hand)
	}
	return b, log
}

// retries advances the clock while a partition waits to try again. A request that is on its way
// while the store is opened again gets no answer.
func (b *bot) retries(t *testing.T, clock *handClock) {
	var watch sync.WaitGroup
	t.Cleanup(watch.Wait)
	watch.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-t.Context().Done():
				return
			case <-tick.C:
			}
			if err := b.Ready(t.Context()); err != nil && strings.Contains(err.Error(), "is not loaded: ") {
				clock.advance(100 * time.Millisecond)
			}
		}
	})
}

const (
	payloads     = 60
	alertsInEach = 50
)

// storm appends alerts that fill several files of each stream. Their texts do not compress.
func storm(t *testing.T, log state.Log, from, n int, at time.Time) {
	t.Helper()
	for i := from; i < from+n; i++ {
		batch := &state.AlertBatch{}
		noise, text := rand.NewChaCha8([32]byte{byte(i), byte(i >> 8)}), make([]byte, 2250)
		for k := range alertsInEach {
			_, _ = noise.Read(text) // it never fails
			batch.Alerts = append(batch.Alerts, state.Alert{Fingerprint: state.Fingerprint(fmt.Sprintf("%08x", i*alertsInEach+k)),
				Status: state.Firing, StartsAt: at,
				Labels:      map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "pool": fmt.Sprintf("pool-%d", i)},
				Annotations: map[string]string{"description": base64.StdEncoding.EncodeToString(text)}})
		}
		if err := log.Append(t.Context(), state.Input{At: at, Cluster: "prod", Alerts: batch}); err != nil {
			t.Fatal(err)
		}
	}
}

// pendingEffects returns every effect that the bot still has to deliver, by ID.
func (b *bot) pendingEffects() []state.Effect {
	tasks, _ := b.Take(time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC), func(agenda.Lane) int { return math.MaxInt })
	due := make([]state.Effect, 0, len(tasks))
	for _, task := range tasks {
		if !task.Ahead {
			due = append(due, task.Effect)
		}
		b.Finished(task, false)
	}
	slices.SortFunc(due, func(x, y state.Effect) int { return cmp.Compare(x.ID, y.ID) })
	return due
}

// memoryOf returns all of the bot's state, and what it is about to do.
func memoryOf(t *testing.T, b *bot) string {
	t.Helper()
	due := b.pendingEffects()
	all := map[string]any{"incidents": b.Incidents(), "due": due}
	for _, in := range b.Incidents() {
		all["alerts of "+string(in.ID)] = b.Alerts(in.ID)
		entries, err := b.Timeline(t.Context(), in.ID)
		if err != nil {
			t.Fatal(err)
		}
		all["timeline of "+string(in.ID)] = entries
	}
	raw, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

// The first test that needs the storm plays it. TestMain removes its directory.
var stormed struct {
	sync.Once
	dir, memory string
}

// storeAfterStorm returns a copy of a directory in which a bot has triaged a storm and delivered
// half of its effects, and the state in it.
func storeAfterStorm(t *testing.T) (dir, memory string) {
	t.Helper()
	stormed.Do(func() {
		var err error
		if stormed.dir, err = os.MkdirTemp("", "storm"); err != nil {
			t.Fatal(err)
		}
		stormed.memory = playStorm(t, stormed.dir, newHandClock())
	})
	if stormed.memory == "" {
		t.Fatal("the storm failed in another test")
	}
	return copyOf(t, stormed.dir), stormed.memory
}

// playStorm lets a bot triage a storm and deliver half of its effects, and returns its state.
func playStorm(t *testing.T, dir string, clock *handClock) (memory string) {
	t.Helper()
	b := start(t, dir, clock)
	storm(t, b, 0, payloads, clock.Now())
	until(t, "every alert is counted", func() bool { return count(b.Keeper) == payloads*alertsInEach })
	for _, in := range b.Incidents()[:payloads/2] {
		for _, e := range b.pendingEffects() {
			if e.Incident == in.ID {
				if err := b.Append(t.Context(), state.Input{Cluster: "prod", Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true,
					Rev: e.Want}}); err != nil {
					t.Fatal(err)
				}
			}
		}
		if err := b.Append(t.Context(), state.Input{Cluster: "prod", Command: &state.Command{Verb: state.VerbAck, Incident: in.ID,
			Actor: state.Actor{ID: "kim", Via: "api"}}}); err != nil {
			t.Fatal(err)
		}
	}
	until(t, "half are acknowledged", func() bool {
		n := 0
		for _, in := range b.Incidents() {
			if in.Status == state.StatusAcked {
				n++
			}
		}
		return n == payloads/2
	})
	memory = memoryOf(t, b)
	b.stop()
	return memory
}

// copyOf returns a copy of a directory, so that tests that damage it need not make it anew.
func copyOf(t *testing.T, from string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := os.CopyFS(dir, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
	return dir
}

// damage inverts 16 bytes in a file of the stream: in its oldest file, or at a place in its newest.
// In the newest file of the state it meets the newest message with records. A server that was
// killed reads its files anew. One that was stopped trusts its index.
func damage(t *testing.T, dir, stream, where string, killed bool) {
	t.Helper()
	files := blocksOf(t, dir, stream)
	path := files[len(files)-1]
	if where == "oldest" {
		path = files[0]
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	at := len(data) / 2
	if where == "newest" && stream == records {
		for _, subject := range []string{"paramedic.st.", "paramedic.draft.", "paramedic.pos."} {
			at = max(at, bytes.LastIndex(data, []byte(subject)))
		}
	}
	if where == "end of the newest" {
		at = len(data) - 60
	}
	for i := range 16 {
		data[at+i] ^= 0xff
	}
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if !killed {
		return
	}
	if err := os.Remove(filepath.Join(filepath.Dir(path), "index.db")); err != nil {
		t.Fatal(err)
	}
}

func TestDamagedStateIsRebuilt(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"oldest", "newest", "end of the newest"} {
		for _, killed := range killings() {
			t.Run(fmt.Sprintf("%s killed=%v", where, killed), func(t *testing.T) {
				t.Parallel()
				clock := newHandClock()
				dir, memory := storeAfterStorm(t)
				damage(t, dir, records, where, killed)
				b, log := startOn(t, dir, clock)
				until(t, "the bot is ready", func() bool { return b.Ready(t.Context()) == nil })
				// Without the newest position, the one before it and the log have everything. A
				// bot is ready while it reads the log.
				got, was := "", memory
				defer func() {
					if got != was {
						t.Errorf("it remembers something else than before, and logged\n%s", log)
						firstDifference(t, got, was)
					}
				}()
				until(t, "it remembers what it did before", func() bool { got = memoryOf(t, b); return got == memory })
				refolded := strings.Contains(log.String(), "the end of the state stream is lost")
				live := where != "oldest" // the damaged bytes of the oldest file may be an overwritten record
				if (b.Rebuilt() != 1 || !strings.Contains(log.String(), "the state is damaged")) && !refolded && live {
					t.Errorf("made again %d times, and logged\n%s", b.Rebuilt(), log)
				}
				if halt, halted := b.Halted("prod"); halted != strings.Contains(log.String(), "proven_equal=false") {
					t.Errorf("halted: %v %v", halted, halt)
				}
				storm(t, b, payloads, 1, clock.Now())
				until(t, "a new alert is counted", func() bool { return count(b.Keeper) == (payloads+1)*alertsInEach })
				memory = memoryOf(t, b)
				b.stop()
				again, log := startOn(t, dir, clock)
				until(t, "the bot is ready again", func() bool { return again.Ready(t.Context()) == nil })
				if again.Rebuilt() != 0 || memoryOf(t, again) != memory {
					t.Errorf("after the next start it remembers something else, and logged\n%s", log)
				}
			})
		}
	}
}

func firstDifference(t *testing.T, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range min(len(g), len(w)) {
		if g[i] != w[i] {
			t.Errorf("line %d is\n%s\nand was\n%s", i, strings.Join(g[max(0, i-5):min(i+5, len(g))], "\n"),
				strings.Join(w[max(0, i-5):min(i+5, len(w))], "\n"))
			return
		}
	}
}

func TestDamagedLogContinuesAndIsReported(t *testing.T) {
	t.Parallel()
	for _, where := range []string{"oldest", "newest", "end of the newest"} {
		for _, killed := range killings() {
			t.Run(fmt.Sprintf("%s killed=%v", where, killed), func(t *testing.T) {
				t.Parallel()
				clock := newHandClock()
				dir, memory := storeAfterStorm(t)
				damage(t, dir, inputs, where, killed)
				b, log := startOn(t, dir, clock)
				until(t, "the bot is ready", func() bool { return b.Ready(t.Context()) == nil })
				if got := memoryOf(t, b); got != memory {
					t.Errorf("it remembers something else than before, and logged\n%s", log)
				}
				// A damaged input that was applied and keeps its sequence does no harm.
				if where != "oldest" && killed && !strings.Contains(log.String(), "the end of the log is lost") {
					t.Errorf("the loss is not named:\n%s", log)
				}
				storm(t, b, payloads, 1, clock.Now())
				until(t, "a new alert is counted", func() bool { return count(b.Keeper) == (payloads+1)*alertsInEach })
			})
		}
	}
}

// Damaged inputs that were not applied are lost. The log reports how many, and later inputs are
// read.
func TestDamagedBacklogIsReported(t *testing.T) {
	t.Parallel()
	for _, killed := range []bool{false, true} {
		t.Run(fmt.Sprintf("killed=%v", killed), func(t *testing.T) {
			t.Parallel()
			clock, dir := newHandClock(), t.TempDir()
			store, err := jetstream.Open(t.Context(), jetstream.Config{Dir: dir})
			if err != nil {
				t.Fatal(err)
			}
			storm(t, store, 0, payloads, clock.Now())
			if err := store.Close(context.Background()); err != nil {
				t.Fatal(err)
			}
			damage(t, dir, inputs, "oldest", killed)
			b, log := startOn(t, dir, clock)
			counted := func(of int) func() bool {
				return func() bool { return uint64(count(b.Keeper))+b.store.Lost()*alertsInEach == uint64(of)*alertsInEach }
			}
			until(t, "what is left is counted", counted(payloads))
			storm(t, b, payloads, 1, clock.Now())
			until(t, "a new alert is counted", counted(payloads+1))
			if b.store.Lost() == 0 || !strings.Contains(log.String(), "accepted inputs") {
				t.Errorf("%d inputs are reported as lost, and the log says\n%s", b.store.Lost(), log)
			}
		})
	}
}

// If the log is damaged as well, the records cannot be rebuilt. The bot reports what is wrong and
// what to do, and does not start with an empty state.
func TestDamageOfBothStreamsIsReported(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	dir, _ := storeAfterStorm(t)
	damage(t, dir, records, "oldest", true)
	damage(t, dir, inputs, "oldest", true)
	b, _ := startOn(t, dir, clock)
	until(t, "readiness names the damage", func() bool {
		err := b.Ready(t.Context())
		if b.Loading() == nil {
			t.Error("a partition that cannot be loaded is not missing")
		}
		return err != nil && strings.Contains(err.Error(), "records of a commit cannot be read (stream PARAMEDIC_STATE") &&
			strings.Contains(err.Error(), "inputs of stream PARAMEDIC_INPUT are lost; restore the state")
	})
	_, _, err := b.store.Load(t.Context(), b.store.Partition("prod"), func(r state.Record) (any, error) { return r, nil })
	var damage *state.DamagedError
	if !errors.As(err, &damage) || !errors.Is(err, state.ErrDamaged) || damage.Gap == "" {
		t.Errorf("load: %v", err)
	}
	if len(b.Incidents()) != 0 {
		t.Error("the bot shows what it cannot know")
	}
}
