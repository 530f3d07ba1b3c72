package main

import (
	"fmt"
	"maps"
	"path/filepath"
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sync/errgroup"

	"paramedic/rules/casetest"
	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

// A guardian keeps the verdicts of the written cases while weights move. Their values are people's,
// so they hold what no run shows. A case with a part of its evidence missing may become unknown,
// but it must not get another cause than today.
type guardian struct {
	dir     string           // of the written cases
	catalog *catalog.Catalog // with the weights of the last trial
	today   map[string]float64
	cases   []check
	checks  []check // the cases and those of parts; those that broke a trial come first
	named   []diagnosed
}

// A check reports whether a case, or one with a part missing, holds with the catalogue's weights.
type check func() (bool, error)

// A diagnosed is an incident of a case with a named cause.
type diagnosed struct {
	in     *state.Incident
	ev     *state.Evidence
	called map[string]state.Cause // today's other causes by the missing part
}

// guard returns a guardian of the cases in a folder that hold with today's weights.
func guard(dir string) (*guardian, error) {
	k, err := learn("")
	if err != nil {
		return nil, err
	}
	all, err := casetest.RunCases(k.catalog, dir)
	if err != nil {
		return nil, fmt.Errorf("cases: %w", err)
	}
	g := &guardian{dir: dir, catalog: k.catalog, today: weightsOf(k.catalog)}
	for _, c := range all {
		if !c.OK() {
			continue
		}
		g.cases = append(g.cases, g.holds(c.File))
		for _, in := range c.Incidents {
			if in.Cause() != state.Unknown {
				g.named = append(g.named, diagnosed{in: in, ev: &c.Evidence, called: map[string]state.Cause{}})
			}
		}
	}
	var found sync.Mutex
	return g, g.sweep(func(d diagnosed, part string, _ *state.Evidence, now state.Cause) {
		found.Lock()
		defer found.Unlock()
		d.called[part] = now
	})
}

// holds returns the check of a case.
func (g *guardian) holds(file string) check {
	return func() (bool, error) {
		got, err := casetest.RunCasesWith(g.catalog, file, nil)
		if err != nil {
			return false, fmt.Errorf("%s: %w", filepath.Base(file), err)
		}
		return got[0].OK(), nil
	}
}

// sweep calls wrong for each case that gets another cause if a part of its evidence is missing, and
// did not get that cause with today's weights. Calls are concurrent.
func (g *guardian) sweep(wrong func(d diagnosed, part string, ev *state.Evidence, now state.Cause)) error {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, d := range g.named {
		group.Go(func() error {
			for part, ev := range casetest.Lacking(g.catalog, d.in, d.ev, true) {
				if now := diagnose.Name(g.catalog, d.in, ev); !d.allows(part, now) {
					wrong(d, part, ev, now)
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// allows reports whether the cause is right, unknown, or today's.
func (d diagnosed) allows(part string, now state.Cause) bool {
	return now == d.in.Cause() || now == state.Unknown || now == d.called[part]
}

// adopt returns today's weights with the moves to the fitted ones that leave every case as it is.
// Cases with a part missing are only checked if they broke an earlier round, because they are many.
func (g *guardian) adopt(fitted map[string]float64) (map[string]float64, error) {
	g.checks = slices.Clone(g.cases)
	var moves []string
	for _, term := range slices.Sorted(maps.Keys(fitted)) {
		if fitted[term] != g.today[term] {
			moves = append(moves, term)
		}
	}
	for {
		kept := maps.Clone(g.today)
		if err := g.try(kept, fitted, moves); err != nil {
			return nil, err
		}
		if err := reweigh(g.catalog, kept); err != nil {
			return nil, err
		}
		broken, err := g.broken()
		if err != nil || len(broken) == 0 {
			return kept, err
		}
		g.checks = slices.Concat(broken, g.checks)
	}
}

// broken returns a check for each part whose absence gives a case a new cause.
func (g *guardian) broken() ([]check, error) {
	var found sync.Mutex
	var out []check
	err := g.sweep(func(d diagnosed, part string, ev *state.Evidence, _ state.Cause) {
		found.Lock()
		defer found.Unlock()
		out = append(out, func() (bool, error) {
			return d.allows(part, diagnose.Name(g.catalog, d.in, ev)), nil
		})
	})
	return out, err
}

// try adds moves to the kept weights: all of them, or those halves of them that break no check.
func (g *guardian) try(kept, fitted map[string]float64, moves []string) error {
	if len(moves) == 0 {
		return nil
	}
	trial := maps.Clone(kept)
	for _, term := range moves {
		trial[term] = fitted[term]
	}
	ok, err := g.passes(trial)
	switch half := len(moves) / 2; {
	case err != nil:
		return err
	case ok:
		maps.Copy(kept, trial)
		return nil
	case half == 0:
		return nil
	default:
		if err := g.try(kept, fitted, moves[:half]); err != nil {
			return err
		}
		return g.try(kept, fitted, moves[half:])
	}
}

// passes reports whether all checks pass with these weights.
func (g *guardian) passes(weights map[string]float64) (bool, error) {
	if err := reweigh(g.catalog, weights); err != nil {
		return false, err
	}
	for i, c := range g.checks {
		if ok, err := c(); err != nil || !ok {
			copy(g.checks[1:i+1], g.checks[:i])
			g.checks[0] = c
			return false, err
		}
	}
	return true, nil
}
