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
	"paramedic/lab/story"
)

func (c *cli) labScoreCommand() *cobra.Command {
	s := score.Selection{}
	var stories bool
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Play faults on many seeds, and count how often the diagnosis is right",
		Long: "Play faults, decoys and double faults of the lab in simulated time, with real webhook payloads, evidence from the\n" +
			"simulated pages and the built-in rules. The command opens no port, sends nothing and stores nothing.\n\n" +
			"A fault is right if its incident ends with its name, and no incident ends with another name. It is misled if another\n" +
			"name came first. It is silent if no alert fired. A decoy is right if the bot names no cause but benign_alert. A double\n" +
			"fault is right if the bot names both. For comparison, an Alertmanager in a common configuration gets the same alerts.\n\n" +
			"Without --faults, --decoys and --doubles, the command plays all three.",
		Example: "  paramedic lab score --seeds 5\n  paramedic lab score --faults kv_leak,gpu_fault+kv_leak@one --engine sglang",
		Args:    cobra.NoArgs,
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
			if stories {
				s.Faults = story.Expand(s.Faults)
			}
			return c.score(cmd.Context(), s)
		},
	}
	f := cmd.Flags()
	f.IntVar(&s.Seeds, "seeds", 3, "`number` of seeds")
	f.Uint64Var(&s.First, "first", 1, "first `seed`")
	f.StringSliceVar(&s.Faults, "faults", nil,
		"`names` of faults, FAULT/STORY, pairs (FAULT+FAULT, or FAULT+FAULT@one in one pool) or decoys; all: every single fault")
	f.BoolVar(&stories, "stories", false, "play every story of the faults, and not the one of the seed")
	f.BoolVar(&s.Decoys, "decoys", false, "play the decoys")
	f.BoolVar(&s.Doubles, "doubles", false, "play the double faults")
	f.StringVar(&s.Matrix, "matrix", "", "write the confusion matrix as SVG to this `file`")
	s.Options.Flags(f)
	return cmd
}

// trimmed removes blanks from names: people write one after a comma, and around a plus.
func trimmed(names []string) error {
	for i, name := range names {
		if names[i] = strings.Join(strings.Fields(name), ""); names[i] == "" {
			return errors.New("a name is empty: remove the extra comma")
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
		return errors.New("nothing to play: use --faults NAMES (or --faults all), --decoys or --doubles")
	}
	if s.Matrix != "" { // a bad path must fail now, and not after an hour of runs
		f, err := os.OpenFile(s.Matrix, os.O_CREATE|os.O_WRONLY, 0o644)
		if err != nil {
			return fmt.Errorf("--matrix: %w", err)
		}
		f.Close()
	}
	shown := score.NewProgress(c.err, len(s.Trials()))
	trials, err := s.Play(ctx, shown.Done)
	shown.End()
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
