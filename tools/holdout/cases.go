package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"paramedic/rules/casetest"
	"paramedic/state"
	"paramedic/tools/holdout/fit"
)

// casesOf returns the incidents of results that have a verdict, for a fit of these weights.
func casesOf(results []result, k *knowledge) ([]fit.Case, error) {
	today := weightsOf(k.catalog)
	var out []fit.Case
	for _, r := range results {
		if r.Moment == nil || !r.hasWitness() { // no alert fired, or no evidence tells the cause
			continue
		}
		in, m, err := unpack(r.Moment)
		if err != nil {
			return nil, fmt.Errorf("seed %d: %w", r.Seed, err)
		}
		out = append(out, k.caseOf(r.truth(), in, m.Evidence, today))
	}
	if len(out) == 0 && len(results) > 0 {
		return nil, errors.New("no run has a verdict with its evidence: play the runs again")
	}
	return out, nil
}

// caseOf returns the sums of an incident, with the true cause.
func (k *knowledge) caseOf(truth string, in *state.Incident, ev *state.Evidence, today map[string]float64) fit.Case {
	sums, shared := sumsOf(k.catalog, in, ev)
	return fit.Case{Truth: truth, Causes: causesOf(sums, shared, today)}
}

// causesOf returns the causes of a case. Shared weights are fixed.
func causesOf(sums []sum, shared, today map[string]float64) []fit.Cause {
	var out []fit.Cause
	for _, s := range sums {
		cause := fit.Cause{ID: s.cause, Terms: []fit.Term{{ID: s.cause + "/prior", Count: 1}}}
		for _, id := range slices.Sorted(maps.Keys(s.terms)) {
			if w, shared := shared[id]; shared {
				cause.Fixed += w * float64(s.terms[id])
				continue
			}
			term := s.cause + "/" + id
			cause.Terms = append(cause.Terms, fit.Term{ID: term, Count: s.terms[id]})
			cause.Supported = cause.Supported || today[term] > 0 && !strings.HasPrefix(id, "symptom:")
		}
		out = append(out, cause)
	}
	return out
}

// writtenCases is the folder of the written cases, from this one.
const writtenCases = "../../rules/casetest/testdata/cases"

// written returns the written cases of a folder that expect one verdict. Their values are people's,
// so they hold what no run shows.
func (k *knowledge) written(dir string) ([]fit.Case, error) {
	all, err := casetest.RunCases(k.catalog, dir)
	if err != nil {
		return nil, fmt.Errorf("cases: %w", err)
	}
	today := weightsOf(k.catalog)
	var out []fit.Case
	for _, c := range all {
		if len(c.Want) == 1 && len(c.Incidents) == 1 {
			out = append(out, k.caseOf(c.Want[0], c.Incidents[0], &c.Evidence, today))
		}
	}
	return out, nil
}

// fitCommand fits the weights to kept results.
func fitCommand(_ context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("holdout fit", flag.ContinueOnError)
	runs := f.String("runs", "", "comma-separated files of results")
	written := f.String("cases", writtenCases, "folder of written cases, which count like runs and keep their verdicts; empty: none")
	to := f.String("weights", "", "write the fitted weights to this file")
	spread := f.Float64("spread", defaultSpread, "distance from today's weight that costs half a nat, in decibans")
	if err := f.Parse(args); err != nil {
		return err
	}
	k, err := learn("")
	if err != nil {
		return err
	}
	all, err := readAll(*runs)
	if err != nil {
		return err
	}
	var g *guardian
	if *written != "" {
		if g, err = guard(*written); err != nil {
			return err
		}
	}
	got, err := k.fit(all, g, *spread)
	if err != nil {
		return err
	}
	printFit(out, weightsOf(k.catalog), got)
	if *to == "" {
		return nil
	}
	return writeWeights(*to, got.Weights)
}

// defaultSpread is the penalty of a fit: a weight that moves by so many decibans costs half a nat.
const defaultSpread = 3

// fit fits the weights to results and to a guardian's written cases, and leaves out the moves that
// change a written case. A nil guardian means no written cases.
func (k *knowledge) fit(results []result, g *guardian, spread float64) (fit.Result, error) {
	cases, err := casesOf(results, k)
	if err != nil {
		return fit.Result{}, err
	}
	if g != nil {
		more, err := k.written(g.dir)
		if err != nil {
			return fit.Result{}, err
		}
		cases = append(cases, more...)
	}
	got, err := fit.Fit(weightsOf(k.catalog), cases, fit.Options{Spread: spread})
	if err != nil {
		return fit.Result{}, fmt.Errorf("%d runs with a verdict: %w", len(cases), err)
	}
	if g == nil {
		return got, nil
	}
	if got.Weights, err = g.adopt(got.Weights); err != nil {
		return fit.Result{}, err
	}
	got.After, err = fit.Loss(got.Weights, cases)
	return got, err
}

// printFit prints every term with its weights, the loss, and how far the weights moved.
func printFit(out io.Writer, today map[string]float64, got fit.Result) {
	fmt.Fprintf(out, "%-52s %6s  %6s  %6s\n", "term", "today", "fitted", "runs")
	moved, seen, far := 0, 0, 0.0
	for _, term := range slices.Sorted(maps.Keys(today)) {
		fmt.Fprintf(out, "%-52s %+6g  %+6g  %6d\n", term, today[term], got.Weights[term], got.Runs[term])
		d := math.Abs(got.Weights[term] - today[term])
		far = max(far, d)
		if d > 0 {
			moved++
		}
		if got.Runs[term] > 0 {
			seen++
		}
	}
	fmt.Fprintf(out, "\n%d terms, %d added in a run, %d moved, at most by %g dB\n", len(today), seen, moved, far)
	fmt.Fprintf(out, "log loss of a run with an alert: %.3f today, %.3f fitted (nats)\n", got.Before, got.After)
}

func writeWeights(file string, weights map[string]float64) error {
	raw, err := json.MarshalIndent(weights, "", " ")
	if err != nil {
		return fmt.Errorf("encoding weights: %w", err)
	}
	if err := os.WriteFile(file, append(raw, '\n'), 0o644); err != nil {
		return fmt.Errorf("writing weights: %w", err)
	}
	return nil
}

// writeCommand writes weights into the catalogue's files.
func writeCommand(_ context.Context, args []string, out io.Writer) error {
	f := flag.NewFlagSet("holdout write", flag.ContinueOnError)
	from := f.String("weights", "", "file of weights, as fit writes it")
	dir := f.String("catalog", "../../rules/catalog", "folder of the catalogue")
	if err := f.Parse(args); err != nil {
		return err
	}
	weights, err := readWeights(*from)
	if err != nil {
		return err
	}
	changed, err := writeCatalog(*dir, weights)
	for _, name := range changed {
		fmt.Fprintln(out, name)
	}
	return err
}

// writeCatalog writes weights into the files of a catalogue, and returns those that it changed. It
// changes none if a term is in no file.
func writeCatalog(dir string, weights map[string]float64) ([]string, error) {
	names, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil {
		return nil, fmt.Errorf("listing the catalogue: %w", err)
	}
	after, left := map[string][]byte{}, maps.Clone(weights)
	for _, name := range names {
		src, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the catalogue: %w", err)
		}
		dst, found, err := fit.Rewrite(src, weights)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		for _, term := range found {
			delete(left, term)
		}
		if string(dst) != string(src) {
			after[name] = dst
		}
	}
	if len(left) > 0 {
		return nil, fmt.Errorf("%s has no %s", dir, strings.Join(slices.Sorted(maps.Keys(left)), ", "))
	}
	changed := slices.Sorted(maps.Keys(after))
	var failed error
	for _, name := range changed {
		failed = errors.Join(failed, os.WriteFile(name, after[name], 0o644))
	}
	return changed, failed
}
