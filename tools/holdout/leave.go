package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"paramedic/lab"
)

// groups returns the values that each group leaves out: one of every dimension. Every value of
// every dimension is left out by a group, and by several where a dimension has few values.
func groups() []convention {
	n := 0
	for _, d := range dimensions {
		n = max(n, len(d.values))
	}
	out := make([]convention, n)
	for g := range out {
		out[g] = convention{}
		for _, d := range dimensions {
			out[g][d.name] = d.values[g%len(d.values)]
		}
	}
	return out
}

// drawAround draws a convention. A dimension takes the left-out value with this probability, and
// else one of its others.
func (left convention) drawAround(seed uint64, share float64) convention {
	r := rand.New(rand.NewPCG(seed, 0x1eaf))
	c := convention{}
	for _, d := range dimensions {
		others := slices.DeleteFunc(slices.Clone(d.values), func(v string) bool { return v == left[d.name] })
		c[d.name] = others[r.IntN(len(others))]
		if r.Float64() < share {
			c[d.name] = left[d.name]
		}
	}
	return c
}

// A leaveOut leaves one value of every dimension out of the training runs of each group, fits the
// weights to them, and plays them where the left-out values occur. All that it needs to continue is
// in its folder.
type leaveOut struct {
	dir   string
	cases string // folder of the written cases; empty: none
	plan  plan
	out   io.Writer
}

// A plan holds the options of a folder's runs. Runs with other options belong in another folder.
type plan struct {
	Train   int     `json:"train"` // runs of each group
	Test    int     `json:"test"`
	First   uint64  `json:"first"`
	Spread  float64 `json:"spread"`
	Edition string  `json:"edition"`
	Drawn   string  `json:"drawn"` // the dimensions
}

// leftShare is the probability with which a test run takes the left-out value of a dimension. 340
// runs then have each value about 200 times or more.
const leftShare = 0.65

// testSeeds separates the seeds of test runs from those of training runs, and groupSeeds those of
// two groups.
const (
	testSeeds  = 500_000
	groupSeeds = 1_000_000
)

func leaveCommand(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("holdout leave", flag.ContinueOnError)
	l := leaveOut{out: out}
	f.StringVar(&l.dir, "dir", "", "folder of the results; a run that was interrupted continues there")
	f.StringVar(&l.cases, "cases", writtenCases, "folder of written cases that keep their verdicts; empty: none, which saves minutes a fit")
	f.IntVar(&l.plan.Train, "train", 200, "training runs of each group")
	f.IntVar(&l.plan.Test, "test", 340, "test runs of each group; most have the left-out value of a dimension")
	f.Uint64Var(&l.plan.First, "first", 10_000_000, "seed of the first run")
	f.Float64Var(&l.plan.Spread, "spread", defaultSpread, "distance from today's weight that costs half a nat, in decibans")
	table := f.Bool("table", false, "print the tables of the results so far, and play nothing")
	if err := f.Parse(args); err != nil {
		return err
	}
	if l.dir == "" {
		return errors.New("leave: name a folder for the results with -dir")
	}
	if !*table {
		if err := l.play(ctx); err != nil {
			return err
		}
	}
	return l.print()
}

// play plays and fits all that is missing.
func (l *leaveOut) play(ctx context.Context) error {
	k, err := learn("")
	if err != nil {
		return err
	}
	l.plan.Edition, l.plan.Drawn = k.edition, fmt.Sprint(dimensions)
	if err := l.settle(); err != nil {
		return err
	}
	trained := make([][]result, len(groups()))
	for g, left := range groups() {
		if trained[g], err = l.phase(ctx, k, fmt.Sprintf("train-%d", g), l.seed(g), l.plan.Train, left, 0); err != nil {
			return err
		}
	}
	var cases *guardian // its first sweep takes minutes
	for g, left := range groups() {
		weights := filepath.Join(l.dir, fmt.Sprintf("weights-%d.json", g))
		if _, err := os.Stat(weights); err != nil {
			began := cpuTime()
			if cases == nil && l.cases != "" {
				if cases, err = guard(l.cases); err != nil {
					return err
				}
			}
			got, err := k.fit(trained[g], cases, l.plan.Spread)
			if err != nil {
				return err
			}
			if err := l.spend(cpuTime() - began); err != nil {
				return err
			}
			fmt.Fprintf(l.out, "group %d: log loss of the training runs %.3f today, %.3f fitted\n", g, got.Before, got.After)
			if err := writeWeights(weights, got.Weights); err != nil {
				return err
			}
		}
		fitted, err := learn(weights)
		if err != nil {
			return err
		}
		if _, err := l.phase(ctx, fitted, fmt.Sprintf("test-%d", g), l.seed(g)+testSeeds, l.plan.Test, left, leftShare); err != nil {
			return err
		}
	}
	return nil
}

// seed returns the first seed of a group's training runs.
func (l *leaveOut) seed(group int) uint64 { return l.plan.First + uint64(group)*groupSeeds }

// settle writes the plan of a new folder, or compares that of an old one.
func (l *leaveOut) settle() error {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return fmt.Errorf("making the folder: %w", err)
	}
	now, err := json.Marshal(l.plan)
	if err != nil {
		return fmt.Errorf("encoding the plan: %w", err)
	}
	file := filepath.Join(l.dir, "plan.json")
	before, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return os.WriteFile(file, now, 0o644)
	}
	if err == nil && !bytes.Equal(before, now) {
		return fmt.Errorf("%s was begun with another plan: take a new folder, or the same options\n%s\n%s", l.dir, before, now)
	}
	return err
}

// phase plays the runs of a file that it does not hold yet, and returns all of them.
func (l *leaveOut) phase(ctx context.Context, k *knowledge, name string, first uint64, runs int, left convention, share float64,
) ([]result, error) {
	file := filepath.Join(l.dir, name+".jsonl")
	if err := mend(file); err != nil {
		return nil, err
	}
	have, err := results(file)
	if err != nil {
		return nil, err
	}
	played := map[uint64]bool{}
	for _, r := range have {
		played[r.Seed] = true
	}
	names := slices.Concat(lab.Faults(), lab.Decoys())
	var tasks []task
	for i := range runs {
		if seed := first + uint64(i); !played[seed] {
			tasks = append(tasks, task{names[i%len(names)], seed, left.drawAround(seed, share)})
		}
	}
	if len(tasks) == 0 {
		return have, nil
	}
	began := cpuTime()
	more, err := k.playAll(ctx, tasks, func(r result) error { return keep(file, r) })
	spent := cpuTime() - began
	fmt.Fprintf(l.out, "%s: %d runs in %s of CPU time\n", name, len(more), spent.Round(time.Second))
	return append(have, more...), errors.Join(err, l.spend(spent))
}

// results returns the results of a file, or none if there is no file.
func results(file string) ([]result, error) {
	if _, err := os.Stat(file); errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	return readResults(file)
}

// mend drops the last line of a file if it was not written to its end.
func mend(file string) error {
	raw, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("reading results: %w", err)
	}
	if whole := bytes.LastIndexByte(raw, '\n') + 1; whole < len(raw) {
		err = os.Truncate(file, int64(whole))
	}
	return err
}

// spend adds CPU time to that of the folder.
func (l *leaveOut) spend(d time.Duration) error {
	file := filepath.Join(l.dir, "cpu-seconds")
	if err := os.WriteFile(file, []byte(strconv.FormatFloat((l.spent()+d).Seconds(), 'f', 1, 64)), 0o644); err != nil {
		return fmt.Errorf("keeping the CPU time: %w", err)
	}
	return nil
}

// spent returns the CPU time of all runs of the folder.
func (l *leaveOut) spent() time.Duration {
	raw, err := os.ReadFile(filepath.Join(l.dir, "cpu-seconds"))
	if err != nil {
		return 0
	}
	s, _ := strconv.ParseFloat(string(raw), 64)
	return time.Duration(s * float64(time.Second))
}

// cpuTime returns the CPU time of this process.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
