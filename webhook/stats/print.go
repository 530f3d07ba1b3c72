package stats

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
)

// Print writes the figures for people.
func (s Summary) Print(out io.Writer) error {
	const moment = "2006-01-02 15:04 MST"
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "%s to %s: %s, %d open, %d more merged into others; %s\n", s.From.Format(moment), s.To.Format(moment),
		text.Count(s.All.Incidents, "incident"), s.Open, s.Merged, text.Count(s.Pages, "page"))
	if s.All.Incidents > 0 {
		fmt.Fprint(w, "\nTimes from the opening: median / p90 (incidents)\n\nCAUSE\tINCIDENTS\tDIAGNOSED\tACKNOWLEDGED\tMITIGATED\n")
		for _, c := range append(s.Causes, Cause{Cause: "all", Group: s.All}) {
			fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", c.Cause, c.Incidents, c.Diagnose.words(), c.Acknowledge.words(), c.Mitigate.words())
		}
	}
	if len(s.NoisyRules) > 0 {
		fmt.Fprint(w, "\nNOISY RULE\tINCIDENTS\tNOISY\tBENIGN\tENDED ALONE\n")
	}
	for _, r := range s.NoisyRules {
		fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%d\n", text.Line(r.Rule, 80), r.Incidents, r.Noisy, r.Benign, r.EndedAlone)
	}
	fmt.Fprintf(w, "\nFirst aid: %s\n", s.FirstAid.words())
	if len(s.Feedback) == 0 {
		fmt.Fprintln(w, "Feedback: none")
	} else {
		fmt.Fprint(w, "\nFEEDBACK\tRIGHT\tWRONG\n")
	}
	for _, f := range s.Feedback {
		fmt.Fprintf(w, "%s\t%d\t%d\n", f.Cause, f.Right, f.Wrong)
	}
	return w.Flush()
}

func (t Times) words() string {
	if t.Median == nil || t.P90 == nil {
		return "—"
	}
	took := func(s float64) string { return state.FormatTook(time.Duration(s * float64(time.Second))) }
	return fmt.Sprintf("%s / %s (%d)", took(*t.Median), took(*t.P90), t.Count)
}

func (r Runs) words() string {
	var parts []string
	for _, p := range []struct {
		n    int
		what string
	}{{r.Helped, "helped"}, {r.RolledBack, "rolled back"}, {r.Failed, "failed"}, {r.Denied, "denied"}, {r.Expired, "expired"},
		{r.Cancelled, "cancelled"}, {r.Superseded, "superseded"}, {r.Suggested, "suggested only"}, {r.Unfinished, "not ended"}} {
		if p.n > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", p.n, p.what))
		}
	}
	if len(parts) == 0 {
		return "no runs"
	}
	return strings.Join(parts, ", ")
}
