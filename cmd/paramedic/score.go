package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"paramedic/lab"
)

// A scoring says which of the lab's days are played.
type scoring struct {
	seeds  int
	first  uint64
	faults []string
}

func (c *cli) labScoreCommand() *cobra.Command {
	s := scoring{}
	cmd := &cobra.Command{
		Use:   "score",
		Short: "Play every fault on many seeds and count how often the diagnosis is right",
		Long: "Play the lab's faults on simulated time: real webhook payloads, evidence scraped off the simulated fleet's pages, the rules as they\n" +
			"are built in. A run is right where the fault's incident ends with the fault's name and no incident is left with another's; misled\n" +
			"where another name was told on the way; silent where the pool bore the fault and no alert fired. Nothing is listened on, sent or kept.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return c.score(cmd.Context(), s) },
	}
	f := cmd.Flags()
	f.IntVar(&s.seeds, "seeds", 3, "how many seeds")
	f.Uint64Var(&s.first, "first", 1, "the first seed")
	f.StringSliceVar(&s.faults, "faults", lab.Faults(), "which faults")
	return cmd
}

// A faultScore is how one fault was diagnosed over all seeds.
type faultScore struct {
	Fault   string         `json:"fault"`
	Runs    int            `json:"runs"`
	Right   int            `json:"right"`
	Unknown int            `json:"unknown"`
	Wrong   map[string]int `json:"wrong"`  // by the cause that was named instead
	Misled  map[string]int `json:"misled"` // causes that were named on the way to another verdict
	// SecondsToDiagnosis is the mean simulated time from the first alert to the right verdict; null where there was none.
	SecondsToDiagnosis *float64 `json:"seconds_to_diagnosis"`
	Silent             int      `json:"silent"`       // runs in which the pool bore the fault and no alert fired
	OneIncident        int      `json:"one_incident"` // runs that ended as one incident
	Incidents          float64  `json:"incidents"`    // that were not merged, in the mean
	Pages              float64  `json:"pages"`        // incidents that PagerDuty was told of, in the mean
	Trials             []played `json:"trials"`
}

func (c *cli) score(ctx context.Context, s scoring) error {
	if s.seeds < 1 {
		return errors.New("--seeds must be at least 1")
	}
	trials, err := s.run(ctx, func(p played) {
		if c.verbose {
			fmt.Fprintf(c.err, "%s seed %d: %s\n%s", p.Fault, p.Seed, p.Outcome, p.trace)
		}
	})
	if err != nil {
		return err
	}
	scores := sumScores(s.faults, trials)
	if c.output == "json" {
		return c.json(map[string]any{"first_seed": s.first, "seeds": s.seeds, "faults": scores})
	}
	printScores(c.out, scores)
	return nil
}

// run plays every fault on every seed, as many at a time as there are processors. The results are in the order of faults and seeds.
func (s scoring) run(ctx context.Context, done func(played)) ([]played, error) {
	out := make([]played, len(s.faults)*s.seeds)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for i := range out {
		fault, seed := s.faults[i/s.seeds], s.first+uint64(i%s.seeds)
		group.Go(func() error {
			t, err := newTrial(fault, seed)
			if err != nil {
				return err
			}
			out[i], err = t.play(ctx)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	for _, p := range out {
		done(p)
	}
	return out, nil
}

func sumScores(faults []string, trials []played) []faultScore {
	var out []faultScore
	for _, fault := range faults {
		s := faultScore{Fault: fault, Wrong: map[string]int{}, Misled: map[string]int{}, Trials: []played{}}
		var took time.Duration
		var named int
		for _, p := range trials {
			if p.Fault != fault {
				continue
			}
			s.Trials = append(s.Trials, p)
			s.Runs++
			switch p.Outcome {
			case "right":
				s.Right++
			case "unknown":
				s.Unknown++
			case "silent":
				s.Silent++
			default:
				s.Wrong[p.Outcome]++
			}
			for _, cause := range p.Misled {
				s.Misled[cause]++
			}
			if p.Incidents == 1 {
				s.OneIncident++
			}
			if p.ToDiagnosis > 0 {
				took += p.ToDiagnosis
				named++
			}
			s.Incidents += float64(p.Incidents)
			s.Pages += float64(p.Pages)
		}
		if named > 0 {
			mean := took.Seconds() / float64(named)
			s.SecondsToDiagnosis = &mean
		}
		if s.Runs > 0 {
			s.Incidents /= float64(s.Runs)
			s.Pages /= float64(s.Runs)
		}
		out = append(out, s)
	}
	return out
}

func printScores(w io.Writer, scores []faultScore) {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "FAULT\tRIGHT\tUNKNOWN\tSILENT\tWRONG\tMISLED ON THE WAY\tTO DIAGNOSIS\tONE INCIDENT\tINCIDENTS\tPAGES")
	for _, s := range scores {
		took := "—"
		if s.SecondsToDiagnosis != nil {
			took = fmt.Sprintf("%.0f s", *s.SecondsToDiagnosis)
		}
		fmt.Fprintf(tw, "%s\t%d/%d\t%d\t%d\t%s\t%s\t%s\t%d/%d\t%.1f\t%.1f\n", s.Fault, s.Right, s.Runs, s.Unknown, s.Silent, tally(s.Wrong), tally(s.Misled), took,
			s.OneIncident, s.Runs, s.Incidents, s.Pages)
	}
	tw.Flush()
}

func tally(n map[string]int) string {
	if len(n) == 0 {
		return "0"
	}
	var out []string
	for _, k := range slices.Sorted(maps.Keys(n)) {
		out = append(out, fmt.Sprintf("%d %s", n[k], k))
	}
	return strings.Join(out, ", ")
}
