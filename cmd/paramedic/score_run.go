package main

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"paramedic/lab"
	"paramedic/rules/enrich/engine"
)

// The demo shows healthy traffic for this long before the fault, of the five minutes that a
// scenario begins with.
const healthyShown = 100 * time.Second

// demoTargets are the fleet's pages as they are now: a rollout brings new workers.
func demoTargets(fleet *lab.Fleet, base string) []engine.Target {
	var out []engine.Target
	for _, t := range fleet.Targets() {
		out = append(out, engine.Target{URL: base + t.Path, Labels: t.Labels})
	}
	return out
}

// A scoring says which of the lab's days are played.
type scoring struct {
	seeds   int
	first   uint64
	faults  []string
	decoys  bool
	doubles bool
	matrix  string
	options labOptions
}

// A trialKey is one trial to play.
type trialKey struct {
	kind, name string
	seed       uint64
}

func (s scoring) trials() []trialKey {
	names := map[string][]string{}
	for _, name := range s.faults {
		kind := kindFault
		switch {
		case strings.Contains(name, "+"):
			kind = kindDouble
		case slices.Contains(lab.Decoys(), name):
			kind = kindDecoy
		}
		names[kind] = append(names[kind], name)
	}
	if s.decoys {
		names[kindDecoy] = append(names[kindDecoy], lab.Decoys()...)
	}
	if s.doubles {
		for _, d := range lab.Doubles() {
			names[kindDouble] = append(names[kindDouble], d.Name())
		}
	}
	var out []trialKey
	for _, kind := range []string{kindFault, kindDecoy, kindDouble} {
		played := map[string]bool{}
		for _, name := range names[kind] {
			if played[name] { // named twice it is played once: the same seed tells nothing new
				continue
			}
			played[name] = true
			for i := range s.seeds {
				out = append(out, trialKey{kind, name, s.first + uint64(i)})
			}
		}
	}
	return out
}

// run plays every trial, as many at a time as there are processors, and calls done after each. The
// results are in the order of the trials.
func (s scoring) run(ctx context.Context, done func()) ([]played, error) {
	// Pages are made, parsed and dropped by the thousand, and little of it lives on: collecting it
	// less often saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	keys := s.trials()
	out := make([]played, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, k := range keys {
		group.Go(func() error {
			t, err := newTrialOf(k.kind, k.name, k.seed, s.options)
			if err != nil {
				return err
			}
			if out[i], err = t.play(ctx); err != nil {
				return err
			}
			done()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
