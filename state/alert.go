package state

import (
	"cmp"
	"strings"
	"time"
)

// AlertStatus is an alert's status in Alertmanager.
type AlertStatus string

// The statuses of an alert.
const (
	Firing   AlertStatus = "firing"
	Resolved AlertStatus = "resolved"
)

// Severity is the severity of an alert or an incident: critical pages, warning posts, info is
// logged.
type Severity string

// The severities, most severe first.
const (
	Critical Severity = "critical"
	Warning  Severity = "warning"
	Info     Severity = "info"
)

// Rank orders severities: 3 is critical, 2 warning, 1 info, 0 anything else.
func (s Severity) Rank() int {
	switch s {
	case Critical:
		return 3
	case Warning:
		return 2
	case Info:
		return 1
	}
	return 0
}

// ForNoPerson reports whether an alert with these labels is for no person. kube-prometheus gives
// the severity none to its always firing Watchdog and to InfoInhibitor.
func ForNoPerson(labels map[string]string) bool { return strings.EqualFold(labels["severity"], "none") }

// An Alert is one alert of a webhook payload. An episode of it is (Fingerprint, StartsAt).
type Alert struct {
	Fingerprint  Fingerprint       `json:"fingerprint"`
	Status       AlertStatus       `json:"status"`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations,omitempty"`
	StartsAt     time.Time         `json:"starts_at"`
	EndsAt       time.Time         `json:"ends_at,omitzero"`
	GeneratorURL string            `json:"generator_url,omitempty"`
}

// Name returns the alert's rule: the label alertname.
func (a Alert) Name() string { return a.Labels["alertname"] }

// An Entity is the one thing that a sign or a sample is about. Fields that are unknown or do not
// apply are empty.
type Entity struct {
	Cluster   string `json:"cluster,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Model     string `json:"model,omitempty"`
	Pool      string `json:"pool,omitempty"` // the workload's name
	Pod       string `json:"pod,omitempty"`
	Instance  string `json:"instance,omitempty"` // scrape address, if the pod is not known
	Node      string `json:"node,omitempty"`
	GPU       string `json:"gpu,omitempty"` // index or UUID, as the exporter names it
	// Job and Service are those of the scrape that an alert is about. Live context finds their
	// pods.
	Job     string `json:"job,omitempty"`
	Service string `json:"service,omitempty"`
}

// A Scope is the part of the fleet that an incident is about. Pods, Nodes and GPUs name the broken
// parts only, not all of the pool.
type Scope struct {
	Cluster   string   `json:"cluster"`
	Namespace string   `json:"namespace"`
	Model     string   `json:"model"`
	Pool      string   `json:"pool"`
	Pods      []string `json:"pods"`
	Nodes     []string `json:"nodes"`
	GPUs      []string `json:"gpus"`
}

// Entity returns the entity with the scope's names.
func (s Scope) Entity() Entity {
	return Entity{Cluster: s.Cluster, Namespace: s.Namespace, Model: s.Model, Pool: s.Pool}
}

// FilledFrom returns the scope with another one's names where it has none.
func (s Scope) FilledFrom(o Scope) Scope {
	s.Cluster, s.Namespace = cmp.Or(s.Cluster, o.Cluster), cmp.Or(s.Namespace, o.Namespace)
	s.Model, s.Pool = cmp.Or(s.Model, o.Model), cmp.Or(s.Pool, o.Pool)
	return s
}

// A Sign is an alert as the rules classify it.
type Sign struct {
	Symptom  Symptom  `json:"symptom"`
	Severity Severity `json:"severity"`
	Entity   Entity   `json:"entity"`
	// By is the method that recognised it: "name", "metrics", "labels" or "none".
	By string `json:"by"`
	// Hints are facts in the alert itself that evidence uses: an Xid code, or that the rule reads
	// FB_USED.
	Hints map[string]string `json:"hints,omitempty"`
}

// SeriesHint is the key of the hint that holds PromQL for the series that an alert without a place
// is about, one query a line. No hint of a rules file has this key: it is no word.
const SeriesHint = "promql:series"

// An AlertRecord is the stored state of one alert: its last form, its sign, and its incident.
type AlertRecord struct {
	Alert    Alert      `json:"alert"`
	Sign     Sign       `json:"sign"`
	Incident IncidentID `json:"incident,omitempty"` // empty: resolved before it was ever seen firing
	Active   bool       `json:"active"`
	FirstAt  time.Time  `json:"first_at"`
	LastAt   time.Time  `json:"last_at"` // when it was last reported
	Episodes int        `json:"episodes"`
}
