package state

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Evidence is one gathering of live context for an incident.
type Evidence struct {
	Incident IncidentID `json:"incident"`
	At       time.Time  `json:"at"`
	Samples  []Sample   `json:"samples"`
	Workers  []Worker   `json:"workers,omitempty"`
	// About lists what the alerts without a place are about: the pools, nodes and gateways of the
	// series that their expressions read.
	About []Entity `json:"about,omitempty"`
	// Old lists the pools that were in trouble for over half an hour before the first alert.
	Old []Entity `json:"old,omitempty"`
	// Missing lists the signals that were queried without a result, with the reason. Missing
	// evidence is neutral, never zero.
	Missing []Missing `json:"missing,omitempty"`
	// Gone holds the series of workers that existed around the onset and no longer do. They are
	// drawn only. The diagnosis does not use them.
	Gone []Sample `json:"gone,omitempty"`
	// Curves holds the charts of this gathering and of those before it.
	Curves []Curve `json:"curves,omitempty"`
	// Beside holds the verdicts of other open incidents about the same pools and nodes. Those
	// incidents report what they found broken.
	Beside []Beside `json:"beside,omitempty"`
}

// Beside is another incident's verdict with its scope.
type Beside struct {
	Incident IncidentID `json:"incident"`
	Cause    Cause      `json:"cause"`
	Scope    Scope      `json:"scope"`
}

// A Missing is a signal that could not be read.
type Missing struct {
	Signal string `json:"signal"`
	Reason string `json:"reason"`
}

// A Sample is one signal's value on one entity. Value is in Unit. A signal with a text value, such
// as a termination reason or an image, has Text and no meaningful Value.
type Sample struct {
	Signal string    `json:"signal"`
	Entity Entity    `json:"entity"`
	Value  float64   `json:"value"`
	Text   string    `json:"text,omitempty"`
	Unit   string    `json:"unit,omitempty"`
	At     time.Time `json:"at"` // when the value was measured, not when it was read
	// Baseline is the value an hour before the incident's onset. If the signal varied in that hour,
	// it is the value nearest to Value.
	Baseline *float64 `json:"baseline,omitempty"`
	HourAgo  *float64 `json:"hour_ago,omitempty"` // an hour before the onset, if Baseline is of another time
	DayAgo   *float64 `json:"day_ago,omitempty"`  // a day before the onset
	// Earlier is the value some hours before the onset, where a history of hours is all that there
	// is.
	Earlier *float64 `json:"earlier,omitempty"`
	WeekAgo *float64 `json:"week_ago,omitempty"` // a week before the onset
	Z       *float64 `json:"z,omitempty"`        // (Value - mean) / standard deviation over the hour before the onset
	Series  []Point  `json:"series,omitempty"`   // around the onset, for the chart; at most 120 points
}

// A Point is one point of a chart.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// A Worker is one pod that serves a model. The pods of a tensor-parallel or pipeline-parallel group
// run one engine together, and count as one.
type Worker struct {
	Namespace string   `json:"namespace,omitempty"`
	Pod       string   `json:"pod"`
	UID       string   `json:"uid,omitempty"`
	Pool      string   `json:"pool,omitempty"`
	PoolKind  string   `json:"pool_kind,omitempty"` // Deployment, StatefulSet, LeaderWorkerSet, …
	Model     string   `json:"model,omitempty"`
	Node      string   `json:"node,omitempty"`
	GPUs      []string `json:"gpus,omitempty"`
	Instance  string   `json:"instance,omitempty"`
	Engine    string   `json:"engine,omitempty"` // vllm, sglang, trtllm, dynamo
	Ready     bool     `json:"ready"`
	// Group is the parallel group within the pool. It is empty for a pod that runs an engine alone.
	Group string `json:"group,omitempty"`
	// Role is prefill or decode if the model's two phases have workers of their own, and else
	// empty.
	Role string `json:"role,omitempty"`
	// Owner is the resource that created the pool: a DynamoGraphDeployment, an InferenceService, a
	// RayService, …
	Owner     string `json:"owner,omitempty"`
	OwnerKind string `json:"owner_kind,omitempty"`
	// Routes lists the objects that route requests to it, as kind/name: Service/llama,
	// InferencePool/llama, Gateway/public.
	Routes []string `json:"routes,omitempty"`
	// Jobs lists the scrape jobs that read its metrics, now or in the last hours.
	Jobs []ScrapeJob `json:"jobs,omitempty"`
}

// Equal reports whether the workers have the same fields.
func (w Worker) Equal(o Worker) bool {
	lists := slices.Equal(w.GPUs, o.GPUs) && slices.Equal(w.Routes, o.Routes) && slices.Equal(w.Jobs, o.Jobs)
	return lists && w.Group == o.Group && w.Role == o.Role && w.Owner == o.Owner && w.OwnerKind == o.OwnerKind &&
		w.Namespace == o.Namespace && w.Pod == o.Pod && w.UID == o.UID && w.Pool == o.Pool && w.PoolKind == o.PoolKind &&
		w.Model == o.Model && w.Node == o.Node && w.Instance == o.Instance && w.Engine == o.Engine && w.Ready == o.Ready
}

// A ScrapeJob is Prometheus's name for a group of targets. For a PodMonitor it is namespace/name.
// For a ServiceMonitor it is the name of its Service, or a label of that. Service is set for a
// ServiceMonitor only.
type ScrapeJob struct {
	Job     string `json:"job"`
	Service string `json:"service,omitempty"`
}

// EngineKey returns the name of the worker's engine within its namespace: its parallel group, or
// the pod itself.
func (w Worker) EngineKey() string {
	if w.Group != "" {
		return w.Pool + "/" + w.Group
	}
	return w.Pod
}

// A Diagnosis is a verdict with the evidence for and against it.
type Diagnosis struct {
	Cause      Cause   `json:"cause"`
	Confidence float64 `json:"confidence"` // 0 to 1: the share of the odds 10^(Score/10) among all causes and unknown, which has 1
	Score      float64 `json:"score"`      // decibans: the prior plus the sum of the findings' weights
	Prior      float64 `json:"prior"`      // decibans
	Margin     float64 `json:"margin"`     // decibans between the verdict and the runner-up
	Title      string  `json:"title"`
	// Scope is the broken part, as the evidence shows it.
	Scope        Scope         `json:"scope"`
	Findings     []Finding     `json:"findings"` // of the verdict, or of the leading cause if it is unknown; strongest first
	Alternatives []Alternative `json:"alternatives"`
	// Likely is the leading candidate if the cause is unknown; nil: no candidate leads. No action
	// and no route follows from it.
	Likely     *Likely   `json:"likely,omitempty"`
	Missing    []string  `json:"missing"`
	Story      Story     `json:"story"`
	Playbook   string    `json:"playbook"`
	At         time.Time `json:"at"`
	EvidenceAt time.Time `json:"evidence_at,omitzero"`
	// Anomalies lists the key signals with unusual values. Those that the verdict rests on come
	// first.
	Anomalies []Anomaly `json:"anomalies,omitempty"`
	// Correlations lists signals that moved together with a user-facing signal. None of them is a
	// cause.
	Correlations []Correlation `json:"correlations,omitempty"`
	// Chain lists the links from the cause to its symptoms, in this order. It is empty if the cause
	// is unknown, or if no signal shows the cause.
	Chain []Link `json:"chain,omitempty"`
	// Explains lists the symptoms of the cause. Another incident in the same scope that has only
	// these symptoms is the same trouble.
	Explains []Symptom `json:"explains,omitempty"`
	// LeadsTo lists the causes that this cause can bring about.
	LeadsTo []Cause `json:"leads_to,omitempty"`
	// Impact is empty if no evidence was judged.
	Impact Impact `json:"impact,omitempty"`
	// Doubts lists what holds steps of the incident's earlier verdict back if that one stays. It is
	// not kept.
	Doubts []Caution `json:"-"`
}

// A Likely is the leading candidate of a verdict that names no cause.
type Likely struct {
	Cause      Cause    `json:"cause"`
	Confidence float64  `json:"confidence"`
	Lacks      []string `json:"lacks"` // evidence after which the cause would be named, as noun phrases
}

// Words returns the candidate for people: "probably OOM killed (52 %)". It is empty for nil.
func (l *Likely) Words() string {
	if l == nil {
		return ""
	}
	return fmt.Sprintf("probably %s (%s)", l.Cause.Words(), FormatShare(l.Confidence))
}

// An Impact is the effect of an incident on the users of its pool, or of every pool that its alerts
// can mean.
type Impact string

// The impacts. Signals that are missing or stale leave the impact unknown.
const (
	ImpactNone    Impact = "none" // first tokens, token gaps, queue, failures and preemptions are measured and healthy
	ImpactFelt    Impact = "felt" // one of them is not healthy
	ImpactUnknown Impact = "unknown"
)

// A Finding is one piece of evidence with its weight in decibans: positive for the cause, negative
// against it.
type Finding struct {
	Signal   string    `json:"signal"`
	Pod      string    `json:"pod,omitempty"`
	Value    float64   `json:"value"`
	Unit     string    `json:"unit,omitempty"`
	Baseline *float64  `json:"baseline,omitempty"`
	DayAgo   *float64  `json:"day_ago,omitempty"`
	WeekAgo  *float64  `json:"week_ago,omitempty"`
	Z        *float64  `json:"z,omitempty"`
	Weight   float64   `json:"weight"`
	Text     string    `json:"text"`
	Why      string    `json:"why,omitempty"` // why it has this weight
	At       time.Time `json:"at,omitzero"`
	// Settles lists the causes that cannot replace the verdict after this finding.
	Settles []Cause `json:"settles,omitempty"`
	// Reads lists the signals that the finding was concluded from. If Signal is a signal, it is one
	// of them.
	Reads []string `json:"reads,omitempty"`
}

// Measured reports whether the finding rests on a measured number. Alerts and text values have
// none.
func (f Finding) Measured() bool {
	return f.Signal != "" && f.Unit != "text" && f.Signal != "symptoms" && !strings.HasPrefix(f.Signal, "symptom:")
}

// An Anomaly is a signal with its usual values: an hour, a day and a week before the onset, if
// known. Z is its distance from the hour before the onset, in standard deviations. It is about one
// pod, or about the pool if Pod is empty.
type Anomaly struct {
	Signal   string   `json:"signal"`
	Pod      string   `json:"pod,omitempty"`
	Value    float64  `json:"value"`
	Unit     string   `json:"unit,omitempty"`
	Baseline *float64 `json:"baseline,omitempty"`
	DayAgo   *float64 `json:"day_ago,omitempty"`
	WeekAgo  *float64 `json:"week_ago,omitempty"`
	Z        *float64 `json:"z,omitempty"`
	Text     string   `json:"text"`
}

// A Correlation is a pair of signals whose charts moved together. R is Pearson's coefficient over
// Points points.
type Correlation struct {
	Signal string  `json:"signal"`
	With   string  `json:"with"` // the user-facing signal
	Pod    string  `json:"pod,omitempty"`
	R      float64 `json:"r"`
	Points int     `json:"points"`
	// Lead is the number of seconds by which Signal moved before With. It is 0 if the points are
	// too far apart.
	Lead float64 `json:"lead_s"`
	Text string  `json:"text"`
}

// An Alternative is a cause that was considered and not chosen.
type Alternative struct {
	Cause      Cause   `json:"cause"`
	Confidence float64 `json:"confidence"`
	Score      float64 `json:"score"`
	// WouldWinIf names the evidence that would make this cause win, as a noun phrase: it follows
	// "would win with".
	WouldWinIf string `json:"would_win_if,omitempty"`
}

// A Story is the explanation in a few sentences. Slack, the page, the API and the CLI show the
// same. It names causes in plain words and signals by title, and has no decibans: the sum is that
// of the diagnosis.
type Story struct {
	What string `json:"what"`
	Why  string `json:"why"` // the strongest findings, or why no cause is named
	// Else names the next cause and what it needs. Without a verdict it is about the leading cause.
	Else  string   `json:"else,omitempty"`
	Time  string   `json:"time,omitempty"` // one sentence on where late requests spend their time; empty if not measured
	Do    []string `json:"do,omitempty"`
	Avoid []string `json:"avoid,omitempty"`
	// Cautions lists what holds steps of Do back. Those steps say so themselves.
	Cautions []Caution `json:"cautions,omitempty"`
}

// A Caution holds back a treatment, such as "raise max_num_seqs", that may make things worse.
type Caution struct {
	Treatment string    `json:"treatment"`
	Cause     Cause     `json:"cause,omitempty"` // a possible cause that it makes worse, which a person has to rule out first
	Sign      string    `json:"sign,omitempty"`  // the strongest sign of that cause that was not seen, as a noun phrase
	Until     time.Time `json:"until,omitzero"`  // the verdict is too young until then
}

// Lacks reports whether no sample has the signal for the pod, or for any pod if pod is empty,
// although the signal was queried or the worker exists.
func (e *Evidence) Lacks(signal, pod string) bool {
	of := func(s Sample) bool {
		return s.Signal == signal && (pod == "" || s.Entity.Pod == pod || s.Entity.Pod == "")
	}
	if slices.ContainsFunc(e.Samples, of) {
		return false
	}
	return slices.ContainsFunc(e.Missing, func(m Missing) bool { return m.Signal == signal }) ||
		slices.ContainsFunc(e.Workers, func(w Worker) bool { return w.Pod == pod })
}
