package state

import (
	"strings"
	"time"
)

// Evidence is one gathering of live context for an incident.
type Evidence struct {
	Incident IncidentID `json:"incident"`
	At       time.Time  `json:"at"`
	Samples  []Sample   `json:"samples"`
	Workers  []Worker   `json:"workers,omitempty"`
	// Missing are signals that were asked for and did not come, with the reason. Missing evidence
	// is neutral, never zero.
	Missing []Missing `json:"missing,omitempty"`
	// Gone are the courses of workers that were there around the onset and are no more. They are
	// drawn, and nothing is diagnosed from them.
	Gone []Sample `json:"gone,omitempty"`
	// Curves are what this gathering and those before it drew.
	Curves []Curve `json:"curves,omitempty"`
	// Beside are the verdicts of other open incidents about the same pools and machines: what they
	// found broken is told there.
	Beside []Beside `json:"beside,omitempty"`
}

// Beside is another incident's verdict, and what it found broken.
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

// A Sample is one signal's value on one entity. Value is in Unit; a signal that is a word (a
// termination reason, an image) has Text and no meaningful Value.
type Sample struct {
	Signal   string    `json:"signal"`
	Entity   Entity    `json:"entity"`
	Value    float64   `json:"value"`
	Text     string    `json:"text,omitempty"`
	Unit     string    `json:"unit,omitempty"`
	At       time.Time `json:"at"`                 // when the value was true, not when it was read
	Baseline *float64  `json:"baseline,omitempty"` // the same signal an hour before the incident's onset; of one that swung in that hour before the trouble, the nearest to Value
	HourAgo  *float64  `json:"hour_ago,omitempty"` // what it was an hour before the onset, where Baseline is of another moment
	DayAgo   *float64  `json:"day_ago,omitempty"`  // … a day before it
	WeekAgo  *float64  `json:"week_ago,omitempty"` // … a week before it
	Z        *float64  `json:"z,omitempty"`        // (Value - mean) / standard deviation over the hour before the onset
	Series   []Point   `json:"series,omitempty"`   // around the onset, for the chart; at most 120 points
}

// A Point is one point of a chart.
type Point struct {
	At    time.Time `json:"at"`
	Value float64   `json:"value"`
}

// A Worker is one pod that serves a model, as live context found it. The pods of a tensor- or
// pipeline-parallel group run one engine between them, and count as one.
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
	// Group is the parallel group within the pool; empty for a pod that is an engine by itself.
	Group string `json:"group,omitempty"`
	// Role is prefill or decode where a model's two phases have workers of their own, else empty.
	Role string `json:"role,omitempty"`
	// Owner is the resource that the pool was made of: a DynamoGraphDeployment, an
	// InferenceService, a RayService, …
	Owner     string `json:"owner,omitempty"`
	OwnerKind string `json:"owner_kind,omitempty"`
	// Routes are what sends it requests, as kind/name: Service/llama, InferencePool/llama,
	// Gateway/public.
	Routes []string `json:"routes,omitempty"`
	// Jobs are the scrapes that read its metrics, or did in the last hours.
	Jobs []ScrapeJob `json:"jobs,omitempty"`
}

// A ScrapeJob is what Prometheus calls a group of targets: a PodMonitor's is namespace/name, a
// ServiceMonitor's is its Service's name or a label of that. Service is that of a ServiceMonitor,
// else empty.
type ScrapeJob struct {
	Job     string `json:"job"`
	Service string `json:"service,omitempty"`
}

// EngineKey names what the worker's pod is a part of within its namespace: its parallel group, or
// the pod itself.
func (w Worker) EngineKey() string {
	if w.Group != "" {
		return w.Pool + "/" + w.Group
	}
	return w.Pod
}

// A Diagnosis is a verdict with everything that speaks for and against it.
type Diagnosis struct {
	Cause      Cause   `json:"cause"`
	Confidence float64 `json:"confidence"` // 0 to 1: the odds 10^(Score/10) among those of all causes and of unknown, which has 1
	Score      float64 `json:"score"`      // decibans: the prior plus the sum of the findings' weights
	Prior      float64 `json:"prior"`      // decibans
	Margin     float64 `json:"margin"`     // decibans between the verdict and the runner-up
	Title      string  `json:"title"`
	// Scope is what is broken, as the evidence shows it.
	Scope        Scope         `json:"scope"`
	Findings     []Finding     `json:"findings"` // of the verdict (or, where it is unknown, of the leading cause); strongest first
	Alternatives []Alternative `json:"alternatives"`
	Missing      []string      `json:"missing"`
	Story        Story         `json:"story"`
	Playbook     string        `json:"playbook"`
	At           time.Time     `json:"at"`
	EvidenceAt   time.Time     `json:"evidence_at,omitzero"`
	// Anomalies are the key signals that are not as usual, first those that the verdict rests on.
	Anomalies []Anomaly `json:"anomalies,omitempty"`
	// Correlations are what moved together with what users feel. None of them is a cause.
	Correlations []Correlation `json:"correlations,omitempty"`
	// Symptoms are those that the cause explains: another incident in the same scope that has only
	// these is the same trouble.
	Explains []Symptom `json:"explains,omitempty"`
	// LeadsTo are the causes that this one is known to bring about.
	LeadsTo []Cause `json:"leads_to,omitempty"`
}

// A Finding is one piece of evidence with its weight: decibans for the cause when positive, against
// it when negative.
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
	Why      string    `json:"why,omitempty"` // why it weighs so much, and no more
	At       time.Time `json:"at,omitzero"`
	// Settles are the causes that take the verdict over no more since this was seen.
	Settles []Cause `json:"settles,omitempty"`
	// Reads are the signals that it was concluded from, Signal among them where it is one.
	Reads []string `json:"reads,omitempty"`
}

// Measured says whether a number was measured that the finding rests on. Alerts and words have
// none.
func (f Finding) Measured() bool {
	return f.Signal != "" && f.Unit != "text" && f.Signal != "symptoms" && !strings.HasPrefix(f.Signal, "symptom:")
}

// An Anomaly is a signal beside its usual values: those of an hour, a day and a week before the
// onset, as far as they are known, and its distance from the hour before in standard deviations. It
// is one pod's, or where Pod is empty the pool's.
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

// A Correlation is two signals whose charts moved together: R is Pearson's coefficient over Points
// of them.
type Correlation struct {
	Signal string  `json:"signal"`
	With   string  `json:"with"` // what users feel
	Pod    string  `json:"pod,omitempty"`
	R      float64 `json:"r"`
	Points int     `json:"points"`
	// Lead is by how many seconds Signal moved before With; 0 where the points are too far apart to
	// tell.
	Lead float64 `json:"lead_s"`
	Text string  `json:"text"`
}

// An Alternative is a cause that was weighed and not chosen.
type Alternative struct {
	Cause      Cause   `json:"cause"`
	Confidence float64 `json:"confidence"`
	Score      float64 `json:"score"`
	// WouldWinIf says what would have to be different for this cause to win.
	WouldWinIf string `json:"would_win_if,omitempty"`
}

// A Story is the explanation in the same few sentences everywhere: Slack, page, API, CLI.
type Story struct {
	What  string   `json:"what"`
	Why   string   `json:"why"`
	Else  string   `json:"else,omitempty"`
	Time  string   `json:"time,omitempty"` // where the time of late requests goes, and what says so; empty where it was not measured
	Do    []string `json:"do,omitempty"`
	Avoid []string `json:"avoid,omitempty"`
}
