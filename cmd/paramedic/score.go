package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"paramedic/lab"
)

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

func (c *cli) labScoreCommand() *cobra.Command {
	s := scoring{}
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Play faults, decoys and double faults on many seeds and count how often the diagnosis is right",
		Long: "Play the lab's faults on simulated time: real webhook payloads, evidence scraped off the simulated fleet's pages, the rules as they\n" +
			"are built in. A run is right where the fault's incident ends with the fault's name and no incident is left with another's; misled\n" +
			"where another name was told on the way; silent where the pool bore the fault and no alert fired. Decoys are right where nothing is\n" +
			"named but benign_alert; double faults where both are named. Alertmanager alone, as it is commonly configured, hears the same alerts.\n" +
			"Without --faults, --decoys and --doubles all three are played. Nothing is listened on, sent or kept.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := trimmed(s.faults); err != nil {
				return fmt.Errorf("--faults: %w", err)
			}
			if !cmd.Flags().Changed("faults") && !s.decoys && !s.doubles {
				s.faults, s.decoys, s.doubles = lab.Faults(), true, true
			}
			if slices.Equal(s.faults, []string{"all"}) {
				s.faults = lab.Faults()
			}
			return c.score(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.seeds, "seeds", 3, "how many seeds")
	f.Uint64Var(&s.first, "first", 1, "the first seed")
	f.StringSliceVar(&s.faults, "faults", nil, "which faults, FAULT+FAULT for a pair (with @one: in one pool), or a decoy; all: every single fault")
	f.BoolVar(&s.decoys, "decoys", false, "play the decoys")
	f.BoolVar(&s.doubles, "doubles", false, "play the double faults")
	f.StringVar(&s.matrix, "matrix", "", "write the confusion matrix to this file, as SVG")
	s.options.flags(f)
	return cmd
}

// trimmed takes away the blanks in names: people write one behind a comma, and around a plus.
func trimmed(names []string) error {
	for i, name := range names {
		if names[i] = strings.Join(strings.Fields(name), ""); names[i] == "" {
			return errors.New("a name is empty: leave out the comma before or behind it")
		}
	}
	return nil
}

func (c *cli) score(ctx context.Context, s scoring) error {
	if s.seeds < 1 {
		return errors.New("--seeds must be at least 1")
	}
	if err := s.options.load(); err != nil {
		return err
	}
	if len(s.trials()) == 0 {
		return errors.New("nothing is to be played: name --faults (all is every single fault), or ask for --decoys or --doubles")
	}
	if s.matrix != "" { // what was played for an hour is not lost to a path that cannot be written
		f, err := os.OpenFile(s.matrix, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--matrix: %w", err)
		}
		f.Close()
	}
	trials, err := s.run(ctx, c.scoreProgress(len(s.trials())))
	if err != nil {
		return err
	}
	if c.verbose {
		for _, p := range trials {
			fmt.Fprintf(c.err, "%s seed %d: %s\n%s", p.Fault, p.Seed, p.Outcome, p.trace)
		}
	}
	b := sumScores(trials)
	b.First, b.Seeds = s.first, s.seeds
	if s.matrix != "" {
		if err := os.WriteFile(s.matrix, matrixOf(trials).svg(), 0o644); err != nil {
			return fmt.Errorf("writing the matrix: %w", err)
		}
	}
	if c.output == "json" {
		return c.json(b)
	}
	b.print(c.out)
	return nil
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

// run plays every trial, as many at a time as there are processors. The results are in the order of
// the trials.
func (s scoring) run(ctx context.Context, told *progress) ([]played, error) {
	// Pages are made, parsed and dropped by the thousand, and little of it lives on: collecting it
	// less often saves a fifth of the time.
	defer debug.SetGCPercent(debug.SetGCPercent(400))
	defer told.end()
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
			told.done()
			return nil
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	return out, nil
}
