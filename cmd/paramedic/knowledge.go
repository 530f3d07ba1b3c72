package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"paramedic/cmd/paramedic/config"
	"paramedic/internal/text"
	"paramedic/playbooks"
	"paramedic/state"
)

func (c *cli) playbooksCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "playbooks", Short: "List, show and validate playbooks", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.listPlaybooks(dir) }}
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "`directory` of your own playbooks, which override the built-in ones")
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List playbooks", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return c.listPlaybooks(dir) }},
		&cobra.Command{Use: "show ID", Short: "Show a playbook", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return c.showPlaybook(dir, args[0]) }},
		&cobra.Command{Use: "test DIR", Short: "Validate a directory of playbooks", Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error {
				if st, err := os.Stat(args[0]); err != nil {
					return err
				} else if !st.IsDir() {
					return fmt.Errorf("%s is no directory of playbooks", args[0])
				}
				cfg := config.Default()
				cfg.Playbooks.Dir = args[0]
				return c.testKnowledge(cfg)
			}})
	return cmd
}

func (c *cli) testKnowledge(cfg config.Config) error {
	out := checkResult{Problems: []config.Problem{}}
	out.knowledge(cfg)
	if c.output == "json" {
		if err := c.json(out); err != nil {
			return err
		}
	}
	for _, p := range out.Problems {
		if c.output != "json" {
			fmt.Fprintln(c.out, p)
		}
	}
	switch {
	case len(out.Problems) > 0:
		return errFinding
	case c.output == "json":
		return nil
	}
	fmt.Fprintf(c.out, "valid: %d causes, %d playbooks\n", out.Causes, out.Books)
	return nil
}

func (c *cli) listPlaybooks(dir string) error {
	library, err := playbooks.Load(dir)
	if err != nil {
		return err
	}
	if c.output == "json" {
		return c.json(library.All())
	}
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, pb := range library.All() {
		fmt.Fprintf(w, "%s\t%s\t%d checks\t%d steps\t%s\n", pb.ID, pb.Severity, len(pb.Checks), len(pb.FirstAid), pb.Title)
	}
	return w.Flush()
}

func (c *cli) showPlaybook(dir, id string) error {
	library, err := playbooks.Load(dir)
	if err != nil {
		return err
	}
	pb, ok := library.Get(id)
	if !ok {
		var known []string
		for _, pb := range library.All() {
			known = append(known, pb.ID)
		}
		return fmt.Errorf("there is no playbook %q: %s (`paramedic playbooks list` lists them)", id, text.DidYouMean(id, known))
	}
	if c.output == "json" {
		return c.json(pb)
	}
	fmt.Fprintln(c.out, playbooks.Run(pb, state.Incident{}, state.Evidence{}).Text())
	return nil
}

func (c *cli) rulesCommand() *cobra.Command {
	var dir string
	cmd := &cobra.Command{Use: "rules", Short: "List, show and test causes and pathologies", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return c.listRules(dir) }}
	cmd.PersistentFlags().StringVar(&dir, "dir", "", "`directory` of your own rules, which override the built-in ones")
	cmd.AddCommand(
		&cobra.Command{Use: "list", Short: "List causes and pathologies", Args: cobra.NoArgs,
			RunE: func(*cobra.Command, []string) error { return c.listRules(dir) }},
		&cobra.Command{Use: "show ID", Short: "Explain a cause, with the weight of each piece of evidence, or a pathology",
			Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return c.showRule(dir, args[0]) }},
		&cobra.Command{Use: "test DIR|FILE", Short: "Run test cases (*.txtar) with the rules beside them",
			Args: cobra.ExactArgs(1),
			RunE: func(_ *cobra.Command, args []string) error { return c.testRules(dir, args[0]) }})
	return cmd
}
