package api

import (
	"cmp"
	"time"

	"paramedic/state"
)

// IncidentJSON is an incident in the API. Lists are never null; a time that has not come is null.
type IncidentJSON struct {
	ID         state.IncidentID `json:"id"`
	Number     int              `json:"number"`
	Name       string           `json:"name"` // #42, or #prod-42 if the bot has several clusters
	Status     state.Status     `json:"status"`
	Severity   state.Severity   `json:"severity"`
	Cause      state.Cause      `json:"cause"`
	Confidence float64          `json:"confidence"`
	Impact     state.Impact     `json:"impact"`
	Title      string           `json:"title"`
	Scope      state.Scope      `json:"scope"`
	// Pools lists the pools in which the cause shows, if it shows in several. The scope then names
	// none of them.
	Pools           []state.PoolName  `json:"pools,omitempty"`
	Alternatives    []AlternativeJSON `json:"alternatives"`
	Likely          *state.Likely     `json:"likely"` // null unless the cause is unknown and one candidate leads
	Symptoms        []SymptomJSON     `json:"symptoms"`
	AlertCount      int               `json:"alert_count"`
	Evidence        []EvidenceJSON    `json:"evidence"`
	MissingEvidence []string          `json:"missing_evidence"`
	Playbook        string            `json:"playbook"`
	Actions         []ActionJSON      `json:"actions"`
	StartedAt       *time.Time        `json:"started_at"`
	OpenedAt        *time.Time        `json:"opened_at"`
	DiagnosedAt     *time.Time        `json:"diagnosed_at"` // the first verdict, which may be unknown
	NamedAt         *time.Time        `json:"named_at"`     // the first verdict with the current cause
	ResolvedAt      *time.Time        `json:"resolved_at"`

	// With the prior and the margin, a reader can check the sum: prior plus weights is the score,
	// in decibans.
	Prior  float64 `json:"prior"`
	Score  float64 `json:"score"`
	Margin float64 `json:"margin"`
	// Key signals that deviate from normal, and signals that moved together with what users feel.
	// None of them is a cause by itself.
	Anomalies    []state.Anomaly     `json:"anomalies"`
	Correlations []state.Correlation `json:"correlations"`
	// The signals from the cause to the symptoms, in this order.
	Chain []state.Link `json:"chain"`

	Story         StoryJSON        `json:"story"`
	ActiveAlerts  int              `json:"active_alerts"`
	AckedAt       *time.Time       `json:"acked_at"`
	AckedBy       string           `json:"acked_by,omitempty"`
	ResolvedBy    string           `json:"resolved_by,omitempty"`
	SilencedUntil *time.Time       `json:"silenced_until"`
	MergedInto    state.IncidentID `json:"merged_into,omitempty"`
}

// AlternativeJSON is a cause that was weighed and not chosen.
type AlternativeJSON struct {
	Cause      state.Cause `json:"cause"`
	Confidence float64     `json:"confidence"`
	WouldWinIf string      `json:"would_win_if,omitempty"`
}

// SymptomJSON is one symptom of an incident.
type SymptomJSON struct {
	Symptom  state.Symptom  `json:"symptom"`
	Severity state.Severity `json:"severity"`
	Alerts   int            `json:"alerts"`
	Active   int            `json:"active"`
	First    *time.Time     `json:"first"`
	Last     *time.Time     `json:"last"`
}

// EvidenceJSON is one finding with its weight in decibans.
type EvidenceJSON struct {
	Signal   string     `json:"signal"`
	Pod      string     `json:"pod"`
	Value    float64    `json:"value"`
	Unit     string     `json:"unit"`
	Baseline *float64   `json:"baseline"` // an hour before the onset
	DayAgo   *float64   `json:"day_ago"`
	WeekAgo  *float64   `json:"week_ago"`
	Z        *float64   `json:"z"`
	Weight   float64    `json:"weight"`
	Text     string     `json:"text"`
	Why      string     `json:"why,omitempty"` // the reason for the weight
	At       *time.Time `json:"at"`
}

// StoryJSON is the explanation in a few sentences.
type StoryJSON struct {
	What  string   `json:"what"`
	Why   string   `json:"why"`
	Else  string   `json:"else,omitempty"`
	Time  string   `json:"time,omitempty"` // the phases of late requests
	Do    []string `json:"do"`
	Avoid []string `json:"avoid"`
	// Cautions lists what holds steps of Do back: a possible cause that they make worse, or a young
	// verdict.
	Cautions []state.Caution `json:"cautions,omitempty"`
}

// ActionJSON is an action in the API.
type ActionJSON struct {
	ID        state.ActionID    `json:"id"`
	Incident  state.IncidentID  `json:"incident"`
	Kind      string            `json:"kind"`
	Target    state.Target      `json:"target"`
	Change    string            `json:"change"`
	State     state.ActionState `json:"state"`
	Guards    []GuardJSON       `json:"guards"`
	Mode      string            `json:"mode"`
	Why       string            `json:"why"`
	Command   string            `json:"command"`
	PlanHash  string            `json:"plan_hash"`
	Approvers []string          `json:"approvers"`
	ExpiresAt *time.Time        `json:"expires_at"`
	DecidedBy string            `json:"decided_by,omitempty"`
	DecidedAt *time.Time        `json:"decided_at"`
	Verdict   state.Verdict     `json:"verdict,omitempty"`
	Reason    string            `json:"reason,omitempty"`
	CalledOff string            `json:"called_off,omitempty"` // the result of a call to stop the run after its intent was recorded
	// NeedsPerson locks the target until a person reports that it is taken care of. ReleasedBy is
	// that person.
	NeedsPerson bool   `json:"needs_person"`
	ReleasedBy  string `json:"released_by,omitempty"`
}

// GuardJSON is one guard's answer.
type GuardJSON struct {
	Guard    string         `json:"guard"`
	Decision state.Decision `json:"decision"`
	Reason   string         `json:"reason"`
}

// EntryJSON is one entry of a timeline.
type EntryJSON struct {
	Incident state.IncidentID `json:"incident"`
	N        int              `json:"n"`
	At       *time.Time       `json:"at"`
	Kind     string           `json:"kind"`
	Text     string           `json:"text"`
	Actor    string           `json:"actor,omitempty"`
	ActorID  string           `json:"actor_id,omitempty"` // stable, while the name may change
	Via      string           `json:"via,omitempty"`
	Action   state.ActionID   `json:"action,omitempty"`
}

// The envelopes of the API's answers.
type (
	// IncidentsJSON is a page of the listing of incidents, newest first. Next is the cursor of the
	// next page, null on the last page.
	IncidentsJSON struct {
		Incidents []IncidentJSON `json:"incidents"`
		Next      *string        `json:"next"`
	}
	// ActionsJSON is a page of the listing of actions, in the form of IncidentsJSON.
	ActionsJSON struct {
		Actions []ActionJSON `json:"actions"`
		Next    *string      `json:"next"`
	}
	// TimelineJSON is an incident's timeline, oldest first.
	TimelineJSON struct {
		Incident state.IncidentID `json:"incident"`
		Timeline []EntryJSON      `json:"timeline"`
	}
	// HaltJSON answers halt and resume.
	HaltJSON struct {
		Halted   bool     `json:"halted"`
		Clusters []string `json:"clusters"`
		Reason   string   `json:"reason,omitempty"`
	}
	// ErrorJSON reports an error and its remedy. Candidates are the meanings of an ambiguous name.
	// Missing is the field that the body needs for the request to succeed.
	ErrorJSON struct {
		Error      string   `json:"error"`
		Candidates []string `json:"candidates,omitempty"`
		Missing    string   `json:"missing,omitempty"`
	}
	// PendingJSON answers a write that is durable and not applied yet.
	PendingJSON struct {
		Status string `json:"status"` // "accepted"
		Note   string `json:"note"`
	}
)

func timeOrNull(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}

func listOrEmpty[T any](in []T) []T {
	if in == nil {
		return []T{}
	}
	return in
}

// NewIncidentJSON returns an incident with its actions as JSON.
func NewIncidentJSON(in state.Incident, actions []state.Action) IncidentJSON {
	d := in.Diagnosis
	out := IncidentJSON{
		ID: in.ID, Number: in.Number, Name: in.ShortName(false), Status: in.Status, Severity: in.Severity,
		Cause: in.Cause(), Confidence: d.Confidence, Impact: cmp.Or(d.Impact, state.ImpactUnknown), Title: in.Title,
		Scope: in.Place(), Pools: in.Pools,
		Alternatives: []AlternativeJSON{}, Likely: d.Likely, Symptoms: []SymptomJSON{}, AlertCount: in.AlertCount,
		Evidence: []EvidenceJSON{}, MissingEvidence: listOrEmpty(d.Missing), Playbook: d.Playbook, Actions: []ActionJSON{},
		StartedAt: timeOrNull(in.StartedAt), OpenedAt: timeOrNull(in.OpenedAt), DiagnosedAt: timeOrNull(in.DiagnosedAt),
		NamedAt: timeOrNull(in.NamedAt), ResolvedAt: timeOrNull(in.ResolvedAt),
		Prior: d.Prior, Score: d.Score, Margin: d.Margin, Anomalies: listOrEmpty(d.Anomalies), Correlations: listOrEmpty(d.Correlations),
		Chain: listOrEmpty(d.Chain),
		Story: StoryJSON{What: d.Story.What, Why: d.Story.Why, Else: d.Story.Else, Time: d.Story.Time,
			Do: listOrEmpty(d.Story.Do), Avoid: listOrEmpty(d.Story.Avoid), Cautions: d.Story.Cautions},
		ActiveAlerts: in.ActiveAlerts, AckedAt: timeOrNull(in.AckedAt), AckedBy: in.Acker().String(), ResolvedBy: in.ResolvedBy,
		SilencedUntil: timeOrNull(in.SilencedUntil), MergedInto: in.MergedInto,
	}
	out.Scope.Pods, out.Scope.Nodes, out.Scope.GPUs = listOrEmpty(in.Scope.Pods), listOrEmpty(in.Scope.Nodes),
		listOrEmpty(in.Scope.GPUs)
	for _, a := range d.Alternatives {
		out.Alternatives = append(out.Alternatives,
			AlternativeJSON{Cause: a.Cause, Confidence: a.Confidence, WouldWinIf: a.WouldWinIf})
	}
	for _, c := range in.Symptoms {
		out.Symptoms = append(out.Symptoms, SymptomJSON{
			Symptom: c.Symptom, Severity: c.Severity, Alerts: c.Alerts, Active: c.Active, First: timeOrNull(c.First),
			Last: timeOrNull(c.Last),
		})
	}
	for _, f := range d.Findings {
		out.Evidence = append(out.Evidence, EvidenceJSON{
			Signal: f.Signal, Pod: f.Pod, Value: f.Value, Unit: f.Unit, Baseline: f.Baseline, DayAgo: f.DayAgo, WeekAgo: f.WeekAgo, Z: f.Z,
			Weight: f.Weight, Text: f.Text, Why: f.Why, At: timeOrNull(f.At),
		})
	}
	for _, a := range actions {
		out.Actions = append(out.Actions, NewActionJSON(a))
	}
	return out
}

// NewActionJSON returns an action as JSON.
func NewActionJSON(a state.Action) ActionJSON {
	out := ActionJSON{
		ID: a.ID, Incident: a.Incident, Kind: a.Kind, Target: a.Target, Change: a.Change, State: a.State, Guards: []GuardJSON{},
		Mode: a.Mode, Why: a.Why, Command: a.Command, PlanHash: a.PlanHash, Approvers: listOrEmpty(a.Approvers),
		ExpiresAt: timeOrNull(a.ExpiresAt),
		DecidedBy: a.DecidedBy.String(), DecidedAt: timeOrNull(a.DecidedAt), Verdict: a.Verify.Verdict, Reason: a.Reason,
		CalledOff: a.CallOff(), NeedsPerson: a.NeedsPerson(), ReleasedBy: a.Journal[state.Released],
	}
	for _, g := range a.Guards {
		out.Guards = append(out.Guards, GuardJSON{Guard: g.Guard, Decision: g.Decision, Reason: g.Reason})
	}
	return out
}

// NewEntryJSON returns an entry of a timeline as JSON.
func NewEntryJSON(e state.Entry) EntryJSON {
	return EntryJSON{
		Incident: e.Incident, N: e.N, At: timeOrNull(e.At), Kind: e.Kind, Text: e.Text, Actor: e.Actor.String(),
		ActorID: e.Actor.ID, Via: e.Actor.Via, Action: e.Action,
	}
}
