package web

import (
	"cmp"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/internal/incidentlog"
	"paramedic/notify"
	"paramedic/state"
)

// incidentData holds everything that an incident's page shows.
type incidentData struct {
	In          *state.Incident
	D           state.Diagnosis
	Verdict     bool   // there is a verdict, which may be unknown
	Known       bool   // … and it names a cause
	Outcome     string // of a resolved incident: what helped
	Sum         sum
	Symptoms    []symptomGroup
	Charts      []Chart
	Moments     []Mark
	Unusual     []state.Anomaly // those whose signal has no chart
	Actions     []actionCard
	Playbook    Playbook
	HasPlaybook bool
	Timeline    []timelineDay
	Entries     int
	EvidenceAt  time.Time
	Missing     []missingGroup
	Missed      int // missing signals, in all
	Absorbed    []link
	MergedInto  link
	// The forms: an acknowledgement is due, and an opinion on the verdict is asked for, which may
	// name one of the other causes.
	Unacknowledged, Feedback bool
	Causes                   []state.Cause
}

// A sum is the addition of the score, for a person to check.
type sum struct {
	Rows     []sumRow
	Most     float64 // the largest weight, which scales the bars
	Prior    float64
	Findings float64
	Total    float64 // the sum of the rows
	Differs  bool    // … and the verdict has another score
	Odds     string
	RunnerUp *state.Alternative
}

type sumRow struct {
	state.Finding
	Running float64
}

type symptomGroup struct {
	state.SymptomCount
	Records []state.AlertRecord
	More    int
}

type timelineDay struct {
	Day     string
	Entries []state.Entry
}

// incident shows one incident, found by its ID, its number or the beginning of its ID.
func (h *Handler) incident(r *http.Request) (view, error) {
	asked := r.PathValue("id")
	in, err := h.find(asked)
	if err != nil {
		return view{}, err
	}
	if asked != string(in.ID) {
		return view{redirect: "/incidents/" + url.PathEscape(string(in.ID))}, nil
	}
	incidentlog.Name(r.Context(), asked)
	ev, hasEvidence := h.cfg.View.Evidence(in.ID)
	entries, err := h.cfg.View.Timeline(r.Context(), in.ID)
	if err != nil {
		return view{}, fmt.Errorf("reading the timeline of %s: %w", in.ID, err)
	}
	d := incidentData{In: &in, D: in.Diagnosis, Verdict: !in.DiagnosedAt.IsZero(), Known: in.Cause() != state.Unknown,
		Entries: len(entries), EvidenceAt: ev.At}
	d.Unacknowledged, d.Feedback = in.Open() && !in.Acknowledged(), d.Verdict && in.MergedInto == ""
	for _, cause := range h.cfg.Causes {
		if cause != in.Cause() {
			d.Causes = append(d.Causes, cause)
		}
	}
	d.Sum = newSum(in.Diagnosis)
	d.Symptoms = h.symptoms(in)
	d.Timeline = byDay(entries)
	d.Missing, d.Missed = h.missing(in.Diagnosis.Missing, ev.Missing)
	actions := h.actionsOf(in)
	for _, a := range actions {
		d.Actions = append(d.Actions, newActionCard(a))
	}
	d.Outcome = notify.Outcome(&in, actions, h.signalTitle)
	slices.SortStableFunc(d.Actions, func(a, b actionCard) int { return b.Need() - a.Need() })
	var evp *state.Evidence
	if hasEvidence {
		evp = &ev
	}
	if d.Verdict { // before a verdict, the playbook of "unknown" has no basis
		d.Playbook, d.HasPlaybook = h.cfg.Playbook(in.Diagnosis.Playbook, &in, evp)
	}
	d.Moments = h.moments(in, d.Actions)
	d.Charts = h.charts(in, ev, d.Playbook.Checks, d.Moments)
	for _, a := range in.Diagnosis.Anomalies {
		if !slices.ContainsFunc(d.Charts, func(c Chart) bool { return c.ID == "chart-"+a.Signal }) {
			d.Unusual = append(d.Unusual, a)
		}
	}
	for _, id := range in.Absorbed {
		d.Absorbed = append(d.Absorbed, h.incidentLink(id))
	}
	if in.MergedInto != "" {
		d.MergedInto = h.incidentLink(in.MergedInto)
	}
	return view{page: "incident", title: h.name(in) + " " + in.Title, nav: "incidents", about: string(in.ID),
		data: d}, nil
}

// actionsOf returns the actions of an incident that are still kept.
func (h *Handler) actionsOf(in state.Incident) (out []state.Action) {
	for _, id := range in.Actions {
		if a, ok := h.cfg.View.Action(id); ok {
			out = append(out, a)
		}
	}
	return out
}

// Folds reports whether there are too many missing signals to list all of them.
func (d incidentData) Folds() bool { return d.Missed > state.FewMissing }

func (h *Handler) incidentLink(id state.IncidentID) link {
	l := link{URL: "/incidents/" + url.PathEscape(string(id)), Text: string(id)}
	if in, ok := h.cfg.View.Incident(id); ok {
		l.Text = h.name(in) + " " + in.Title
	}
	return l
}

// mostMeanings bounds how many meanings of an ambiguous name are listed.
const mostMeanings = 20

// name returns the short name of an incident.
func (h *Handler) name(in state.Incident) string { return in.ShortName(len(h.cfg.Clusters) > 1) }

// find takes an ID, a number with or without "#" and its cluster (prod-42), or a unique beginning
// of an ID with or without "INC-". If several incidents match, the reader chooses.
func (h *Handler) find(asked string) (state.Incident, error) {
	if in, ok := h.cfg.View.Incident(state.IncidentID(asked)); ok {
		return in, nil
	}
	query, byNumber := state.ParseShortName(asked)
	prefix := "INC-" + strings.TrimPrefix(strings.ToUpper(asked), "INC-")
	var found []state.Incident
	if byNumber || prefix != "INC-" {
		found = h.cfg.View.ListIncidents(state.IncidentQuery{Limit: mostMeanings, Match: func(in *state.Incident) bool {
			return byNumber && query.Matches(in) || !byNumber && strings.HasPrefix(string(in.ID), prefix)
		}}).Incidents
	}
	switch len(found) {
	case 0:
		return state.Incident{}, notFound("There is no such incident. Paramedic deletes resolved incidents after some time (state.retain).")
	case 1:
		return found[0], nil
	}
	count := strconv.Itoa(len(found))
	if len(found) == mostMeanings {
		count += " or more"
	}
	text := count + " incidents have an ID that begins like that. Which one?"
	if byNumber {
		text = count + " incidents have that number. Which one?"
	}
	e := &pageError{status: http.StatusMultipleChoices, text: text}
	for _, in := range found {
		l := h.incidentLink(in.ID)
		l.Text += " (" + in.Cluster + ", " + string(in.Status) + ", " + "opened " + ago(h.now(), in.OpenedAt) + ")"
		e.links = append(e.links, l)
	}
	return state.Incident{}, e
}

// newSum repeats the verdict's addition.
func newSum(d state.Diagnosis) sum {
	s := sum{Prior: d.Prior, Total: d.Prior, Most: 1}
	for _, f := range d.Findings {
		s.Total += f.Weight
		s.Findings += f.Weight
		s.Most = math.Max(s.Most, math.Abs(f.Weight))
		s.Rows = append(s.Rows, sumRow{Finding: f, Running: s.Total})
	}
	s.Differs = math.Abs(s.Total-d.Score) > 0.05
	s.Odds = odds(min(int(100*d.Confidence+0.5), mostSure))
	if len(d.Alternatives) > 0 {
		best := d.Alternatives[0]
		for _, a := range d.Alternatives {
			if a.Score > best.Score {
				best = a
			}
		}
		s.RunnerUp = &best
	}
	return s
}

// odds returns the odds that a share in percent means. The page shows the same percentage, so that
// both agree.
func odds(percent int) string {
	low, high := max(min(percent, 100-percent), 1), max(percent, 100-percent)
	n := strconv.FormatFloat(float64(high)/float64(low), 'f', 0, 64)
	if high < 10*low {
		n = strings.TrimSuffix(strconv.FormatFloat(float64(high)/float64(low), 'f', 1, 64), ".0")
	}
	if high >= mostSure {
		n = "at least " + n
	}
	if percent < 50 {
		return "1 to " + n
	}
	return n + " to 1"
}

// mostSure is the highest share in percent that the page shows.
const mostSure = 99

// symptoms groups the alerts by the symptom that they were classified as.
func (h *Handler) symptoms(in state.Incident) []symptomGroup {
	const most = 50
	byName := map[state.Symptom][]state.AlertRecord{}
	for _, rec := range h.cfg.View.Alerts(in.ID) {
		byName[rec.Sign.Symptom] = append(byName[rec.Sign.Symptom], rec)
	}
	var out []symptomGroup
	for _, sc := range in.Symptoms {
		g := symptomGroup{SymptomCount: sc, Records: byName[sc.Symptom]}
		slices.SortStableFunc(g.Records, func(a, b state.AlertRecord) int {
			return cmp.Or(boolRank(a.Active)-boolRank(b.Active), a.FirstAt.Compare(b.FirstAt),
				cmp.Compare(a.Alert.Fingerprint, b.Alert.Fingerprint))
		})
		if len(g.Records) > most {
			g.More, g.Records = len(g.Records)-most, g.Records[:most]
		}
		out = append(out, g)
	}
	slices.SortStableFunc(out, func(a, b symptomGroup) int {
		return cmp.Or(b.Severity.Rank()-a.Severity.Rank(), a.First.Compare(b.First))
	})
	return out
}

func boolRank(first bool) int {
	if first {
		return 0
	}
	return 1
}

func byDay(entries []state.Entry) []timelineDay {
	var out []timelineDay
	for _, e := range entries {
		day := e.At.UTC().Format("Monday, 2 January 2006")
		if len(out) == 0 || out[len(out)-1].Day != day {
			out = append(out, timelineDay{Day: day})
		}
		out[len(out)-1].Entries = append(out[len(out)-1].Entries, e)
	}
	return out
}
