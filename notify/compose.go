package notify

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/internal/text"
	"paramedic/state"
)

// The bounds of a message. An incident of any size makes a message within them; the page shows the
// rest.
const (
	maxText     = 2000
	maxLine     = 600
	maxFacts    = 12
	maxLines    = 10
	maxSymptoms = 12
	maxOffers   = 10
	maxEntries  = 500
)

// Facts holds everything that a message is composed of.
type Facts struct {
	Incident state.Incident
	Actions  []state.Action
	Timeline []state.Entry
	Evidence state.Evidence
	Playbook Playbook
	Links    Links
	Alerts   []state.AlertRecord // for the operator's templates; nil if there are none
	Several  bool                // messages are about several clusters, so that a name includes its cluster
	Titles   state.Titles        // of signals and symptoms
	// Root is the incident that this one was merged into, if any.
	Root *state.Incident
}

// Compose returns the message of an incident. It is pure.
func Compose(f Facts) Message {
	in, d := &f.Incident, &f.Incident.Diagnosis
	m := Message{
		Incident: in.ID, Number: in.Number, Rev: in.Rev, Status: in.Status, Severity: in.Severity,
		Cause: in.Cause(), Confidence: d.Confidence, Likely: d.Likely.Words(), Diagnosed: !in.DiagnosedAt.IsZero(),
		Title: title(in), Where: where(in), Place: place(in), Alerts: in.AlertCount,
		What: line(d.Story.What, maxText), Why: line(d.Story.Why, maxText), Else: line(d.Story.Else, maxText),
		Time:     line(d.Story.Time, maxText),
		Do:       several(maxLines, d.Story.Do),
		Avoid:    several(maxLines, d.Story.Avoid),
		Missing:  several(maxLines, d.MissingLines(f.Titles)),
		Symptoms: symptoms(in, f.Titles),
		Ended:    Outcome(in, f.Actions, f.Titles.Signal),
		Escalate: line(f.Playbook.Escalate, maxLine),
		URL:      f.Links.Incident(in.ID), PlaybookID: f.Playbook.ID, PlaybookTitle: line(f.Playbook.Title, maxLine),
		PlaybookURL: f.Playbook.URL,
		StartedAt:   in.StartedAt, OpenedAt: in.OpenedAt, AckedAt: in.AckedAt, AckedBy: in.Acker(),
		ResolvedAt: in.ResolvedAt, ResolvedBy: line(in.ResolvedBy, maxLine), HandedAt: in.HandedAt,
	}
	if f.Several {
		m.Cluster = line(in.Cluster, 120)
	}
	m.AckedBy.Name = line(m.AckedBy.Name, maxLine)
	if m.PlaybookURL == "" {
		m.PlaybookURL = f.Links.Playbook(f.Playbook.ID)
	}
	if in.MergedInto != "" {
		m.MergedInto = string(in.MergedInto)
		if f.Root != nil {
			m.MergedInto = line(f.Root.ShortName(f.Several), maxLine) + " " + title(f.Root)
			m.RootOpen = f.Root.Open()
			page := f.Root.Told.Ref(state.ChannelPagerDuty, "status")
			m.RootPaged = m.RootOpen && (page == "triggered" || page == "acknowledged")
		}
	}
	for i, c := range f.Playbook.Checks {
		if i == maxLines {
			break
		}
		m.Checks = append(m.Checks, Check{Ask: line(c.Ask, maxLine), Answer: line(f.Titles.Text(c.Answer), maxLine), State: c.State})
	}
	for i, x := range d.Findings {
		if i == maxFacts {
			break
		}
		m.Evidence = append(m.Evidence,
			Fact{Text: line(x.Text, maxLine), Signal: x.Signal, Pod: line(x.Pod, maxLine), Weight: x.Weight})
	}
	m.Actions = offers(f.Actions, f.Titles)
	m.Entries = shownEntries(f.Timeline)
	m.fill(in)
	return m
}

// fill sets the texts that the story lacks, such as before the first verdict.
func (m *Message) fill(in *state.Incident) {
	if m.What == "" {
		fire := " fire in "
		if in.ActiveAlerts == 1 {
			fire = " fires in "
		}
		m.What = text.Count(in.ActiveAlerts, "alert") + fire + subject(in)
		if len(m.Symptoms) > 0 {
			m.What += ": " + strings.Join(m.Symptoms, ", ")
		}
		m.What = line(m.What+".", maxText)
	}
	if m.Why == "" {
		switch {
		case !m.Diagnosed:
			m.Why = "No verdict yet: Paramedic still gathers the evidence."
		case m.Cause == state.Unknown:
			m.Why = "The evidence does not decide between the causes that explain this."
		case len(m.Evidence) > 0:
			m.Why = m.Evidence[0].Text
		}
	}
	if m.Else == "" && len(in.Diagnosis.Alternatives) > 0 {
		a := in.Diagnosis.Alternatives[0]
		m.Else = fmt.Sprintf("%s (%s)", a.Cause, state.FormatShare(a.Confidence))
		if a.WouldWinIf != "" {
			m.Else += ", if " + a.WouldWinIf
		}
		m.Else = line(m.Else, maxText)
	}
}

// line returns outside text cleaned and cut.
func line(s string, limit int) string { return text.Line(s, limit) }

// several returns the first lines of a list, each once.
func several(limit int, list []string) []string {
	var out []string
	for _, s := range list {
		s = line(s, maxLine)
		if s == "" || slices.Contains(out, s) {
			continue
		}
		if len(out) == limit {
			return out
		}
		out = append(out, s)
	}
	return out
}

func title(in *state.Incident) string {
	for _, s := range []string{in.Title, in.Diagnosis.Title} {
		if s = line(s, maxLine); s != "" {
			return s
		}
	}
	return "Trouble in " + where(in)
}

// where returns the scope in words, widest first.
func where(in *state.Incident) string { return scopeText(in, in.Place()) }

// place returns the scope in short.
func place(in *state.Incident) string {
	s := in.Place()
	if s.Pool != "" {
		s.Model = ""
	}
	if len(s.Pods) > 1 {
		s.Pods = nil
	}
	return scopeText(in, s)
}

func scopeText(in *state.Incident, s state.Scope) string {
	parts := []string{}
	add := func(label, text string) {
		if text = line(text, 120); text != "" {
			parts = append(parts, label+text)
		}
	}
	add("", in.Cluster)
	switch {
	case s.Namespace != "" && s.Pool != "":
		add("", s.Namespace+"/"+s.Pool)
	default:
		add("", s.Namespace)
		add("", s.Pool)
	}
	if s.Pool == "" {
		add("", few(in.PoolNames()))
	}
	add("model ", s.Model)
	add("node ", few(s.Nodes))
	add("GPU ", few(s.GPUs))
	add("", few(s.Pods))
	if len(parts) == 0 {
		return "the fleet"
	}
	return strings.Join(parts, " · ")
}

// subject returns the incident's pool, or else its model or scope, for a sentence.
func subject(in *state.Incident) string {
	switch s := in.Place(); {
	case s.Pool != "":
		return line(strings.Trim(s.Namespace+"/"+s.Pool, "/"), 120)
	case s.Model != "":
		return line(s.Model, 120)
	}
	return where(in)
}

// few names the first items of a list and counts the others.
func few(names []string) string {
	const shown = 2
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// symptoms returns the titles of the symptoms with the number of their alerts.
func symptoms(in *state.Incident, titles state.Titles) []string {
	var out []string
	for i, s := range in.Symptoms {
		if i == maxSymptoms {
			return append(out, fmt.Sprintf("and %d more", len(in.Symptoms)-i))
		}
		out = append(out, fmt.Sprintf("%s ×%d", line(titles.Symptom(s.Symptom), 80), max(s.Alerts, 1)))
	}
	return out
}

// offers returns the actions that matter. Those that wait for a person come first. It leaves out a
// plan that was superseded before it wrote, and one that was planned again later.
func offers(actions []state.Action, titles state.Titles) []Offer {
	var out []Offer
	for i, a := range actions {
		again := func(b state.Action) bool { return b.SameRemedy(&a) }
		if a.State == state.Superseded && !a.Reached(state.Applied) ||
			a.RanOut() && slices.ContainsFunc(actions[i+1:], again) {
			continue
		}
		o := Offer{
			ID: a.ID, Kind: a.Kind, Target: line(a.Target.String(), maxLine), Change: line(a.Change, maxLine), Why: line(a.Why, maxLine),
			Command: line(a.Command, maxText), Mode: a.Mode, State: a.State, PlanHash: a.PlanHash, Approvers: a.Approvers,
			ExpiresAt: a.ExpiresAt, DecidedBy: line(a.DecidedBy.String(), 120), Result: line(a.Reason, maxLine),
			NeedsPerson: a.NeedsPerson(), Wrote: a.Wrote(), ReleasedBy: line(a.Journal[state.Released], 120),
		}
		switch {
		case o.NeedsPerson:
			o.Result = line(a.Reason, maxText) // with the command that undoes it
		case a.Verify.Text != "":
			o.Result = line(titles.Text(a.Verify.Text), maxLine)
		}
		if said := a.CallOff(); said != "" {
			o.Stopping = a.State == state.Intent
			o.Result = line(strings.TrimSuffix(said+"; "+o.Result, "; "), maxLine)
		}
		for _, g := range a.Guards {
			o.Guards = append(o.Guards, state.GuardResult{Guard: line(g.Guard, 80), Decision: g.Decision,
				Reason: line(g.Reason, 300), RetryAt: g.RetryAt})
		}
		out = append(out, o)
	}
	slices.SortStableFunc(out, func(a, b Offer) int { return rank(a) - rank(b) })
	return out[:min(len(out), maxOffers)]
}

func rank(o Offer) int {
	switch {
	case o.Awaits(), o.NeedsPerson:
		return 0
	case o.State.Running():
		return 1
	case !o.State.Done():
		return 2
	}
	return 3
}

// shownEntries returns the entries that are shown, without those that are only for the record. Of a
// very long timeline it returns the newest.
func shownEntries(entries []state.Entry) []state.Entry {
	var out []state.Entry
	for _, e := range entries {
		if e.Quiet {
			continue
		}
		e.Text = line(e.Text, maxLine)
		e.Actor.Name = line(e.Actor.Name, 120)
		out = append(out, e)
	}
	return out[max(0, len(out)-maxEntries):]
}
