package notify

import (
	"fmt"
	"net/url"
	"strings"
	"time"
	"unicode/utf8"

	"paramedic/state"
)

// A Message is an incident in the form that every channel shows. All of its text is clean (see
// text.Clean), bounded, and data: an adapter escapes what its medium would read as markup.
type Message struct {
	Incident   state.IncidentID
	Number     int
	Cluster    string // only if messages are about several clusters
	Rev        uint64
	Status     state.Status
	Severity   state.Severity
	Cause      state.Cause
	Confidence float64
	Likely     string // the leading candidate if the cause is unknown: "probably OOM killed (52 %)"
	Diagnosed  bool
	Title      string
	Where      string
	Place      string // Where in short: without the model of a pool, and without several pods

	// The story.
	What  string
	Why   string
	Else  string
	Time  string // the phases of late requests
	Ended string // how a resolved incident ended, in the past; empty before that, and if it was merged
	Do    []string
	Avoid []string

	Evidence []Fact
	Missing  []string
	Symptoms []string
	Alerts   int
	Checks   []Check
	Actions  []Offer
	Escalate string

	URL           string // the incident's page; empty if the bot has no public URL
	PlaybookID    string
	PlaybookTitle string
	PlaybookURL   string

	StartedAt  time.Time
	OpenedAt   time.Time
	AckedAt    time.Time
	AckedBy    state.Actor
	ResolvedAt time.Time
	ResolvedBy string
	MergedInto string // "#41 KV cache exhausted …"
	RootOpen   bool   // the incident that it was merged into is still open
	RootPaged  bool   // … and has a page of its own
	// HandedAt holds the time at which first aid last needed a person. It is zero if it needs none.
	HandedAt time.Time

	// Words holds the operator's own texts, which replace the built-in ones.
	Words Words

	// Entries is the timeline, oldest first, without the entries that are only for the record.
	Entries []state.Entry
}

// Words holds the texts of the operator's templates for one channel. An empty field keeps the
// built-in text.
type Words struct {
	Title  string // one line of plain text
	Text   string // Slack's mrkdwn, safe to show; PagerDuty's details
	Footer string // one line of plain text
	Links  []Link
	// Failed lists the templates that could not be used, with the reason.
	Failed []string
}

// A Link is a named address.
type Link struct{ URL, Text string }

// A Fact is one piece of evidence. Its weight is in decibans; a positive weight supports the cause.
type Fact struct {
	Text   string
	Signal string
	Pod    string
	Weight float64
}

// A Check is one question of the playbook with its live answer. State is ok, info, warn, bad or
// unknown.
type Check struct {
	Ask    string
	Answer string
	State  string
}

// named reports whether an explanation contains a piece of evidence. A sentence of the explanation
// begins with a capital.
func named(why, evidence string) bool {
	_, n := utf8.DecodeRuneInString(evidence)
	return strings.Contains(why, evidence[n:])
}

// maxChecks is the number of checks that a message names.
const maxChecks = 4

// CheckLines returns the checks with a finding, bad ones first, and counts the others.
func (m Message) CheckLines() []string {
	var lines []string
	named := 0
	counts := map[string]int{}
	for _, at := range []string{"bad", "warn", "ok", "info", "unknown"} {
		for _, c := range m.Checks {
			if c.State != at {
				continue
			}
			counts[at]++
			if mark := map[string]string{"bad": "✗", "warn": "!"}[at]; mark != "" && named < maxChecks {
				named++
				lines = append(lines, fmt.Sprintf("%s %s  %s", mark, c.question(), c.Answer))
			}
		}
	}
	var rest []string
	add := func(n int, text string) {
		if n > 0 {
			rest = append(rest, fmt.Sprintf("%d %s", n, text))
		}
	}
	add(counts["bad"]+counts["warn"]-named, "more with a finding")
	add(counts["ok"], "fine")
	add(counts["info"], "for you to judge")
	add(counts["unknown"], "not measured")
	if len(rest) > 0 {
		lines = append(lines, "Other checks: "+strings.Join(rest, ", "))
	}
	return lines
}

// question returns the check's question without the explanation that may follow it.
func (c Check) question() string {
	if ask, _, ok := strings.Cut(c.Ask, "?"); ok {
		return ask + "?"
	}
	return c.Ask
}

// A Playbook is the part of the incident's playbook that a message shows. HandlerConfig.Playbook
// fills it in.
type Playbook struct {
	ID       string
	Title    string
	URL      string
	Checks   []Check
	Escalate string
}

// An Offer is an action of first aid: planned, offered, running or done.
type Offer struct {
	ID        state.ActionID
	Kind      string
	Target    string
	Change    string
	Why       string
	Command   string
	Mode      string
	State     state.ActionState
	Guards    []state.GuardResult
	PlanHash  string
	Approvers []string
	ExpiresAt time.Time
	DecidedBy string
	Result    string // why it ended, what verification found, or the result of a call to stop it
	Stopping  bool   // a person called it off, and it is not known yet whether in time
	// NeedsPerson is true if the run ended half-way or without a verdict. A person has to take care
	// of it and then cancel it. ReleasedBy is that person.
	NeedsPerson bool
	ReleasedBy  string
	Wrote       bool // it changed its target, or may have
}

// Awaits reports whether the offer waits for a person.
func (o Offer) Awaits() bool { return o.State == state.AwaitingApproval }

// ApproveCommand returns the command that approves exactly the plan that is shown.
func (o Offer) ApproveCommand() string {
	return fmt.Sprintf("paramedic approve %s %s", o.ID, state.ShortPlan(o.PlanHash))
}

// Handed returns the first of the actions that need a person, if any does.
func (m Message) Handed() (Offer, bool) {
	for _, o := range m.Actions {
		if o.NeedsPerson {
			return o, true
		}
	}
	return Offer{}, false
}

// Stopped returns the guards' answers that keep the action from running, or none if all allow it.
// It leaves out the missing approval of an action that waits for one or just got it.
func (o Offer) Stopped() []state.GuardResult { return state.Blocking(o.Guards, o.State) }

// Asked returns the guards' answers in short: how many allow the action, or which one blocks it. It
// is empty if no guard was asked.
func (o Offer) Asked() string { return state.GuardText(o.Guards, o.State) }

// Links returns the addresses of the bot's own pages. Base is the public URL. Without it there are
// no links.
type Links struct{ Base string }

// Incident is the address of an incident's page.
func (l Links) Incident(id state.IncidentID) string { return l.page("incidents", string(id)) }

// List is the address of the list of incidents.
func (l Links) List() string {
	if l.Base == "" {
		return ""
	}
	return strings.TrimRight(l.Base, "/") + "/incidents"
}

// Playbook is the address of a playbook's page.
func (l Links) Playbook(id string) string { return l.page("playbooks", id) }

func (l Links) page(kind, id string) string {
	if l.Base == "" || id == "" {
		return ""
	}
	return strings.TrimRight(l.Base, "/") + "/" + kind + "/" + url.PathEscape(id)
}

// Acknowledged reports whether a person has acknowledged the incident since first aid last needed
// one.
func (m Message) Acknowledged() bool { return !m.AckedAt.IsZero() && !m.HandedAt.After(m.AckedAt) }

// Name is the incident's short name for people: #7, or #prod-7.
func (m Message) Name() string { return state.ShortName(m.Cluster, m.Number, m.Cluster != "") }

// Headline is the title: the operator's own, else the built-in one.
func (m Message) Headline() string {
	if m.Words.Title != "" {
		return m.Words.Title
	}
	return m.Title
}

// Verdict is the cause and how sure it is, in a few words.
func (m Message) Verdict() string {
	switch {
	case !m.Diagnosed:
		return "not diagnosed yet"
	case m.Cause == state.Unknown && m.Likely != "":
		return "unknown, " + m.Likely
	case m.Cause == state.Unknown:
		return "unknown"
	}
	return fmt.Sprintf("%s, %s sure", m.Cause, state.FormatShare(m.Confidence))
}

// Gravity returns the severity and the confidence: "critical, 93 % sure". For an unknown cause it
// has the likely one, or only the severity: the title already begins with "Undiagnosed".
func (m Message) Gravity() string {
	switch {
	case !m.Diagnosed:
		return string(m.Severity) + ", not diagnosed yet"
	case m.Cause == state.Unknown && m.Likely != "":
		return string(m.Severity) + ", " + m.Likely
	case m.Cause == state.Unknown:
		return string(m.Severity)
	}
	return fmt.Sprintf("%s, %s sure", m.Severity, state.FormatShare(m.Confidence))
}

// MoreEvidence returns the evidence that the explanation does not name already, without the alerts.
// A piece that opposes the cause begins with "Against it: ".
func (m Message) MoreEvidence() []string {
	var out []string
	for _, f := range m.Evidence {
		switch {
		case strings.HasPrefix(f.Signal, "symptom:") || named(m.Why, f.Text):
		case f.Weight < 0:
			out = append(out, "Against it: "+f.Text)
		default:
			out = append(out, f.Text)
		}
	}
	return out
}

// GuardsSay returns the sentence of [state.GuardsSay] for the offer.
func (o Offer) GuardsSay() string { return state.GuardsSay(o.Guards, o.State) }
