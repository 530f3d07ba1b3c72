// Package printing writes the results of commands: parts of a verdict for people, and JSON for
// programs.
package printing

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/report"
)

// People writes to a terminal without control and hidden characters. A write must end at the
// end of a character, as those of fmt do.
type People struct{ io.Writer }

func (p People) Write(b []byte) (int, error) {
	_, err := io.WriteString(p.Writer, text.Lines(string(b)))
	return len(b), err
}

// JSON prints a value for programs.
func JSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	enc.SetEscapeHTML(false)
	return enc.Encode(v)
}

// Sure returns the confidence of a verdict in words.
func Sure(cause state.Cause, confidence float64) string {
	text := report.Sureness(cause, confidence)
	if text == report.NoVerdict {
		return text
	}
	return text + " sure"
}

// Story prints the explanation, with the same lines as the page, Slack and the API. For a
// resolved incident it labels the advice in the past.
func Story(w io.Writer, indent string, s state.Story, over bool) {
	row := func(label, text string) {
		if text != "" {
			fmt.Fprintf(w, "%s%-8s %s\n", indent, label, text)
		}
	}
	row("what", s.What)
	row("why", s.Why)
	row("or else", s.Else)
	row("time", s.Time)
	do, avoid := "do now", "do not"
	if over {
		do, avoid = "advice", "warning"
	}
	for i, step := range s.Do {
		row([]string{do, ""}[min(i, 1)], fmt.Sprintf("%d. %s", i+1, step))
	}
	for i, step := range s.Avoid {
		row([]string{avoid, ""}[min(i, 1)], step)
	}
}

// Finding prints a finding with its weight, and the reason of the weight below.
func Finding(w io.Writer, weight float64, text, why string) {
	fmt.Fprintf(w, "  %+6.1f dB  %s\n", weight, text)
	if why != "" {
		fmt.Fprintf(w, "%14s(%s)\n", "", why)
	}
}

// Chain prints the links from the cause to its symptoms.
func Chain(w io.Writer, links []state.Link) {
	for i, l := range links {
		if i == 0 {
			fmt.Fprintf(w, "\n  %s:\n", state.InSentence(state.ChainTitle))
		}
		fmt.Fprintf(w, "    %-10s %s\n", l.Role, l.Text)
	}
}

// Usual prints anomalies, and the signals that moved with the users' latency and errors.
func Usual(w io.Writer, anomalies []state.Anomaly, correlations []state.Correlation) {
	if len(anomalies) > 0 {
		fmt.Fprint(w, "\n  compared with the usual:\n")
	}
	for _, a := range anomalies {
		fmt.Fprintf(w, "    %s\n", a.Text)
	}
	if len(correlations) > 0 {
		fmt.Fprint(w, "\n  moved together (this proves no cause):\n")
	}
	for _, c := range correlations {
		fmt.Fprintf(w, "    %s\n", c.Text)
	}
}

// FirstNames joins the first names with a separator, and counts the others.
func FirstNames(names []string, shown int, separator string) string {
	out := strings.Join(names[:min(len(names), shown)], separator)
	if more := len(names) - shown; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}
