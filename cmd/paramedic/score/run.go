package score

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/rules/enrich/engine"
)

// HealthyShown is the healthy time before the fault in the demo, of the scenario's five minutes.
const HealthyShown = 100 * time.Second

// Targets returns the fleet's current pages. A rollout brings new workers.
func Targets(fleet *lab.Fleet, base string) []engine.Target {
	var out []engine.Target
	for _, t := range fleet.Targets() {
		out = append(out, engine.Target{URL: base + t.Path, Labels: t.Labels})
	}
	return out
}

// A Selection names the trials to play: faults, decoys and double faults on several seeds.
type Selection struct {
	Seeds   int
	First   uint64
	Faults  []string
	Decoys  bool
	Doubles bool
	Matrix  string
	Options Options
}

// A trialID identifies one trial.
type trialID struct {
	kind, name string
	seed       uint64
}

// Trials returns the selected trials, each once.
func (s Selection) Trials() []trialID {
	names := map[string][]string{}
	for _, name := range s.Faults {
		kind := kindFault
		switch {
		case strings.Contains(name, "+"):
			kind = kindDouble
		case slices.Contains(lab.Decoys(), name):
			kind = kindDecoy
		}
		names[kind] = append(names[kind], name)
	}
	if s.Decoys {
		names[kindDecoy] = append(names[kindDecoy], lab.Decoys()...)
	}
	if s.Doubles {
		for _, d := range drill.Doubles() {
			names[kindDouble] = append(names[kindDouble], d.Name())
		}
	}
	var out []trialID
	for _, kind := range []string{kindFault, kindDecoy, kindDouble} {
		played := map[string]bool{}
		for _, name := range names[kind] {
			if played[name] { // named twice it is played once: the same seed tells nothing new
				continue
			}
			played[name] = true
			for i := range s.Seeds {
				out = append(out, trialID{kind, name, s.First + uint64(i)})
			}
		}
	}
	return out
}

// Play plays every trial, in parallel on all processors, and calls done after each. The results are
// in the order of the trials.
func (s Selection) Play(ctx context.Context, done func()) ([]TrialResult, error) {
	// Trials create and drop thousands of pages, and keep little. A larger heap saves a fifth of
	// the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	keys := s.Trials()
	out := make([]TrialResult, len(keys))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i, k := range keys {
		group.Go(func() error {
			t, err := newTrialOf(k.kind, k.name, k.seed, s.Options)
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
