package wording

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/alertmanager/template"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// maxAlerts bounds the alerts that a template gets. Firing alerts come first.
const maxAlerts = 100

// maxText bounds each text in the data.
const maxText = 2000

// Data holds the data of Alertmanager's own templates, over all alerts of the incident, and the
// incident.
//
// Receiver, ExternalURL and GroupLabels come from the notifications that brought the alerts: of the
// newest notification, and the group labels that all of them had. There are no route labels, and
// the reason is "all alerts resolved" or "unknown".
type Data struct {
	template.Data
	Incident Incident
}

// An Incident holds the incident's facts, in the words of the built-in texts.
type Incident struct {
	ID, Name, URL                   string // Name: #7, or #prod-7
	Number                          int
	Status, Severity                string
	Diagnosed                       bool
	Cause, Verdict                  string // Verdict: the cause and its confidence in words
	Confidence                      float64
	Title, Where                    string
	Cluster, Namespace, Model, Pool string
	Pods, Nodes, GPUs               []string
	Pools                           []string // as namespace/pool, if the cause shows in several
	What, Why, Else, Time           string
	Do, Avoid, Evidence, Missing    []string
	Symptoms                        []string
	AlertCount, ActiveAlerts        int
	Playbook, PlaybookURL, Escalate string
	StartedAt, OpenedAt, AckedAt    time.Time
	ResolvedAt                      time.Time
	AckedBy, ResolvedBy, MergedInto string
	Actions                         []Action
}

// An Action is an action of first aid.
type Action struct{ ID, Change, Target, State, Why, Command string }

// An escaper escapes outside text for its destination.
type escaper func(string) string

// plain returns text for a destination without markup, on one line.
func plain(s string) string { return text.Cut(text.Clean(s), maxText) }

// lines returns text for a destination without markup, with its line breaks.
func lines(s string) string { return text.Cut(paragraphs(s), maxText) }

// mrkdwn returns text for Slack's mrkdwn. While a template is rendered, private characters replace
// those that begin links, mentions and entities. So no function of a template can bring them back.
func mrkdwn(s string) string { return hidden.Replace(lines(s)) }

// The private characters that stand for &, < and > of outside text while a template is rendered.
var (
	hidden = strings.NewReplacer("\uE000", "", "\uE001", "", "\uE002", "", "\uE003", "", "\uE004", "", "&", "\uE000",
		"<", "\uE001", ">", "\uE002")
	unhidden = strings.NewReplacer("\uE000", "&", "\uE001", "<", "\uE002", ">")
	shownOf  = strings.NewReplacer("\uE000", "&amp;", "\uE001", "&lt;", "\uE002", "&gt;")
)

// The private characters that stand for the brackets of the operator's own mentions while the
// template is rendered.
var (
	markOf   = strings.NewReplacer("<", "\uE003", ">", "\uE004")
	unmarkOf = strings.NewReplacer("\uE003", "<", "\uE004", ">")
)

func (v escaper) list(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = v(s)
	}
	return out
}

func (v escaper) labels(in map[string]string) template.KV {
	out := make(template.KV, len(in))
	for name, value := range in {
		out[v(name)] = v(value)
	}
	return out
}

// data returns the data of a message's templates, escaped by v.
func data(f notify.Facts, m notify.Message, v escaper) Data {
	in := &f.Incident
	alerts := v.alerts(f.Alerts)
	d := Data{Incident: v.incident(in, m)}
	var from state.Delivery
	if in.Delivery != nil {
		from = *in.Delivery
	}
	d.Receiver, d.ExternalURL = v(from.Receiver), v(from.ExternalURL)
	d.Status, d.NotificationReason = "firing", "unknown"
	if in.Status == state.StatusResolved {
		d.Status, d.NotificationReason = "resolved", "all alerts resolved"
	}
	d.Alerts, d.GroupLabels, d.RouteLabels = alerts, v.labels(from.GroupLabels), template.KV{}
	d.CommonLabels = common(alerts, func(a template.Alert) template.KV { return a.Labels })
	d.CommonAnnotations = common(alerts, func(a template.Alert) template.KV { return a.Annotations })
	return d
}

// alerts returns at most maxAlerts of an incident's alerts. Firing alerts come first; each group is
// in order of its start.
func (v escaper) alerts(records []state.AlertRecord) template.Alerts {
	records = slices.Clone(records)
	slices.SortStableFunc(records, func(a, b state.AlertRecord) int {
		switch {
		case a.Active == b.Active:
			return a.Alert.StartsAt.Compare(b.Alert.StartsAt)
		case a.Active:
			return -1
		}
		return 1
	})
	out := template.Alerts{}
	for _, r := range records[:min(len(records), maxAlerts)] {
		a := template.Alert{Status: string(state.Resolved), Labels: v.labels(r.Alert.Labels),
			Annotations: v.labels(r.Alert.Annotations),
			StartsAt:    r.Alert.StartsAt, EndsAt: r.Alert.EndsAt, GeneratorURL: v(r.Alert.GeneratorURL),
			Fingerprint: v(string(r.Alert.Fingerprint))}
		if r.Active {
			a.Status = string(state.Firing)
		}
		out = append(out, a)
	}
	return out
}

// common returns the labels or annotations that all alerts share.
func common(alerts template.Alerts, of func(template.Alert) template.KV) template.KV {
	if len(alerts) == 0 {
		return template.KV{}
	}
	out := maps.Clone(of(alerts[0]))
	for _, a := range alerts[1:] {
		other := of(a)
		maps.DeleteFunc(out, func(name, value string) bool { have, ok := other[name]; return !ok || have != value })
	}
	return out
}

func (v escaper) incident(in *state.Incident, m notify.Message) Incident {
	out := Incident{
		ID: v(string(m.Incident)), Name: v(m.Name()), Number: m.Number, URL: v(m.URL), Status: string(m.Status),
		Severity:  string(m.Severity),
		Diagnosed: m.Diagnosed, Cause: v(string(m.Cause)), Verdict: v(m.Verdict()), Confidence: m.Confidence,
		Title: v(m.Title), Where: v(m.Where),
		Cluster: v(in.Cluster), Namespace: v(in.Place().Namespace), Model: v(in.Place().Model), Pool: v(in.Place().Pool),
		Pods: v.list(in.Scope.Pods), Nodes: v.list(in.Scope.Nodes), GPUs: v.list(in.Scope.GPUs), Pools: v.list(in.PoolNames()),
		What: v(m.What), Why: v(m.Why), Else: v(m.Else), Time: v(m.Time), Do: v.list(m.Do), Avoid: v.list(m.Avoid),
		Missing:  v.list(m.Missing),
		Symptoms: v.list(m.Symptoms), AlertCount: in.AlertCount, ActiveAlerts: in.ActiveAlerts,
		Playbook: v(m.PlaybookTitle), PlaybookURL: v(m.PlaybookURL), Escalate: v(m.Escalate),
		StartedAt: m.StartedAt.UTC(), OpenedAt: m.OpenedAt.UTC(), AckedAt: m.AckedAt.UTC(), ResolvedAt: m.ResolvedAt.UTC(),
		AckedBy: v(m.AckedBy.String()), ResolvedBy: v(m.ResolvedBy), MergedInto: v(m.MergedInto),
	}
	for _, f := range m.Evidence {
		out.Evidence = append(out.Evidence, v(f.Text))
	}
	for _, o := range m.Actions {
		out.Actions = append(out.Actions, Action{ID: v(string(o.ID)), Change: v(o.Change), Target: v(o.Target),
			State: string(o.State), Why: v(o.Why), Command: v(o.Command)})
	}
	return out
}

// sampleTime is the time of the sample.
var sampleTime = time.Date(2026, 1, 1, 3, 5, 0, 0, time.UTC)

// sample returns an example incident for trying templates.
func sample() Data {
	started := sampleTime.Add(-5 * time.Minute)
	labels := map[string]string{"alertname": "VLLMKVCacheExhaustion", "severity": "critical", "cluster": "prod",
		"namespace": "llm", "model_name": "llama-70b", "pod": "vllm-llama-0", "job": "vllm",
		"instance": "10.0.0.1:8000"}
	alert := state.Alert{Fingerprint: "00000000000000aa", Labels: labels, StartsAt: started,
		GeneratorURL: "http://prometheus:9090/graph?g0.expr=up&g0.tab=1",
		Annotations: map[string]string{"summary": "KV cache is almost full",
			"description": "98 % of the KV cache of vllm-llama-0 is used",
			"runbook_url": "https://runbooks.example.com/kv"}}
	other := alert
	other.Labels = maps.Clone(labels)
	other.Labels["pod"], other.Fingerprint = "vllm-llama-1", "00000000000000ab"
	in := state.Incident{ID: "INC-01KA1B2C3D4E5F6G7H8J9K0M1N", Number: 7, Cluster: "prod", Status: state.StatusOpen,
		Severity: state.Critical, Title: "KV cache exhausted on llama-70b",
		Scope: state.Scope{Cluster: "prod", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama",
			Pods: []string{"vllm-llama-0"}}, StartedAt: started, OpenedAt: started, DiagnosedAt: sampleTime,
		AlertCount: 3, ActiveAlerts: 2, Diagnosis: state.Diagnosis{Cause: "kv_exhaustion", Confidence: 0.93},
		Delivery: &state.Delivery{Receiver: "paramedic", ExternalURL: "http://alertmanager:9093",
			GroupLabels: map[string]string{"alertname": "VLLMKVCacheExhaustion", "cluster": "prod"}}}
	resolved := alert
	resolved.Fingerprint, resolved.EndsAt = "00000000000000ac", sampleTime
	f := notify.Facts{Incident: in, Links: notify.Links{Base: "https://paramedic.example.com"},
		Playbook: notify.Playbook{ID: "kv_exhaustion", Title: "KV cache exhausted"},
		Actions:  []state.Action{{ID: "ACT-1", Kind: "set_engine_arg", Change: "max_num_seqs 256 → 128", State: state.Proposed}},
		Alerts:   []state.AlertRecord{{Alert: alert, Active: true}, {Alert: other, Active: true}, {Alert: resolved}}}
	return data(f, notify.Compose(f), plain)
}
