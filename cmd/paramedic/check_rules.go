package main

import (
	"fmt"
	"strings"
	"text/tabwriter"

	"paramedic/cmd/paramedic/printing"
	"paramedic/cmd/paramedic/service"
	"paramedic/internal/text"
)

// printLint prints the findings below the cluster's name.
func printLint(c *cli, cluster string, l service.LintResult) {
	fmt.Fprintf(c.out, "%-32s ", cluster+"/rules")
	switch {
	case l.Skipped != "":
		fmt.Fprintf(c.out, "not checked: %s\n", l.Skipped)
		return
	case len(l.Findings) == 0:
		fmt.Fprintf(c.out, "ok, %s\n", text.Count(l.Rules, "alert rule"))
	default:
		printFindings(c, l)
	}
	for _, what := range l.Unseen {
		fmt.Fprintf(c.out, "  %s\n", what)
	}
	if len(l.Unjudged) > 0 {
		fmt.Fprintf(c.out, "  not checked: %s without series in the last hour. Such a metric may appear with the first event, or with "+
			"an exporter: %s\n", text.Count(len(l.Unjudged), "metric"), printing.FirstNames(l.Unjudged, 12, ", "))
	}
}

func printFindings(c *cli, l service.LintResult) {
	fmt.Fprintf(c.out, "%s in %s\n", text.Count(len(l.Findings), "finding"), text.Count(l.Rules, "alert rule"))
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, f := range l.Findings {
		name := strings.TrimPrefix(f.Group+"/"+f.Rule, "/")
		fmt.Fprintf(w, "  %s\t%s\t%s\n  \t\t→ %s\n", f.Severity, name, f.Text, f.Fix)
	}
	w.Flush()
}
