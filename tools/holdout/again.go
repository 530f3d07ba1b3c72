package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"

	"paramedic/rules/diagnose"
	"paramedic/state"
)

// againCommand gives the verdicts of kept results again, with today's catalogue. It takes
// milliseconds a run. Playing it again would take seconds, but also show what a new verdict changes
// in the run.
func againCommand(_ context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("holdout again", flag.ContinueOnError)
	runs := f.String("runs", "", "comma-separated files of results")
	weights := f.String("weights", "", "use the weights of this file, as fit writes it")
	missed := f.Bool("missed", false, "print every run that is not right, too")
	seed := f.Uint64("seed", 0, "print the incident of this run with its evidence, and nothing else")
	if err := f.Parse(args); err != nil {
		return err
	}
	k, err := learn(*weights)
	if err != nil {
		return err
	}
	all, err := readAll(*runs)
	if err != nil {
		return err
	}
	if *seed != 0 {
		return k.show(out, all, *seed)
	}
	for i, was := range all {
		now, err := k.again(was)
		if err != nil {
			return err
		}
		if now.Outcome != was.Outcome {
			fmt.Fprintf(out, "seed %d: %s was called %s, and is called %s\n", now.Seed, now.truth(), was.Outcome, now.Outcome)
		}
		if *missed && now.Outcome != "right" && now.Outcome != "silent" {
			fmt.Fprintf(out, "seed %d: %s %s is called %s, likely %q, with a witness: %t\n  %s\n",
				now.Seed, now.truth(), now.Told, now.Outcome, now.Likely, now.hasWitness(), now.Convention)
		}
		all[i] = now
	}
	printTables(out, all)
	return nil
}

// again returns a result with the verdict that today's catalogue gives. A run with several
// incidents or none keeps its result.
func (k *knowledge) again(r result) (result, error) {
	if r.Moment == nil || r.Incidents > 1 {
		return r, nil
	}
	in, _, err := k.diagnose(r)
	if err != nil {
		return r, err
	}
	r.Verdicts, r.Wrong, r.Likely, r.Outcome = nil, nil, "", "silent"
	if r.Decoy {
		r.Outcome = "right"
	}
	r.count(in.Diagnosis, true)
	return r, nil
}

// show prints the incident of a run with today's verdict and its evidence.
func (k *knowledge) show(out io.Writer, all []result, seed uint64) error {
	i := slices.IndexFunc(all, func(r result) bool { return r.Seed == seed })
	if i < 0 || all[i].Moment == nil {
		return fmt.Errorf("no run with the seed %d has a verdict with its evidence", seed)
	}
	in, ev, err := k.diagnose(all[i])
	if err != nil {
		return err
	}
	var b strings.Builder
	describe(&b, in)
	if ev != nil {
		tabulate(&b, ev)
	}
	explain(&b, k.catalog, in, ev, all[i].truth())
	_, err = io.WriteString(out, b.String())
	return err
}

// diagnose returns the kept incident of a run with today's verdict, and its evidence.
func (k *knowledge) diagnose(r result) (*state.Incident, *state.Evidence, error) {
	in, m, err := unpack(r.Moment)
	if err != nil {
		return nil, nil, fmt.Errorf("seed %d: %w", r.Seed, err)
	}
	in.Diagnosis = diagnose.Diagnose(k.catalog, in, m.Evidence, m.At)
	return in, m.Evidence, nil
}
