package jetstream_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"paramedic/state"
	"paramedic/state/jetstream"
	"paramedic/state/statetest"
)

// victimEnv makes the test binary the process that is killed. Its value is the state directory.
const victimEnv = "PARAMEDIC_TEST_VICTIM"

const (
	victimWriters = 4
	recordsEach   = 40 // records in one of the victim's commits

	// Each third commit of the victim has a large record, and goes to a link. A few links fit.
	largeRecord, linksOfVictim = 80 << 10, 400 << 10
)

func isUnavailable(err error) bool { return errors.Is(err, state.ErrUnavailable) }

// victim appends and commits until it is killed, and prints what was acknowledged.
func victim(dir string) {
	ctx := context.Background()
	fail := func(err error) {
		if err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	s, err := jetstream.Open(ctx, jetstream.Config{Dir: dir})
	fail(err)
	_, fence, err := s.Load(ctx, 0, statetest.Raw)
	fail(err)
	jetstream.LimitLinks(s, linksOfVictim)
	noise := rand.NewChaCha8([32]byte{}) // which does not compress
	fmt.Println("ready")
	var wg sync.WaitGroup
	for w := range victimWriters {
		wg.Go(func() {
			for i := 0; ; i++ {
				id := fmt.Sprintf("%d.%d.%d", os.Getpid(), w, i)
				inputs := make([]state.Input, 1+i%3)
				for k := range inputs {
					inputs[k] = state.Input{Cluster: "prod", ID: fmt.Sprintf("%s.%d", id, k)}
				}
				fail(s.Append(ctx, inputs...))
				fmt.Println("input", id, len(inputs))
			}
		})
	}
	for n := fence.Position + 1; ; n++ {
		records := make([]state.Record, recordsEach, recordsEach+2)
		for i := range records {
			records[i] = state.Record{Key: fmt.Sprintf("part.%d", i), Value: fmt.Append(nil, n)}
		}
		records = append(records, state.Record{Key: fmt.Sprintf("timeline.INC-1.%d", n), Value: fmt.Append(nil, n)})
		if n%3 == 0 {
			value := make([]byte, largeRecord)
			_, _ = noise.Read(value) // it never fails
			records = append(records, state.Record{Key: "large.1", Value: append(fmt.Appendf(nil, "%d ", n), value...)})
		}
		fence, err = s.Commit(ctx, 0, fence, n, records)
		fail(err)
		fmt.Println("commit", n)
	}
}

// Everything that a killed process accepted is stored, and every commit and append is whole.
func TestKilledProcessKeepsAcceptedInputs(t *testing.T) {
	seeds := uint64(6)
	if testing.Short() {
		seeds = 2
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			dir := t.TempDir()
			rng := rand.New(rand.NewPCG(seed, 1))
			acked := map[string]int{}
			var committed uint64
			for range 3 {
				committed = max(committed, kill(t, dir, 20+rng.IntN(400), acked))
				inspect(t, dir, acked, committed)
			}
		})
	}
}

// kill runs the victim until it has printed a number of lines, and reads its output to the end.
func kill(t *testing.T, dir string, lines int, acked map[string]int) (committed uint64) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^$")
	cmd.Env = append(os.Environ(), victimEnv+"="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	scanner := bufio.NewScanner(out)
	for n := 0; scanner.Scan(); n++ {
		if n == lines {
			if err := cmd.Process.Kill(); err != nil {
				t.Error(err)
			}
		}
		line := scanner.Text()
		var id string
		var count int
		switch {
		case strings.HasPrefix(line, "input "):
			if _, err := fmt.Sscanf(line, "input %s %d", &id, &count); err == nil {
				acked[id] = count
			}
		case strings.HasPrefix(line, "commit "):
			fmt.Sscanf(line, "commit %d", &committed)
		case strings.HasPrefix(line, "error "):
			t.Errorf("the victim failed by itself: %s", line)
		}
	}
	if cmd.Wait() == nil {
		t.Error("the victim ended by itself")
	}
	return committed
}

func inspect(t *testing.T, dir string, acked map[string]int, committed uint64) {
	t.Helper()
	s := openStore(t, jetstream.Config{Dir: dir})
	defer closeStore(t, s)
	records, fence, err := s.Load(t.Context(), 0, statetest.Raw)
	if err != nil {
		t.Fatal(err)
	}
	if fence.Position < committed || fence.Position > committed+3 {
		t.Errorf("the position is %d, and commit %d was acknowledged", fence.Position, committed)
	}
	want := map[string]uint64{}
	for i := range recordsEach {
		want[fmt.Sprintf("part.%d", i)] = fence.Position
	}
	if last := fence.Position - fence.Position%3; last > 0 {
		want["large.1"] = last
	}
	if fence.Position > 0 && len(records) != len(want) {
		t.Errorf("%d records, want %d", len(records), len(want))
	}
	for _, v := range records {
		r := v.(state.Record)
		if n, _, _ := bytes.Cut(r.Value, []byte(" ")); string(n) != fmt.Sprint(want[r.Key]) {
			t.Errorf("torn commit: %s is of %s at position %d", r.Key, n, fence.Position)
		}
	}
	timeline, err := s.List(t.Context(), 0, "timeline.INC-1")
	if err != nil || uint64(len(timeline)) != fence.Position {
		t.Errorf("the timeline has %d entries at position %d (%v)", len(timeline), fence.Position, err)
	}
	found := allInputs(t, s)
	for id, n := range acked {
		if found[id] != n {
			t.Errorf("append %s of %d inputs was acknowledged, and %d are there", id, n, found[id])
		}
	}
	for id, n := range found {
		var pid, w, i int
		fmt.Sscanf(id, "%d.%d.%d", &pid, &w, &i)
		if n != 1+i%3 {
			t.Errorf("torn append: %d inputs of %s, want %d", n, id, 1+i%3)
		}
	}
}

// allInputs counts the inputs in the log. It appends one to find the end.
func allInputs(t *testing.T, s *jetstream.Store) map[string]int {
	t.Helper()
	end := fmt.Sprintf("end.%d", rand.Int64())
	if err := s.Append(t.Context(), state.Input{Cluster: "prod", ID: end}); err != nil {
		t.Fatal(err)
	}
	r, err := s.Inputs(t.Context(), s.Partition("prod"), 0)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	found := map[string]int{}
	for {
		in, err := r.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if in.ID == end {
			return found
		}
		if !strings.HasPrefix(in.ID, "end.") {
			found[in.ID[:strings.LastIndexByte(in.ID, '.')]]++
		}
	}
}
