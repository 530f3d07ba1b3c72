package tune

import (
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"paramedic/state"
)

// Advice holds the computed settings of one worker of a pool.
type Advice struct {
	Pool     string    `json:"pool,omitempty"`
	Engine   string    `json:"engine"` // whose flags the settings are
	UseCase  UseCase   `json:"use_case"`
	Model    *Model    `json:"model,omitempty"`    // null: only what the live engine tells is known
	Hardware *Hardware `json:"hardware,omitempty"` // null: the same
	Settings []Setting `json:"settings"`
	Targets  []Target  `json:"targets"`
	Facts    []Fact    `json:"facts"`
	Notes    []string  `json:"notes"`
	Finding  bool      `json:"finding"` // it does not fit, is beyond what is safe, or misses a target that the user gave
}

// A Setting is one flag with its advised value. Now is the live engine's value, or 0 if that is
// unknown.
type Setting struct {
	Flag  string `json:"flag"`
	Value int    `json:"value"`
	Now   int    `json:"now,omitempty"`
	Why   string `json:"why"`
}

// A Fact is a computed or measured value with its source.
type Fact struct {
	Name string `json:"name"`
	Text string `json:"text"`
	From string `json:"from"`
}

// Print prints the advice for people.
func (a Advice) Print(out io.Writer) {
	title := "One " + a.Engine + " worker"
	if a.Pool != "" {
		title = "A worker of " + a.Pool + " (" + a.Engine + ")"
	}
	u := a.UseCase
	fmt.Fprintf(out, "%s, for %s: first token within %g s, a token every %g ms, whole answer within %g s\n", title,
		u.Name, u.TTFT, u.ITL*1000, u.E2E)
	if len(a.Settings) > 0 {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		fmt.Fprintln(w, "SETTING\tADVICE\tNOW\tWHY")
		for _, s := range a.Settings {
			advice, now := fmt.Sprint(s.Value), "—"
			if s.Now > 0 {
				now = fmt.Sprint(s.Now)
			}
			if s.Now == s.Value {
				advice = "keep"
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", s.Flag, advice, now, s.Why)
		}
		w.Flush()
	}
	if len(a.Targets) > 0 {
		fmt.Fprintln(out)
		w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
		is := "EXPECTED"
		if a.Pool != "" {
			is = "MEASURED"
		}
		fmt.Fprintf(w, "TARGET\tWANTED\t%s\t\tWHY\n", is)
		for _, t := range a.Targets {
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", t.Name, state.FormatValue(t.Want, t.Unit), t.value(), t.Verdict,
				t.Why)
		}
		w.Flush()
	}
	fmt.Fprintln(out)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, f := range a.Facts {
		fmt.Fprintf(w, "%s\t%s\t%s\n", f.Name, f.Text, f.From)
	}
	w.Flush()
	if len(a.Notes) > 0 {
		fmt.Fprintln(out)
	}
	for _, n := range a.Notes {
		fmt.Fprintf(out, "- %s\n", n)
	}
}

// missed reports whether a target that the user gave is missed.
func (a Advice) missed() bool {
	return slices.ContainsFunc(a.Targets, func(t Target) bool { return t.given && t.Verdict == targetMissed })
}
