package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"paramedic/lab"
)

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
	shown := c.scoreProgress(len(s.trials()))
	trials, err := s.run(ctx, shown.done)
	shown.end()
	if err != nil {
		return err
	}
	if c.verbose {
		for _, p := range trials {
			fmt.Fprintf(c.err, "%s seed %d: %s\n%s", p.Fault, p.Seed, p.Outcome, p.verdictTrace())
		}
	}
	b := sumScores(trials)
	b.First, b.Seeds = s.first, s.seeds
	if s.matrix != "" {
		if err := os.WriteFile(s.matrix, b.Matrix.svg(), 0o644); err != nil {
			return fmt.Errorf("writing the matrix: %w", err)
		}
	}
	if c.output == "json" {
		return c.json(b)
	}
	b.print(c.out)
	return nil
}
