package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"paramedic/cmd/paramedic/printing"
	"paramedic/cmd/paramedic/service"
	"paramedic/cmd/paramedic/survey"
	"paramedic/rules/health"
	"paramedic/state"
	"paramedic/webhook/report"
)

func (d *diagnosis) print(f survey.Report) error {
	switch d.output {
	case "json":
		return d.json(f)
	case "markdown":
		printMarkdown(d.out, f)
		return nil
	}
	out := printing.People{Writer: d.out}
	for _, p := range f.Unread {
		fmt.Fprintf(out, "%s %s\n\n", p.URL, p.Reason)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "POOL\tMODEL\tWORKERS\tHEALTH\tKV\tLATENCY\tERRORS\tQUEUE\tGPU")
	for _, p := range f.Pools {
		fmt.Fprintf(w, "%s\t%s\t%d\t%s", cmp.Or(p.Pool, "—"), cmp.Or(p.Model, "—"), p.Workers, p.Overall)
		for _, check := range service.HealthChecks {
			fmt.Fprintf(w, "\t%s", checkValue(p.Checks[check]))
		}
		fmt.Fprintln(w)
	}
	w.Flush()
	lines := slices.Concat(f.Notes(), f.Unmeasured())
	for _, line := range lines {
		fmt.Fprintf(out, "\n%s", line)
	}
	if len(lines) > 0 && len(f.Verdict) > 0 {
		fmt.Fprintln(out)
	}
	if closing := f.Closing(); closing != "" {
		fmt.Fprintf(out, "\n%s\n", closing)
	}
	for _, v := range f.Verdict {
		fmt.Fprintln(out)
		printVerdict(out, v.Diagnosis)
		switch {
		case v.Diagnosis.Story.Time != "":
		case v.Time.Queue != nil:
			fmt.Fprintf(out, "  where the time goes: %s\n", v.Time)
		case d.tempo != "" || d.jaeger != "":
			fmt.Fprintf(out, "  where the time goes %s\n", v.Time)
		}
		if v.Playbook != "" {
			fmt.Fprintf(out, "\n%s\n", v.Playbook)
		}
	}
	return nil
}

// checkValue returns the value of a check in words.
func checkValue(c health.Check) string {
	if c.Value == nil {
		return "—"
	}
	return state.FormatValue(*c.Value, c.Unit)
}

// printVerdict prints a verdict with its sum.
func printVerdict(w io.Writer, v state.Diagnosis) {
	fmt.Fprintf(w, "%s\n%s, %s\n\n", v.Title, v.Cause, cmp.Or(v.Likely.Words(), printing.Sure(v.Cause, v.Confidence)))
	printing.Story(w, "  ", v.Story, false)
	fmt.Fprintln(w)
	printing.Finding(w, v.Prior, "prior", "how common the cause is, before any evidence")
	for _, f := range v.Findings {
		printing.Finding(w, f.Weight, f.Text, f.Why)
	}
	fmt.Fprintf(w, "  %+6.1f dB  sum\n", v.Score)
	if len(v.Alternatives) > 0 {
		fmt.Fprint(w, "\n  other candidates:\n")
	}
	for _, a := range v.Alternatives {
		fmt.Fprintf(w, "    %s, %s: would win with %s\n", a.Cause, state.FormatShare(a.Confidence),
			service.BuiltInTitles().Text(a.WouldWinIf))
	}
	if len(v.Missing) > 0 {
		fmt.Fprintln(w)
	}
	for _, line := range v.MissingLines(service.BuiltInTitles()) {
		fmt.Fprintf(w, "  missing: %s\n", line)
	}
	printing.Chain(w, v.Chain)
	printing.Usual(w, v.Anomalies, v.Correlations)
}

// printMarkdown prints a report as Markdown. It escapes all foreign text: a model's name may
// contain a link.
func printMarkdown(out io.Writer, f survey.Report) {
	w := printing.People{Writer: out}
	md := report.Markdown
	fmt.Fprintf(w, "# Fleet at %s\n", f.At.Format(time.RFC3339))
	for _, p := range f.Unread {
		fmt.Fprintf(w, "\n**%s** %s\n", md(p.URL), md(p.Reason))
	}
	if len(f.Pools) > 0 {
		fmt.Fprint(w, "\n| pool | model | workers | health | KV | latency | errors | queue | GPU "+
			"|\n|---|---|---:|---|---:|---:|---:|---:|---:|\n")
	}
	for _, p := range f.Pools {
		fmt.Fprintf(w, "| %s | %s | %d | %s |", md(cmp.Or(p.Pool, "—")), md(cmp.Or(p.Model, "—")), p.Workers, p.Overall)
		for _, check := range service.HealthChecks {
			fmt.Fprintf(w, " %s |", md(checkValue(p.Checks[check])))
		}
		fmt.Fprintln(w)
	}
	for _, v := range f.Verdict {
		d := v.Diagnosis
		fmt.Fprintf(w, "\n## %s\n\n**%s**, %s\n\n%s\n| dB | evidence | reason of the weight |\n|---:|---|---|\n| %+.1f | prior "+
			"| how common the "+
			"cause is, before any evidence |\n",
			md(d.Title), md(string(d.Cause)), cmp.Or(d.Likely.Words(), printing.Sure(d.Cause, d.Confidence)),
			report.StoryMarkdown(d.Story), d.Prior)
		for _, x := range d.Findings {
			fmt.Fprintf(w, "| %+.1f | %s | %s |\n", x.Weight, md(x.Text), md(x.Why))
		}
		fmt.Fprintf(w, "| %+.1f | **sum** | |\n", d.Score)
		if alternatives := report.AlternativesMarkdown(d.Alternatives); alternatives != "" {
			fmt.Fprintf(w, "\nOther candidates:\n\n%s", alternatives)
		}
		if chain := report.ChainMarkdown(d.Chain); chain != "" {
			fmt.Fprintf(w, "\n%s:\n\n%s", state.ChainTitle, chain)
		}
		if d.Story.Time == "" && v.Time.Queue != nil {
			fmt.Fprintf(w, "\nWhere the time goes: %s\n", md(v.Time.String()))
		}
		if len(d.Missing) > 0 {
			fmt.Fprintln(w)
		}
		for _, line := range d.MissingLines(service.BuiltInTitles()) {
			fmt.Fprintf(w, "- missing: %s\n", md(line))
		}
		if len(d.Anomalies)+len(d.Correlations) > 0 {
			fmt.Fprintln(w)
		}
		for _, a := range d.Anomalies {
			fmt.Fprintf(w, "- compared with the usual: %s\n", md(a.Text))
		}
		for _, c := range d.Correlations {
			fmt.Fprintf(w, "- moved together (this proves no cause): %s\n", md(c.Text))
		}
	}
	if closing := f.Closing(); closing != "" {
		fmt.Fprintf(w, "\n%s\n", closing)
	}
	for _, line := range slices.Concat(f.Notes(), f.Unmeasured()) {
		fmt.Fprintf(w, "\n- %s", md(line))
	}
	fmt.Fprintln(w)
}
