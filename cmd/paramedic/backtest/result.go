package backtest

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
)

// A Report holds the result of a backtest.
type Report struct {
	From    time.Time `json:"from"`
	To      time.Time `json:"to"`
	Cluster string    `json:"cluster"`

	Alerts int  `json:"alerts"` // intervals in which an alert fired
	Before Sent `json:"before"` // by Alertmanager alone, with its default grouping
	After  Sent `json:"after"`  // by the bot

	IncidentCount int          `json:"incident_count"`
	Merged        int          `json:"merged"` // incidents that turned out to be part of another one
	Causes        []CauseCount `json:"causes"`
	ToCause       *Times       `json:"time_to_cause"` // from the first alert to the cause; null if no cause was named
	Incidents     []Incident   `json:"incidents"`     // at most 500

	ActionCount int          `json:"action_count"`
	Allowed     int          `json:"allowed"` // actions that every guard that could be asked allowed
	Stops       []GuardCount `json:"stops"`
	Actions     []Action     `json:"actions"`   // at most 500
	NotAsked    []string     `json:"not_asked"` // guards that need objects of Kubernetes

	Rules []RuleCount `json:"rules"`
	// NeverMattered lists the rules whose alerts were in no incident with a cause to act on.
	NeverMattered []string       `json:"never_mattered"`
	Missing       []MissingCount `json:"missing"`
	// NotReconstructed lists what the past does not show.
	NotReconstructed []string `json:"not_reconstructed"`
}

// Sent counts what reached people: notifications in the chat, and pages.
type Sent struct {
	Notifications int `json:"notifications"`
	Pages         int `json:"pages"`
}

// add counts the first message about an incident on a channel.
func (s *Sent) add(ch state.Channel) {
	switch ch {
	case state.ChannelPagerDuty:
		s.Pages++
	case state.ChannelSlack:
		s.Notifications++
	}
}

// A CauseCount counts the incidents with a cause.
type CauseCount struct {
	Cause     state.Cause `json:"cause"`
	Incidents int         `json:"incidents"`
}

// Times holds quantiles of a time in seconds.
type Times struct {
	Incidents int     `json:"incidents"`
	Median    float64 `json:"median_s"`
	P90       float64 `json:"p90_s"`
}

// An Incident is one incident in its last form.
type Incident struct {
	ID         state.IncidentID `json:"id"`
	Number     int              `json:"number"`
	Cause      state.Cause      `json:"cause"`
	Likely     string           `json:"likely,omitempty"` // the leading candidate of an unknown
	Confidence float64          `json:"confidence"`
	Severity   state.Severity   `json:"severity"`
	Title      string           `json:"title"`
	Namespace  string           `json:"namespace,omitempty"`
	Pool       string           `json:"pool,omitempty"`
	StartedAt  time.Time        `json:"started_at"`
	ResolvedAt *time.Time       `json:"resolved_at"` // null: it was open at the end of the window
	ToCause    *float64         `json:"to_cause_s"`  // from the first alert to the cause; null without a cause
	Alerts     int              `json:"alerts"`
	Rules      []string         `json:"rules"`
	Paged      bool             `json:"paged"`
	lacks      []string
}

// incidentOf returns the row of an incident.
func incidentOf(in *state.Incident) Incident {
	d := in.Diagnosis
	out := Incident{ID: in.ID, Number: in.Number, Cause: in.Cause(), Confidence: d.Confidence, Severity: in.Severity,
		Title: in.Title, Namespace: in.Scope.Namespace, Pool: in.Scope.Pool, StartedAt: in.StartedAt, Alerts: in.AlertCount,
		Rules: []string{}, Paged: slices.Contains(in.Channels, state.ChannelPagerDuty)}
	if !in.ResolvedAt.IsZero() {
		out.ResolvedAt = &in.ResolvedAt
	}
	if !in.NamedAt.IsZero() {
		took := in.NamedAt.Sub(in.StartedAt).Seconds()
		out.ToCause = &took
	}
	if d.Likely != nil && in.Cause() == state.Unknown {
		out.Likely, out.lacks = string(d.Likely.Cause), d.Likely.Lacks
	}
	for _, s := range in.Symptoms {
		for _, r := range s.Rules {
			if !slices.Contains(out.Rules, r) {
				out.Rules = append(out.Rules, r)
			}
		}
	}
	slices.Sort(out.Rules)
	return out
}

// An Action is one action that the bot would have proposed.
type Action struct {
	Incident  int                 `json:"incident"` // its number
	Cause     state.Cause         `json:"cause"`
	At        time.Time           `json:"at"`
	Kind      string              `json:"kind"`
	Change    string              `json:"change"`
	Guards    []state.GuardResult `json:"guards"`
	StoppedBy []string            `json:"stopped_by"` // guards that denied it or held it back
}

func actionOf(in *state.Incident, a *state.Action, now time.Time) Action {
	out := Action{Incident: in.Number, Cause: in.Cause(), At: now, Kind: a.Kind, Change: a.Change, Guards: a.Guards,
		StoppedBy: []string{}}
	for _, g := range a.Guards {
		if g.Decision != state.Allow {
			out.StoppedBy = append(out.StoppedBy, g.Guard)
		}
	}
	return out
}

// A GuardCount counts the actions that a guard would have stopped. One action may count for several
// guards.
type GuardCount struct {
	Guard   string `json:"guard"`
	Actions int    `json:"actions"`
}

// A RuleCount counts the alerts of one rule, and the incidents that they belonged to.
type RuleCount struct {
	Rule      string `json:"rule"`
	Alerts    int    `json:"alerts"`
	Incidents int    `json:"incidents"`
	Named     int    `json:"named"` // of them with a cause to act on
	Benign    int    `json:"benign"`
	Unknown   int    `json:"unknown"`
	Gone      bool   `json:"gone"` // Prometheus evaluates no such rule today
}

// A MissingCount counts the incidents of unknown cause that lacked something.
type MissingCount struct {
	What      string `json:"what"`
	Incidents int    `json:"incidents"`
}

// mostMissing limits the list of what was missing.
const mostMissing = 15

// report returns the result at the end of the window.
func (t *tally) report(from, to time.Time, cluster string) Report {
	out := Report{From: from, To: to, Cluster: cluster, Alerts: t.Alerts, Before: t.Before, After: t.After,
		IncidentCount: t.Opened, Merged: t.Merged, ActionCount: t.Proposed, Allowed: t.Allowed, NotAsked: unjudged,
		Causes: []CauseCount{}, Stops: []GuardCount{}, Rules: []RuleCount{}, NeverMattered: []string{},
		Missing: t.missing(), Incidents: append([]Incident{}, t.Incidents...), Actions: append([]Action{}, t.Actions...)}
	for cause, n := range t.Causes {
		out.Causes = append(out.Causes, CauseCount{cause, n})
	}
	slices.SortFunc(out.Incidents, func(a, b Incident) int { return cmp.Compare(a.Number, b.Number) })
	slices.SortFunc(out.Causes, func(a, b CauseCount) int {
		return cmp.Or(b.Incidents-a.Incidents, strings.Compare(string(a.Cause), string(b.Cause)))
	})
	for g, n := range t.Stops {
		out.Stops = append(out.Stops, GuardCount{g, n})
	}
	slices.SortFunc(out.Stops, func(a, b GuardCount) int {
		return cmp.Or(b.Actions-a.Actions, strings.Compare(a.Guard, b.Guard))
	})
	for _, name := range slices.Sorted(maps.Keys(t.Rules)) {
		r := t.Rules[name]
		out.Rules = append(out.Rules, RuleCount{Rule: name, Alerts: r.Fired, Incidents: r.Incidents, Named: r.Named,
			Benign: r.Benign, Unknown: r.Unknown, Gone: r.Gone})
		if r.Named == 0 && r.Fired > 0 {
			out.NeverMattered = append(out.NeverMattered, name)
		}
	}
	slices.SortStableFunc(out.Rules, func(a, b RuleCount) int { return b.Alerts - a.Alerts })
	if median, ok := t.quantile(0.5); ok {
		n := 0
		for _, k := range t.ToCause {
			n += k
		}
		p90, _ := t.quantile(0.9)
		out.ToCause = &Times{Incidents: n, Median: median, P90: p90}
	}
	out.NotReconstructed = t.lost()
	return out
}

// missing returns what incidents of unknown cause lacked, the most frequent first.
func (t *tally) missing() []MissingCount {
	out := []MissingCount{}
	for what, n := range t.Lacking {
		out = append(out, MissingCount{what, n})
	}
	for what, n := range t.Missing {
		reason, signal, _ := strings.Cut(what, "\n")
		out = append(out, MissingCount{signal + " (" + reason + ")", n})
	}
	slices.SortFunc(out, func(a, b MissingCount) int {
		return cmp.Or(b.Incidents-a.Incidents, strings.Compare(a.What, b.What))
	})
	return out[:min(len(out), mostMissing)]
}

// lost returns what the past does not show, and what that means for the result.
func (t *tally) lost() []string {
	out := []string{
		"annotations: a rule that tells something only there is read by its name, labels and expression",
		"silences and inhibitions: muted alerts count as sent, in both columns",
		"Kubernetes' objects and events: only their metrics were read, so the guards " + text.List(unjudged) +
			" were not asked",
		"what people did: nothing was acknowledged, approved or halted, and no action was carried out",
	}
	gone := 0
	for _, r := range t.Rules {
		if r.Gone {
			gone++
		}
	}
	if gone > 0 {
		out = append(out, fmt.Sprintf("the expressions of %s that Prometheus no longer evaluates, or whose labels changed: their "+
			"alerts were read by name and labels only", text.Count(gone, "rule")))
	}
	if t.Cut > 0 {
		out = append(out, fmt.Sprintf("the start of %s that fired already when the window began", text.Count(t.Cut, "alert")))
	}
	if t.None > 0 {
		out = append(out, fmt.Sprintf("%s of severity none, such as a dead man's switch: Alertmanager is assumed to send them to no person",
			text.Count(t.None, "alert")))
	}
	if t.Aside > 0 {
		out = append(out, fmt.Sprintf("%s that the bot would not have taken, because of their labels", text.Count(t.Aside, "alert")))
	}
	return out
}
