package backtest

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/report"
)

// mostShown limits the incidents and actions that people get. JSON has up to 500 of each.
const mostShown = 40

// A sheet is a report as titled tables and lists, which both formats for people print.
type sheet struct {
	title    string
	sections []section
}

// A section is a table, a list, or both.
type section struct {
	title string
	head  []string
	rows  [][]string
	lines []string
}

// sheet returns the report for people.
func (r Report) sheet() sheet {
	return sheet{title: fmt.Sprintf("Backtest of %s until %s, cluster %s", span(r.To.Sub(r.From)),
		r.To.Format("2006-01-02 15:04 MST"), r.Cluster), sections: []section{r.sums(), r.byCause(), r.list(), r.aid(), r.byRule(),
		r.lacking(), {title: "What could not be reconstructed", lines: r.NotReconstructed}}}
}

// span writes the length of a window.
func span(d time.Duration) string {
	if d%(24*time.Hour) == 0 {
		return text.Count(int(d/(24*time.Hour)), "day")
	}
	return state.FormatDuration(d)
}

func (r Report) sums() section {
	return section{head: []string{"", "Alertmanager alone", "Paramedic"}, rows: [][]string{
		{"to look at", text.Count(r.Alerts, "alert"), text.Count(r.IncidentCount, "incident")},
		{"in the chat", text.Count(r.Before.Notifications, "notification"), text.Count(r.After.Notifications, "message")},
		{"at the pager", text.Count(r.Before.Pages, "page"), text.Count(r.After.Pages, "page")}}}
}

func (r Report) byCause() section {
	out := section{title: "Incidents by cause", head: []string{"cause", "incidents"}}
	for _, c := range r.Causes {
		out.rows = append(out.rows, []string{string(c.Cause), fmt.Sprint(c.Incidents)})
	}
	if t := r.ToCause; t != nil {
		out.lines = []string{fmt.Sprintf("From the first alert to the cause: %s (median), %s (90 %%), in %s.", seconds(t.Median),
			seconds(t.P90), text.Count(t.Incidents, "incident"))}
	}
	return out
}

func seconds(s float64) string {
	return state.FormatDuration(time.Duration(s * float64(time.Second)).Round(time.Second))
}

func (r Report) list() section {
	out := section{title: "Incidents", head: []string{"#", "started", "cause", "after", "alerts", "paged", "title"}}
	for _, in := range r.Incidents[:min(len(r.Incidents), mostShown)] {
		cause, after, paged := string(in.Cause), "—", "no"
		if in.Likely != "" {
			cause += " (probably " + in.Likely + ")"
		}
		if in.ToCause != nil {
			after = seconds(*in.ToCause)
		}
		if in.Paged {
			paged = "yes"
		}
		out.rows = append(out.rows, []string{fmt.Sprint(in.Number), in.StartedAt.Format("2006-01-02 15:04"), cause, after,
			fmt.Sprint(in.Alerts), paged, in.Title})
	}
	if more := r.IncidentCount - len(out.rows); more > 0 {
		out.lines = []string{fmt.Sprintf("%s more; -o json lists up to %d.", text.Count(more, "incident"), mostIncidents)}
	}
	return out
}

func (r Report) aid() section {
	out := section{title: "First aid that Paramedic would have proposed", head: []string{"incident", "at", "action", "stopped by"}}
	if r.ActionCount == 0 {
		out.lines = []string{"None: no playbook of these causes has an action."}
		return out
	}
	for _, a := range r.Actions[:min(len(r.Actions), mostShown)] {
		out.rows = append(out.rows, []string{fmt.Sprint(a.Incident), a.At.Format("2006-01-02 15:04"), a.Change,
			cmp.Or(strings.Join(a.StoppedBy, ", "), "no guard that was asked")})
	}
	if more := r.ActionCount - len(out.rows); more > 0 {
		out.lines = append(out.lines, fmt.Sprintf("%s more; -o json lists up to %d.", text.Count(more, "action"), mostActions))
	}
	var stops []string
	for _, g := range r.Stops {
		stops = append(stops, fmt.Sprintf("%s %d", g.Guard, g.Actions))
	}
	if len(stops) > 0 {
		out.lines = append(out.lines, "Stopped by guard: "+strings.Join(stops, ", ")+".")
	}
	out.lines = append(out.lines, fmt.Sprintf("Guards that need Kubernetes' objects were not asked: %s.", text.List(r.NotAsked)))
	return out
}

func (r Report) byRule() section {
	out := section{title: "Alert rules", head: []string{"rule", "alerts", "incidents", "with a cause", "benign", "unknown"}}
	for _, x := range r.Rules {
		out.rows = append(out.rows, []string{x.Rule, fmt.Sprint(x.Alerts), fmt.Sprint(x.Incidents), fmt.Sprint(x.Named),
			fmt.Sprint(x.Benign), fmt.Sprint(x.Unknown)})
	}
	if len(r.NeverMattered) > 0 {
		out.lines = []string{"Never in an incident with a cause to act on: " + strings.Join(r.NeverMattered, ", ") + "."}
	}
	return out
}

func (r Report) lacking() section {
	out := section{title: "What was missing to name more causes", head: []string{"missing", "incidents of unknown cause"}}
	for _, m := range r.Missing {
		out.rows = append(out.rows, []string{m.What, fmt.Sprint(m.Incidents)})
	}
	if len(r.Missing) == 0 {
		out.head, out.lines = nil, []string{"Nothing: every incident has a cause."}
	}
	return out
}

// Text prints the report for a terminal.
func (r Report) Text(out io.Writer) {
	s := r.sheet()
	fmt.Fprintf(out, "%s\n", s.title)
	for _, sec := range s.sections {
		fmt.Fprintln(out)
		if sec.title != "" {
			fmt.Fprintf(out, "%s\n", sec.title)
		}
		if len(sec.rows) > 0 {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, strings.ToUpper("  "+strings.Join(sec.head, "\t")))
			for _, row := range sec.rows {
				fmt.Fprintln(w, "  "+strings.Join(row, "\t"))
			}
			w.Flush()
		}
		for _, line := range sec.lines {
			fmt.Fprintf(out, "  %s\n", line)
		}
	}
}

// Markdown prints the report as Markdown. It escapes all text from labels.
func (r Report) Markdown(out io.Writer) {
	s := r.sheet()
	fmt.Fprintf(out, "# %s\n", report.Markdown(s.title))
	for _, sec := range s.sections {
		if sec.title != "" {
			fmt.Fprintf(out, "\n## %s\n", sec.title)
		}
		if len(sec.rows) > 0 {
			fmt.Fprintf(out, "\n| %s |\n|%s\n", strings.Join(sec.head, " | "), strings.Repeat("---|", len(sec.head)))
			for _, row := range sec.rows {
				cells := make([]string, len(row))
				for i, cell := range row {
					cells[i] = report.Markdown(cell)
				}
				fmt.Fprintf(out, "| %s |\n", strings.Join(cells, " | "))
			}
		}
		if len(sec.lines) > 0 {
			fmt.Fprintln(out)
		}
		for _, line := range sec.lines {
			fmt.Fprintf(out, "- %s\n", report.Markdown(line))
		}
	}
}
