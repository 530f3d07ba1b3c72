package keeper_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"paramedic/state"
)

// A wound is damage to the files of a stream, from the oldest to the newest.
type wound struct {
	name string
	do   func(blocks []string) error
}

func cutTo(share float64) func(string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, int64(float64(info.Size())*share))
	}
}

func cutBy(n int64) func(string) error {
	return func(path string) error {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		return os.Truncate(path, info.Size()-n)
	}
}

func newest(do func(string) error) func([]string) error {
	return func(blocks []string) error { return do(blocks[len(blocks)-1]) }
}

func oldest(do func(string) error) func([]string) error {
	return func(blocks []string) error { return do(blocks[0]) }
}

var wounds = []wound{
	{"newest loses a byte", newest(cutBy(1))},
	{"newest is cut in half", newest(cutTo(0.5))},
	{"newest is deleted", newest(os.Remove)},
	{"middle is deleted", func(blocks []string) error { return os.Remove(blocks[len(blocks)/2]) }},
	{"oldest is emptied", oldest(cutTo(0))},
	{"oldest is deleted", oldest(os.Remove)},
	{"all are deleted", func(blocks []string) error {
		var err error
		for _, b := range blocks {
			err = errors.Join(err, os.Remove(b))
		}
		return err
	}},
}

// blocksOf returns the files of a stream, from the oldest to the newest.
func blocksOf(t *testing.T, dir, stream string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "jetstream", "*", "streams", stream, "msgs", "*.blk"))
	if err != nil || len(files) < 2 {
		t.Fatalf("the stream %s has the files %v, %v; want several", stream, files, err)
	}
	number := func(path string) (n int) {
		if _, err := fmt.Sscanf(filepath.Base(path), "%d.blk", &n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	slices.SortFunc(files, func(a, b string) int { return number(a) - number(b) })
	return files
}

// inflict copies the directory and damages the copy. A server that was killed has no index.
func inflict(t *testing.T, from, stream string, w wound, killed bool) (dir string) {
	t.Helper()
	dir = copyOf(t, from)
	blocks := blocksOf(t, dir, stream)
	if err := w.do(blocks); err != nil {
		t.Fatal(err)
	}
	if killed {
		if err := os.Remove(filepath.Join(filepath.Dir(blocks[0]), "index.db")); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// killings returns whether the server was killed, both ways or in short tests the harder one.
func killings() []bool {
	if testing.Short() {
		return []bool{true}
	}
	return []bool{false, true}
}

// someWounds returns all wounds, or in short tests three that take different ways: a mended end, a
// gap and an empty stream.
func someWounds() []wound {
	if !testing.Short() {
		return wounds
	}
	return []wound{wounds[1], wounds[3], wounds[6]}
}

// shows waits until the bot shows the pool of a payload of the storm.
func (b *bot) shows(t *testing.T, payload int) {
	t.Helper()
	until(t, fmt.Sprintf("payload %d is applied", payload), func() bool {
		return slices.ContainsFunc(b.Incidents(), func(in state.Incident) bool { return in.Scope.Pool == fmt.Sprintf("pool-%d", payload) })
	})
}

// A file of the log or of the records that was cut or deleted costs no incident and repeats no
// effect. New alerts count.
func TestLostBlockIsMended(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	whole, memory := storeAfterStorm(t)
	for _, stream := range []string{inputs, records} {
		for _, w := range someWounds() {
			for _, killed := range killings() {
				t.Run(fmt.Sprintf("%s %s killed=%v", stream, w.name, killed), func(t *testing.T) {
					t.Parallel()
					b, _ := startOn(t, inflict(t, whole, stream, w, killed), clock)
					var due []state.Effect
					until(t, "the bot is ready, and delivers", func() bool {
						due = b.pendingEffects()
						return b.Ready(t.Context()) == nil && len(due) > 0
					})
					if got := memoryOf(t, b); got != memory {
						t.Errorf("it remembers something else than before, or has other effects than these %d to deliver", len(due))
						firstDifference(t, got, memory)
					}
					storm(t, b, payloads, 1, clock.Now())
					b.shows(t, payloads)
					if got := count(b.Keeper); got != (payloads+1)*alertsInEach {
						t.Errorf("%d alerts are counted", got)
					}
				})
			}
		}
	}
}

// Accepted alerts that the bot had not applied when a file of the log was lost are counted as lost,
// and the log names them. New alerts count, although the server may use their sequences again.
func TestLostBlockOfBacklogIsNamed(t *testing.T) {
	t.Parallel()
	clock := newHandClock()
	whole, _ := storeAfterStorm(t)
	store := openIn(t, whole)
	storm(t, store, payloads, payloads, clock.Now())
	if err := errors.Join(store.Ready(t.Context()), store.Close(context.Background())); err != nil {
		t.Fatal(err)
	}
	for _, w := range someWounds() {
		for _, killed := range killings() {
			t.Run(fmt.Sprintf("%s killed=%v", w.name, killed), func(t *testing.T) {
				t.Parallel()
				b, log := startOn(t, inflict(t, whole, inputs, w, killed), clock)
				storm(t, b, 2*payloads, 5, clock.Now())
				b.shows(t, 2*payloads+4)
				gone, lost := 2*payloads+5-count(b.Keeper)/alertsInEach, b.store.Lost()
				if uint64(gone) != lost || (lost > 0) != strings.Contains(log.String(), "not applied are lost") {
					t.Errorf("%d inputs are gone, %d are reported, and the log says\n%s", gone, lost, log)
				}
			})
		}
	}
}
