package report

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
)

// A Case holds the contents of a report.
type Case struct {
	Incident state.Incident
	Actions  []state.Action
	Timeline []state.Entry
	Curves   []state.Curve // of the signals in the charts
}

// Report returns the post-incident report in Markdown. Text from outside is escaped.
func Report(c Case, now time.Time) string {
	b, in, actions := &report{}, c.Incident, c.Actions
	b.line("# Incident %s (#%d): %s", in.ID, in.Number, Markdown(in.Title))
	b.summary(in, now)
	b.impact(in, now)
	b.timeline(c.Timeline)
	b.evidence(in)
	b.courses(in, c.Curves)
	b.actions(actions)
	b.wentWell(in, actions)
	b.unknown(in, actions)
	return b.String()
}

type report struct{ strings.Builder }

func (b *report) line(format string, args ...any) { fmt.Fprintf(b, format+"\n", args...) }

func (b *report) heading(text string) { b.line("\n## %s\n", text) }

func (b *report) item(label, text string) {
	if text != "" {
		b.line("- **%s:** %s", label, text)
	}
}

func (b *report) summary(in state.Incident, now time.Time) {
	d := in.Diagnosis
	b.heading("Summary")
	if story := StoryMarkdown(d.Story); story != "" {
		b.WriteString(story)
	}
	cause := code(string(in.Cause()))
	if !in.DiagnosedAt.IsZero() {
		cause += " (" + confidence(in.Cause(), d.Confidence) + ")"
	} else {
		cause += " (" + NoVerdict + " yet)"
	}
	b.item("Cause", cause)
	b.item("Severity", Markdown(string(in.Severity)))
	b.item("Status", Markdown(string(in.Status)))
	if in.MergedInto != "" {
		b.item("Merged into", code(string(in.MergedInto)))
	}
	b.item("Began", timeText(in.StartedAt))
	b.item("Noticed", timeText(in.OpenedAt))
	if !in.DiagnosedAt.Equal(in.NamedAt) {
		b.item("First verdict", timeText(in.DiagnosedAt))
	}
	b.item("Cause named", timeText(in.NamedAt))
	if !in.AckedAt.IsZero() {
		b.item("Acknowledged", timeText(in.AckedAt)+" by "+Markdown(in.AckedBy.String()))
	}
	if in.ResolvedAt.IsZero() {
		b.item("Resolved", "not yet, as of "+timeText(now))
	} else {
		b.item("Resolved", timeText(in.ResolvedAt)+" by "+Markdown(in.ResolvedBy))
	}
	b.item("Playbook", code(d.Playbook))
}

func (b *report) impact(in state.Incident, now time.Time) {
	b.heading("Impact")
	end := in.ResolvedAt
	if end.IsZero() {
		end = now
	}
	b.item("Lasted", end.Sub(in.StartedAt).Round(time.Second).String())
	b.item("Model", Markdown(in.Scope.Model))
	if in.Scope.Pool == "" {
		b.item("Namespace", Markdown(in.Scope.Namespace))
	} else {
		b.item("Pool", Markdown(strings.Trim(in.Scope.Namespace+"/"+in.Scope.Pool, "/")))
	}
	b.item("Cluster", Markdown(in.Scope.Cluster))
	b.item("Pods", codes(in.Scope.Pods))
	b.item("Nodes", codes(in.Scope.Nodes))
	b.item("GPUs", codes(in.Scope.GPUs))
	b.item("Alerts", fmt.Sprintf("%d, of which %d still fire", in.AlertCount, in.ActiveAlerts))
	if len(in.Symptoms) > 0 {
		b.line("\n| Symptom | Severity | Alerts | First | Last |\n|---|---|---:|---|---|")
		for _, c := range in.Symptoms {
			b.line("| %s | %s | %d | %s | %s |", code(string(c.Symptom)), Markdown(string(c.Severity)), c.Alerts,
				timeText(c.First), timeText(c.Last))
		}
	}
}

func (b *report) timeline(entries []state.Entry) {
	b.heading("Timeline")
	if len(entries) == 0 {
		b.line("Nothing is recorded.")
		return
	}
	b.line("| Time | What | Who |\n|---|---|---|")
	for _, e := range entries {
		b.line("| %s | %s | %s |", timeText(e.At), Markdown(e.Text), Markdown(e.Actor.String()))
	}
}

func (b *report) evidence(in state.Incident) {
	d := in.Diagnosis
	b.heading("Evidence")
	if len(d.Findings) == 0 {
		b.line("None was gathered.")
	} else {
		b.line("Weights are decibans: 10 make the cause ten times as likely.\n")
		b.line("| Weight | Signal | Pod | Value | What it says | Why so much |\n|---:|---|---|---:|---|---|")
		b.line("| %+.1f | prior | | | how common the cause is, before any evidence | |", d.Prior)
		sum := d.Prior
		for _, f := range d.Findings {
			sum += f.Weight
			b.line("| %+.1f | %s | %s | %s | %s | %s |", f.Weight, code(f.Signal), code(f.Pod), Markdown(valueText(f)),
				Markdown(f.Text), Markdown(f.Why))
		}
		b.line("| **%+.1f** | **sum** | | | %.1f ahead of the runner-up | |", sum, d.Margin)
	}
	if len(d.Anomalies) > 0 {
		b.line("\nAgainst the usual:\n")
		for _, a := range d.Anomalies {
			b.line("- %s", Markdown(a.Text))
		}
	}
	if len(d.Correlations) > 0 {
		b.line("\nMoved together, which makes nothing a cause:\n")
		for _, x := range d.Correlations {
			b.line("- %s", Markdown(x.Text))
		}
	}
	if alternatives := AlternativesMarkdown(d.Alternatives); alternatives != "" {
		b.line("\nWeighed and not chosen:\n\n%s", strings.TrimSuffix(alternatives, "\n"))
	}
}

// valueText returns the value of a finding as text, or "" if it has none.
func valueText(f state.Finding) string {
	if !f.Measured() {
		return ""
	}
	return state.FormatValue(f.Value, f.Unit)
}

// StoryMarkdown returns the explanation as Markdown, with the same sentences as the page, Slack and
// the API. It is empty before the first verdict.
func StoryMarkdown(s state.Story) string {
	b := &report{}
	for _, part := range []struct{ label, text string }{
		{"What is wrong", s.What}, {"Why we believe it", s.Why}, {"What else it could be", s.Else}, {"Where the time goes", s.Time},
	} {
		if part.text != "" {
			b.line("**%s.** %s\n", part.label, Markdown(part.text))
		}
	}
	if len(s.Do) > 0 {
		b.line("**Do now:**\n")
	}
	for i, step := range s.Do {
		b.line("%d. %s", i+1, Markdown(step))
	}
	if len(s.Avoid) > 0 {
		b.line("\n**Do not:**\n")
	}
	for _, step := range s.Avoid {
		b.line("- %s", Markdown(step))
	}
	if len(s.Do)+len(s.Avoid) > 0 {
		b.line("")
	}
	return b.String()
}

// AlternativesMarkdown lists the causes that were weighed and not chosen, each with the condition
// under which it would win.
func AlternativesMarkdown(list []state.Alternative) string {
	b := &report{}
	for _, a := range list {
		text := fmt.Sprintf("%s (%s)", code(string(a.Cause)), state.FormatShare(a.Confidence))
		if a.WouldWinIf != "" {
			text += ": would win with " + Markdown(a.WouldWinIf)
		}
		b.line("- %s", text)
	}
	return b.String()
}

func (b *report) actions(actions []state.Action) {
	b.heading("Actions")
	if len(actions) == 0 {
		b.line("None was planned.")
		return
	}
	for _, a := range actions {
		b.line("### %s: %s\n", a.ID, Markdown(a.Change))
		b.item("State", Markdown(string(a.State)))
		b.item("Mode", Markdown(a.Mode))
		b.item("Target", Markdown(a.Target.String()))
		b.item("Why", Markdown(a.Why))
		if a.DecidedBy.ID != "" {
			b.item("Decided by", Markdown(a.DecidedBy.String())+", "+timeText(a.DecidedAt))
		}
		b.item("Called off", Markdown(strings.TrimPrefix(a.CallOff(), "called off ")))
		b.item("Verdict", Markdown(strings.TrimSpace(string(a.Verify.Verdict)+" "+a.Verify.Text)))
		b.item("Ended because", Markdown(a.Reason))
		for _, g := range a.Guards {
			b.line("  - %s: %s, %s", Markdown(g.Guard), Markdown(string(g.Decision)), Markdown(g.Reason))
		}
		b.line("")
	}
}

func (b *report) wentWell(in state.Incident, actions []state.Action) {
	b.heading("What went well")
	n := b.Len()
	if !in.NamedAt.IsZero() {
		b.line("- The cause was named %s after the first alert came.", in.NamedAt.Sub(in.OpenedAt).Round(time.Second))
	}
	if in.AlertCount > 1 {
		b.line("- %d alerts became one incident.", in.AlertCount)
	}
	if !in.AckedAt.IsZero() {
		b.line("- Somebody took it %s after the first alert came.", in.AckedAt.Sub(in.OpenedAt).Round(time.Second))
	}
	for _, a := range actions {
		if a.State == state.Succeeded {
			b.line("- %s helped, and that was verified.", Markdown(a.Change))
		}
	}
	for _, f := range in.Feedback {
		if f.Right {
			b.line("- %s confirmed the diagnosis.", Markdown(f.Actor.String()))
		}
	}
	if b.Len() == n {
		b.line("Nothing that the record shows.")
	}
}

func (b *report) unknown(in state.Incident, actions []state.Action) {
	b.heading("What did not, and what is unknown")
	n := b.Len()
	if in.Cause() == state.Unknown {
		b.line("- The evidence did not decide on a cause.")
	}
	for _, m := range MissingLines(in.Diagnosis.Missing) {
		b.line("- Evidence was missing: %s", Markdown(m))
	}
	for _, a := range actions {
		putBack := a.State == state.Superseded && a.Reached(state.Applied)
		switch {
		case putBack, slices.Contains([]state.ActionState{state.RolledBack, state.NeedsHuman, state.Denied,
			state.Expired}, a.State):
			b.line("- %s ended as %s: %s", Markdown(a.Change), Markdown(string(a.State)), Markdown(a.Reason))
		}
		switch by := a.Journal[state.Released]; {
		case by != "":
			b.line("- %s was taken care of by %s", Markdown(a.Change), Markdown(by))
		case a.NeedsPerson():
			b.line("- %s still waits for a person: see to it, then cancel it", Markdown(a.Change))
		}
	}
	for _, f := range in.Feedback {
		if !f.Right {
			b.line("- %s says that the diagnosis was wrong: %s %s", Markdown(f.Actor.String()), code(string(f.Cause)),
				Markdown(f.Reason))
		}
	}
	if b.Len() == n {
		b.line("Nothing that the record shows.")
	}
}

// confidence returns the confidence of a verdict as part of a sentence.
func confidence(cause state.Cause, value float64) string {
	sure := Sureness(cause, value)
	if sure == NoVerdict {
		return sure
	}
	return "confidence " + sure
}

func timeText(t time.Time) string {
	if t.IsZero() {
		return "not yet"
	}
	return t.UTC().Format("2006-01-02 15:04:05 UTC")
}

var mdEscaper = strings.NewReplacer(
	`\`, `\\`, "`", "\\`", "*", `\*`, "_", `\_`, "[", `\[`, "]", `\]`, "<", "&lt;", ">", "&gt;", "&", "&amp;", "|", `\|`, "~", `\~`,
	"#", `\#`, "!", `\!`, "$", `\$`,
)

// Markdown escapes text so that Markdown shows it literally, on one line.
func Markdown(s string) string { return mdEscaper.Replace(text.Line(s, 4000)) }

// code returns text as a code span. A span cannot hold a backtick, and a table cell cannot hold a
// bar.
func code(s string) string {
	s = strings.NewReplacer("`", "'", "|", "¦").Replace(text.Line(s, 500))
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func codes(names []string) string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		out = append(out, code(n))
	}
	return strings.Join(out, ", ")
}
