package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"paramedic/lab/story"
)

func (c *cli) labStoriesCommand() *cobra.Command {
	return &cobra.Command{
		Use: "stories", Short: "List the ways in which each fault of the lab happens", Args: cobra.NoArgs,
		Long: "List the stories of each fault. Seeds below 100 play the first one; other seeds draw one.\n" +
			"`lab run --fault NAME` and `lab score --faults NAME` play one story, and `lab score --stories` plays all.",
		Example: "  paramedic lab stories\n  paramedic lab run --fault oom_killed/low-limit",
		RunE: func(*cobra.Command, []string) error {
			w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
			for _, s := range story.All() {
				fmt.Fprintf(w, "%s\t%s\n", s.ID(), s.Text)
			}
			return w.Flush()
		},
	}
}
