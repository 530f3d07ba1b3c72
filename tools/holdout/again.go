package main

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"io"
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
	var all []result
	for _, file := range strings.Split(*runs, ",") {
		some, err := readResults(file)
		if err != nil {
			return err
		}
		for _, was := range some {
			if *seed != 0 && was.Seed != *seed {
				continue
			}
			now, shown, err := k.again(was)
			if err != nil {
				return fmt.Errorf("%s: seed %d: %w", file, was.Seed, err)
			}
			if *seed != 0 {
				fmt.Fprint(out, shown())
				return nil
			}
			if now.Outcome != was.Outcome {
				fmt.Fprintf(out, "seed %d: %s was called %s, and is called %s\n", now.Seed, now.truth(), was.Outcome, now.Outcome)
			}
			if *missed && now.Outcome != "right" && now.Outcome != "silent" {
				fmt.Fprintf(out, "seed %d: %s %s is called %s, likely %q, with a witness: %t\n  %s\n",
					now.Seed, now.truth(), now.Told, now.Outcome, now.Likely, now.hasWitness(), now.Convention)
			}
			all = append(all, now)
		}
	}
	printTables(out, all)
	return nil
}

// again returns a result with the verdict that today's catalogue gives, and a function that
// describes it. A run with several incidents or none keeps its result.
func (k *knowledge) again(r result) (result, func() string, error) {
	if r.Moment == nil {
		return r, func() string { return "no verdict\n" }, nil
	}
	in, m, err := unpack(r.Moment)
	if err != nil {
		return r, nil, err
	}
	in.Diagnosis = diagnose.Diagnose(k.catalog, in, m.Evidence, m.At)
	describe := func() string {
		var b strings.Builder
		describe(&b, in)
		if m.Evidence != nil {
			tabulate(&b, m.Evidence)
		}
		explain(&b, k.catalog, in, m.Evidence, r.truth())
		return b.String()
	}
	if r.Incidents > 1 {
		return r, describe, nil
	}
	r.Verdicts, r.Wrong, r.Likely, r.Outcome = nil, nil, "", "silent"
	if r.Decoy {
		r.Outcome = "right"
	}
	r.count(in.Diagnosis, true)
	return r, describe, nil
}

// count counts the final verdict of one incident, which is about the faulty fleet or another.
func (r *result) count(d state.Diagnosis, about bool) {
	cause := string(cmp.Or(d.Cause, state.Unknown))
	right := cause == r.truth() && about
	switch {
	case cause == string(state.Unknown):
		if r.Outcome == "silent" {
			r.Outcome, r.Confidence = "unknown", d.Confidence
		}
		if d.Likely != nil && r.Likely == "" {
			r.Likely = string(d.Likely.Cause)
		}
		return
	case right:
		if len(r.Wrong) == 0 {
			r.Outcome, r.Confidence = "right", d.Confidence
		}
	case d.Cause == state.BenignAlert && (r.Decoy || !about):
		right = true
	default:
		r.Wrong = append(r.Wrong, cause)
		r.Outcome, r.Confidence = cause, d.Confidence
	}
	r.Verdicts = append(r.Verdicts, named{cause, d.Confidence, right})
}
