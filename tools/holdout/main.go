package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"paramedic/lab"
	"paramedic/lab/story"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := command(ctx, os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "holdout:", err)
		os.Exit(1)
	}
}

func command(ctx context.Context, args []string, out io.Writer) error {
	// Runs create and drop thousands of pages, and keep little.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	if len(args) > 0 {
		switch args[0] {
		case "again":
			return againCommand(ctx, args[1:], out)
		case "fit":
			return fitCommand(ctx, args[1:], out)
		case "leave":
			return leaveCommand(ctx, args[1:], out)
		case "write":
			return writeCommand(ctx, args[1:], out)
		}
	}
	return playCommand(ctx, args, out)
}

func playCommand(ctx context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("holdout", flag.ContinueOnError)
	runs := f.Int("runs", 27, "number of runs; they take the faults and decoys in turn")
	first := f.Uint64("first", 1, "seed of the first run")
	faults := f.String("faults", "", "comma-separated faults, FAULT/STORY or decoys; empty: all")
	stories := f.Bool("stories", false, "play the stories of the faults in turn, and not those of the seeds")
	set := f.String("set", "", "values that are not drawn, such as source=promql,gpu=none")
	weights := f.String("weights", "", "play with the weights of this file, as fit writes it")
	file := f.String("out", "", "append each result to this file, as JSON lines")
	table := f.String("table", "", "print the tables of this file, and play nothing")
	verbose := f.Bool("v", false, "print every incident of runs that are not right, or have several")
	evidence := f.Bool("evidence", false, "with -v: print every incident, with its evidence")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *table != "" {
		all, err := readResults(*table)
		if err != nil {
			return err
		}
		printTables(out, all)
		return nil
	}
	names := slices.Concat(lab.Faults(), lab.Decoys())
	if *faults != "" {
		names = strings.Split(*faults, ",")
	}
	if *stories {
		names = story.Expand(names)
	}
	k, err := learn(*weights)
	if err != nil {
		return err
	}
	k.evidence = *evidence
	tasks := make([]task, *runs)
	for i := range tasks {
		seed := *first + uint64(i)
		tasks[i] = task{names[i%len(names)], seed, draw(seed)}
		if err := tasks[i].convention.fix(*set); err != nil {
			return err
		}
	}
	results, err := k.playAll(ctx, tasks, func(r result) error {
		if *verbose && (*evidence || r.Outcome != "right" || r.Incidents > 1) {
			fmt.Fprintf(out, "%s seed %d: %s\n  %s\n%s", r.Fault, r.Seed, r.Outcome, r.Convention, r.trace)
		}
		return keep(*file, r)
	})
	if err != nil {
		return err
	}
	printTables(out, results)
	return nil
}

// A task is a run to play.
type task struct {
	fault      string
	seed       uint64
	convention convention
}

// playAll plays runs on all cores, and passes each result on. The results are in the order of their
// seeds.
func (k *knowledge) playAll(ctx context.Context, tasks []task, each func(result) error) ([]result, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.GOMAXPROCS(0))
	done := make(chan result)
	var err error
	go func() {
		for _, t := range tasks {
			g.Go(func() error {
				r, err := k.play(ctx, t)
				if err != nil {
					return fmt.Errorf("seed %d: %w", t.seed, err)
				}
				select {
				case done <- r:
					return nil
				case <-ctx.Done():
					return ctx.Err()
				}
			})
		}
		err = g.Wait()
		close(done)
	}()
	var all []result
	var failed error
	for r := range done {
		all = append(all, r)
		failed = errors.Join(failed, each(r))
	}
	slices.SortFunc(all, func(a, b result) int { return int(int64(a.Seed) - int64(b.Seed)) })
	return all, errors.Join(err, failed)
}
