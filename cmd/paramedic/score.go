package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/score"
	"paramedic/lab"
)

func (c *cli) labScoreCommand() *cobra.Command {
	s := score.Selection{}
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Play faults, decoys and double faults on many seeds and count how often the diagnosis is right",
		Long: "Play the lab's faults on simulated time: real webhook payloads, evidence scraped off the simulated fleet's pages, the " +
			"rules as they\n" +
			"are built in. A run is right where the fault's incident ends with the fault's name and no incident is left with another's; " +
			"misled\n" +
			"where another name was told on the way; silent where the pool bore the fault and no alert fired. Decoys are right where " +
			"nothing is\n" +
			"named but benign_alert; double faults where both are named. Alertmanager alone, as it is commonly configured, hears the " +
			"same alerts.\n" +
			"Without --faults, --decoys and --doubles all three are played. Nothing is listened on, sent or kept.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := trimmed(s.Faults); err != nil {
				return fmt.Errorf("--faults: %w", err)
			}
			if !cmd.Flags().Changed("faults") && !s.Decoys && !s.Doubles {
				s.Faults, s.Decoys, s.Doubles = lab.Faults(), true, true
			}
			if slices.Equal(s.Faults, []string{"all"}) {
				s.Faults = lab.Faults()
			}
			return c.score(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Seeds, "seeds", 3, "how many seeds")
	f.Uint64Var(&s.First, "first", 1, "the first seed")
	f.StringSliceVar(&s.Faults, "faults", nil,
		"which faults, FAULT+FAULT for a pair (with @one: in one pool), or a decoy; all: every single fault")
	f.BoolVar(&s.Decoys, "decoys", false, "play the decoys")
	f.BoolVar(&s.Doubles, "doubles", false, "play the double faults")
	f.StringVar(&s.Matrix, "matrix", "", "write the confusion matrix to this file, as SVG")
	s.Options.Flags(f)
	return cmd
}

// trimmed removes blanks from names: people write one after a comma, and around a plus.
func trimmed(names []string) error {
	for i, name := range names {
		if names[i] = strings.Join(strings.Fields(name), ""); names[i] == "" {
			return errors.New("a name is empty: leave out the comma before or behind it")
		}
	}
	return nil
}

func (c *cli) score(ctx context.Context, s score.Selection) error {
	if s.Seeds < 1 {
		return errors.New("--seeds must be at least 1")
	}
	if err := s.Options.Load(); err != nil {
		return err
	}
	if len(s.Trials()) == 0 {
		return errors.New("nothing is to be played: name --faults (all is every single fault), or ask for --decoys or --doubles")
	}
	if s.Matrix != "" { // what was played for an hour is not lost to a path that cannot be written
		f, err := os.OpenFile(s.Matrix, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--matrix: %w", err)
		}
		f.Close()
	}
	shown := c.scoreProgress(len(s.Trials()))
	trials, err := s.Play(ctx, shown.done)
	shown.end()
	if err != nil {
		return err
	}
	if c.verbose {
		for _, p := range trials {
			fmt.Fprintf(c.err, "%s seed %d: %s\n%s", p.Fault, p.Seed, p.Outcome, p.Trace())
		}
	}
	b := score.Sum(trials)
	b.First, b.Seeds = s.First, s.Seeds
	if s.Matrix != "" {
		if err := os.WriteFile(s.Matrix, b.Matrix.SVG(), 0o644); err != nil {
			return fmt.Errorf("writing the matrix: %w", err)
		}
	}
	if c.output == "json" {
		return c.json(b)
	}
	b.Print(c.out)
	return nil
}
