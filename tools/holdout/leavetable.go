package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"paramedic/tools/holdout/fit"
)

// print prints the test runs of all groups. A run counts for each left-out value that it has.
func (l *leaveOut) print() error {
	k, err := learn("")
	if err != nil {
		return err
	}
	var all []result
	values := tallies{}
	for g, left := range groups() {
		some, err := results(filepath.Join(l.dir, fmt.Sprintf("test-%d.jsonl", g)))
		if err != nil {
			return err
		}
		all = append(all, some...)
		for _, r := range some {
			if r.Decoy || !r.hasWitness() {
				continue
			}
			for _, d := range dimensions {
				if r.Convention[d.name] == left[d.name] {
					values.add(d.name+"="+left[d.name], r)
				}
			}
		}
		if err := l.printLoss(k, g, some); err != nil {
			return err
		}
	}
	printWhole(l.out, all)
	heading(l.out, "left out")
	values.printInOrder(l.out)
	printReliability(l.out, all)
	fmt.Fprintf(l.out, "CPU time of the runs: %s\n", l.spent().Round(time.Second))
	return nil
}

// printLoss prints the loss of a group's test runs with today's weights and with its own.
func (l *leaveOut) printLoss(k *knowledge, g int, tests []result) error {
	fitted, err := readWeights(filepath.Join(l.dir, fmt.Sprintf("weights-%d.json", g)))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cases, err := casesOf(tests, k)
	if err != nil || len(cases) == 0 {
		return err
	}
	before, err := fit.Loss(weightsOf(k.catalog), cases)
	if err != nil {
		return fmt.Errorf("group %d: %w", g, err)
	}
	after, err := fit.Loss(fitted, cases)
	if err != nil {
		return fmt.Errorf("group %d: %w", g, err)
	}
	fmt.Fprintf(l.out, "group %d: log loss of %d unseen incidents %.3f with today's weights, %.3f fitted\n", g, len(cases), before, after)
	return nil
}
