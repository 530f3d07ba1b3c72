package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"paramedic/lab"
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
	f := flag.NewFlagSet("holdout", flag.ContinueOnError)
	runs := f.Int("runs", 27, "number of runs; they take the faults and decoys in turn")
	first := f.Uint64("first", 1, "seed of the first run")
	faults := f.String("faults", "", "comma-separated faults or decoys; empty: all")
	set := f.String("set", "", "values that are not drawn, such as source=promql,gpu=none")
	file := f.String("out", "", "append each result to this file, as JSON lines")
	table := f.String("table", "", "print the tables of this file, and play nothing")
	verbose := f.Bool("v", false, "print every incident of runs that are not right")
	if err := f.Parse(args); err != nil {
		return err
	}
	if *table != "" {
		return printFile(out, *table)
	}
	names := slices.Concat(lab.Faults(), lab.Decoys())
	if *faults != "" {
		names = strings.Split(*faults, ",")
	}
	results, err := playAll(ctx, names, *runs, *first, *set, func(r result) error {
		if *verbose && r.Outcome != "right" {
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

// playAll plays runs on all cores, and passes each result on.
func playAll(ctx context.Context, names []string, runs int, first uint64, set string, each func(result) error) ([]result, error) {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(runtime.NumCPU())
	done := make(chan result)
	var err error
	go func() {
		for i := range runs {
			g.Go(func() error {
				seed := first + uint64(i)
				c := draw(seed)
				if err := c.fix(set); err != nil {
					return err
				}
				r, err := play(ctx, names[i%len(names)], seed, c)
				if err != nil {
					return fmt.Errorf("seed %d: %w", seed, err)
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

func keep(file string, r result) error {
	if file == "" {
		return nil
	}
	w, err := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return fmt.Errorf("keeping a result: %w", err)
	}
	return errors.Join(json.NewEncoder(w).Encode(r), w.Close())
}

func printFile(out io.Writer, file string) error {
	in, err := os.Open(file)
	if err != nil {
		return fmt.Errorf("reading results: %w", err)
	}
	defer in.Close()
	var all []result
	lines := bufio.NewScanner(in)
	for lines.Scan() {
		var r result
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		all = append(all, r)
	}
	printTables(out, all)
	return lines.Err()
}
