package report

import (
	"cmp"
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
	Titles   state.Titles
}

// Report returns the post-incident report in Markdown. Text from outside is escaped.
func Report(c Case, now time.Time) string {
	b, in, actions := &report{}, c.Incident, c.Actions
	b.line("# Incident %s (#%d): %s", in.ID, in.Number, Markdown(in.Title))
	b.summary(c, now)
	b.impact(in, now, c.Titles)
	b.timeline(c.Timeline)
	b.evidence(in, c.Titles)
	b.courses(in, c.Curves, c.Titles)
	b.actions(actions, c.Titles)
	b.wentWell(in, actions)
	b.unknown(in, actions, c.Titles)
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

func (b *report) summary(c Case, now time.Time) {
	in, d := c.Incident, c.Incident.Diagnosis
	b.heading("Summary")
	if ended := state.EndText(&in, c.Actions, c.Titles.Signal); ended != "" {
		b.line("%s\n", Markdown(ended))
		b.line("The diagnosis was:\n")
	}
	if story := StoryMarkdown(d.Story); story != "" {
		b.WriteString(story)
	}
	cause := code(string(in.Cause()))
	if !in.DiagnosedAt.IsZero() {
		cause += " (" + cmp.Or(d.Likely.Words(), confidence(in.Cause(), d.Confidence)) + ")"
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
	if in.Open() || !in.NamedAt.IsZero() {
		b.item("Cause named", timeText(in.NamedAt))
	}
	if !in.AckedAt.IsZero() {
		b.item("Acknowledged", timeText(in.AckedAt)+" by "+Markdown(in.Acker().String()))
	}
	if in.ResolvedAt.IsZero() {
		b.item("Resolved", "not yet, as of "+timeText(now))
	} else {
		b.item("Resolved", timeText(in.ResolvedAt)+" by "+Markdown(in.ResolvedBy))
	}
	b.item("Playbook", code(d.Playbook))
}

func (b *report) impact(in state.Incident, now time.Time, titles state.Titles) {
	b.heading("Impact")
	end := in.ResolvedAt
	if end.IsZero() {
		end = now
	}
	b.item("Lasted", end.Sub(in.StartedAt).Round(time.Second).String())
	place := in.Place()
	b.item("Model", Markdown(place.Model))
	b.item("Pools", codes(in.PoolNames()))
	if place.Pool == "" {
		b.item("Namespace", Markdown(place.Namespace))
	} else {
		b.item("Pool", Markdown(strings.Trim(place.Namespace+"/"+place.Pool, "/")))
	}
	b.item("Cluster", Markdown(in.Scope.Cluster))
	b.item("Pods", codes(in.Scope.Pods))
	b.item("Nodes", codes(in.Scope.Nodes))
	b.item("GPUs", codes(in.Scope.GPUs))
	b.item("Alerts", alerts(in))
	if len(in.Symptoms) > 0 {
		b.line("\n| Symptom | Severity | Alerts | First | Last |\n|---|---|---:|---|---|")
		for _, c := range in.Symptoms {
			b.line("| %s | %s | %d | %s | %s |", Markdown(titles.Symptom(c.Symptom)), Markdown(string(c.Severity)), c.Alerts,
				timeText(c.First), timeText(c.Last))
		}
	}
}

func (b *report) timeline(entries []state.Entry) {
	b.heading("Timeline")
	if len(entries) == 0 {
		b.line("The timeline has no entry.")
		return
	}
	b.line("| Time | What | Who |\n|---|---|---|")
	for _, e := range entries {
		b.line("| %s | %s | %s |", timeText(e.At), Markdown(e.Text), Markdown(e.Actor.String()))
	}
}

func (b *report) evidence(in state.Incident, titles state.Titles) {
	d := in.Diagnosis
	b.heading("Evidence")
	if len(d.Findings) == 0 {
		b.line("Paramedic gathered no evidence.")
	} else {
		b.line("Weights are decibans: +10 makes the cause ten times as likely.\n")
		b.line("| Weight | Signal | Pod | Value | Finding | Reason for the weight |\n|---:|---|---|---:|---|---|")
		b.line("| %+.1f | prior | | | How common the cause is without evidence | |", d.Prior)
		sum := d.Prior
		for _, f := range d.Findings {
			sum += f.Weight
			b.line("| %+.1f | %s | %s | %s | %s | %s |", f.Weight, Markdown(titles.Signal(f.Signal)), code(f.Pod), Markdown(valueText(f)),
				Markdown(f.Text), Markdown(f.Why))
		}
		b.line("| **%+.1f** | **sum** | | | %.1f ahead of the runner-up | |", sum, d.Margin)
	}
	if chain := ChainMarkdown(d.Chain); chain != "" {
		b.line("\n%s:\n\n%s", state.ChainTitle, strings.TrimSuffix(chain, "\n"))
	}
	if len(d.Anomalies) > 0 {
		b.line("\nUnusual values:\n")
		for _, a := range d.Anomalies {
			b.line("- %s", Markdown(a.Text))
		}
	}
	if len(d.Correlations) > 0 {
		b.line("\nSignals that moved together (this proves no cause):\n")
		for _, x := range d.Correlations {
			b.line("- %s", Markdown(x.Text))
		}
	}
	if alternatives := AlternativesMarkdown(d.Alternatives); alternatives != "" {
		b.line("\nOther causes that the evidence did not support:\n\n%s", strings.TrimSuffix(alternatives, "\n"))
	}
}

// alerts counts the incident's alerts and those that still fire.
func alerts(in state.Incident) string {
	if in.ActiveAlerts == 0 {
		return fmt.Sprintf("%d, none fires now", in.AlertCount)
	}
	fire := "fire"
	if in.ActiveAlerts == 1 {
		fire = "fires"
	}
	return fmt.Sprintf("%d, %d %s now", in.AlertCount, in.ActiveAlerts, fire)
}

// verdict returns the result of an action's verification as text.
func verdict(a state.Action, titles state.Titles) string {
	text := strings.TrimPrefix(a.Verify.Text, string(a.Verify.Verdict)+": ")
	if a.Verify.Verdict == "" || text == "" {
		return string(a.Verify.Verdict) + titles.Text(text)
	}
	return string(a.Verify.Verdict) + ": " + titles.Text(text)
}

// stateName returns a run's state in words.
func stateName(s state.ActionState) string { return strings.ReplaceAll(string(s), "_", " ") }

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

// ChainMarkdown lists the links from a cause to its symptoms. It is empty if there are none.
func ChainMarkdown(links []state.Link) string {
	b := &report{}
	for i, l := range links {
		b.line("%d. %s: %s", i+1, l.Role, Markdown(l.Text))
	}
	return b.String()
}

// AlternativesMarkdown lists the causes that the verdict did not choose, each with the condition
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

func (b *report) actions(actions []state.Action, titles state.Titles) {
	b.heading("Actions")
	if len(actions) == 0 {
		b.line("Paramedic planned no action.")
		return
	}
	for _, a := range actions {
		b.line("### %s: %s\n", a.ID, Markdown(a.Change))
		b.item("State", Markdown(stateName(a.State)))
		b.item("Mode", Markdown(a.Mode))
		b.item("Target", Markdown(a.Target.String()))
		b.item("Why", Markdown(a.Why))
		if a.DecidedBy.ID != "" {
			b.item("Decided by", Markdown(a.DecidedBy.String())+", "+timeText(a.DecidedAt))
		}
		b.item("Cancelled", Markdown(strings.TrimPrefix(a.CallOff(), "called off ")))
		b.item("Verdict", Markdown(verdict(a, titles)))
		b.item("Reason of its end", Markdown(titles.Text(a.Reason)))
		if len(a.Guards) > 0 {
			b.item("Guards", Markdown(state.GuardText(a.Guards, a.State)))
		}
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
		b.line("- Paramedic named the cause %s after it noticed the incident.", in.NamedAt.Sub(in.OpenedAt).Round(time.Second))
	}
	if in.AlertCount > 1 {
		b.line("- Paramedic grouped %d alerts into one incident.", in.AlertCount)
	}
	switch by := Markdown(in.Acker().String()); {
	case in.AckedAt.IsZero():
	case in.AckedAt.Before(in.OpenedAt): // a part of it, which was merged into it later
		b.line("- %s acknowledged a part of it before this incident was opened.", by)
	default:
		b.line("- %s acknowledged it %s after Paramedic noticed it.", by, in.AckedAt.Sub(in.OpenedAt).Round(time.Second))
	}
	for _, a := range actions {
		if a.State == state.Succeeded {
			b.line("- It helped: %s. Paramedic verified it.", Markdown(a.Doing()))
		}
	}
	for _, f := range in.Feedback {
		if f.Right {
			b.line("- %s confirmed the diagnosis.", Markdown(f.Actor.String()))
		}
	}
	if b.Len() == n {
		b.line("The record shows nothing.")
	}
}

func (b *report) unknown(in state.Incident, actions []state.Action, titles state.Titles) {
	b.heading("What went wrong, and what is unknown")
	n := b.Len()
	if in.Cause() == state.Unknown {
		b.line("- The evidence did not decide on a cause.")
	}
	for _, m := range in.Diagnosis.MissingLines(titles) {
		b.line("- Missing evidence: %s", Markdown(m))
	}
	for _, a := range actions {
		putBack := a.State == state.Superseded && a.Reached(state.Applied)
		switch {
		case putBack, slices.Contains([]state.ActionState{state.RolledBack, state.NeedsHuman, state.Denied,
			state.Expired}, a.State):
			b.line("- %s ended as %s: %s", Markdown(a.Change), Markdown(stateName(a.State)), Markdown(titles.Text(a.Reason)))
		}
		switch by := a.Journal[state.Released]; {
		case by != "":
			b.line("- %s needed a person: %s took care of it", Markdown(a.Change), Markdown(by))
		case a.NeedsPerson():
			b.line("- %s still needs a person: fix it, then cancel the action", Markdown(a.Change))
		}
	}
	for _, f := range in.Feedback {
		if !f.Right {
			b.line("%s", wrong(f))
		}
	}
	if b.Len() == n {
		b.line("The record shows nothing.")
	}
}

// wrong returns a person's opinion that the verdict was wrong, with the cause and the reason if
// there are any.
func wrong(f state.Feedback) string {
	said := "- " + Markdown(f.Actor.String()) + " reported a wrong diagnosis"
	if f.Cause != "" {
		said += "; the cause was " + code(string(f.Cause))
	}
	if f.Reason != "" {
		said += ": " + Markdown(f.Reason)
	}
	return said
}

// confidence returns the confidence of a verdict as part of a sentence.
func confidence(cause state.Cause, value float64) string {
	sure := Sureness(cause, value)
	if sure == NoVerdict {
		return sure
	}
	return sure + " sure"
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
