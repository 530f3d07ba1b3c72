package catalog

import (
	"embed"
	"fmt"
	"maps"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"paramedic/internal/strictyaml"
	"paramedic/rules/signals"
	"paramedic/state"
)

// BottleneckReads lists the signals that a classification reads.
var BottleneckReads = []string{"ttft_p95", "itl_p50", "itl_p95", "queue_time_p95", "queue_time_mean",
	"prefill_time_mean", "decode_time_mean", "prefix_hit_ratio", "trace_requests", "trace_queue_time",
	"trace_prefill_time", "trace_decode_time", "trace_route_time", "trace_itl_p50", "trace_itl_p95",
	"trace_prefix_hit_ratio", "trace_slowest", "requests_waiting"}

// WithUsed returns a copy of the catalogue for a view that reads only these signals.
func (c *Catalog) WithUsed(ids ...string) *Catalog {
	used := map[string]bool{}
	for _, s := range ids {
		used[s] = true
	}
	out := *c
	out.used = used
	return &out
}

//go:embed *.yaml
var embedded embed.FS

// A Problem is an error in a catalogue file.
type Problem = strictyaml.Problem

// A Catalog holds all knowledge of the rules. It is immutable and safe for concurrent use.
type Catalog struct {
	symptoms    map[state.Symptom]Symptom
	causes      []*Cause // by ID
	byID        map[state.Cause]*Cause
	alerts      map[string]alertRule
	metrics     []MetricRule
	words       []wordRule
	xids        map[int]Xid
	recoveries  []*Recovery // the worst first
	pathologies map[string]*Pathology
	units       map[string]string // signal → unit
	// textSignals are the signals whose values are words; a missing one means that no source
	// reported a word.
	textSignals map[string]bool
	engines     map[string]bool            // signals that engines export
	truncated   []string                   // length signals that are biased when many clients abort
	past        map[string]map[string]bool // baseline, hour_ago, day_ago and week_ago → signals that have this value
	titles      map[string]string
	windows     map[string]time.Duration // the longest averaging window of a signal
	measured    map[string]signals.Per   // signal → kind of the entities that it is measured on
	ages        map[string]bool          // signals that are the time since an event
	expressions int                      // number of distinct expressions in the causes
	numbers     map[string]int           // signal → index of its readings, which saves a look-up by name
	used        map[string]bool          // signals that some evidence reads
	commonness  map[state.Symptom]string // symptom → how many causes explain it, which limits its weight
	readings    *lru.Cache[string, Reading]
}

// The maps that follow belong to the catalogue: callers must not change them.

// AlertRules returns the symptoms of alert rules by the rule's name.
func (c *Catalog) AlertRules() map[string]alertRule { return c.alerts }

// CauseTable returns the causes by ID.
func (c *Catalog) CauseTable() map[state.Cause]*Cause { return c.byID }

// Commonness returns the number of causes that explain a symptom, in words.
func (c *Catalog) Commonness() map[state.Symptom]string { return c.commonness }

// TruncatedSignals returns the signals that are lower bounds while clients abort requests.
func (c *Catalog) TruncatedSignals() []string { return c.truncated }

// EngineSignals returns the signals that engines export.
func (c *Catalog) EngineSignals() map[string]bool { return c.engines }

// Expressions returns the number of different conditions.
func (c *Catalog) Expressions() int { return c.expressions }

// MetricRules returns the symptoms by the metrics of a rule's expression.
func (c *Catalog) MetricRules() []MetricRule { return c.metrics }

// SignalNumbers returns the numbers of the signals by ID.
func (c *Catalog) SignalNumbers() map[string]int { return c.numbers }

// Recoveries returns the recoveries of GPUs, the most disruptive first.
func (c *Catalog) Recoveries() []*Recovery { return c.recoveries }

// TextSignals returns the signals whose values are words.
func (c *Catalog) TextSignals() map[string]bool { return c.textSignals }

// SymptomTable returns the symptoms by ID.
func (c *Catalog) SymptomTable() map[state.Symptom]Symptom { return c.symptoms }

// Titles returns the titles of the signals by ID.
func (c *Catalog) Titles() map[string]string { return c.titles }

// Units returns the units of the signals by ID.
func (c *Catalog) Units() map[string]string { return c.units }

// GatewayArrivals is the signal whose value a pool's arrivals have where the gateway counts them.
const GatewayArrivals = "gateway_arrival_rate"

// UsedSignals returns the signals that some evidence reads.
func (c *Catalog) UsedSignals() map[string]bool { return c.used }

// MeasuredOn returns the kind of the entities that each signal is measured on.
func (c *Catalog) MeasuredOn() map[string]signals.Per { return c.measured }

// Ages returns the signals that are the time since an event.
func (c *Catalog) Ages() map[string]bool { return c.ages }

// Windows returns the longest window that each signal is averaged over.
func (c *Catalog) Windows() map[string]time.Duration { return c.windows }

// WordRules returns the symptoms by words in a rule's name.
func (c *Catalog) WordRules() []wordRule { return c.words }

// XidTable returns the driver errors by code.
func (c *Catalog) XidTable() map[int]Xid { return c.xids }

// A Symptom is one meaning of an alert.
type Symptom struct {
	ID    state.Symptom `json:"id"`
	Title string        `json:"title"`
	// Serving symptoms are about requests and engines. They belong to the fleet's other serving
	// incidents even if they name no model.
	Serving bool `json:"serving"`
	// Own symptoms come from the worker itself or its node. A neighbour's failure adds load, but
	// causes none of them.
	Own bool `json:"own"`
}

// An Xid is one of NVIDIA's driver errors.
type Xid struct {
	Code    int    `json:"code"`
	Name    string `json:"name"`
	Class   string `json:"class"` // hardware, application, notice
	Needs   string `json:"needs"` // the ID of a Recovery
	Meaning string `json:"meaning"`
	Action  string `json:"action"`
}

// Causes returns the causes, sorted by ID.
func (c *Catalog) Causes() []*Cause { return slices.Clone(c.causes) }

// Cause returns the cause with the given ID.
func (c *Catalog) Cause(id state.Cause) (*Cause, bool) {
	cause, ok := c.byID[id]
	return cause, ok
}

// Symptoms returns the symptoms, sorted by ID.
func (c *Catalog) Symptoms() []Symptom {
	out := make([]Symptom, 0, len(c.symptoms))
	for _, id := range slices.Sorted(maps.Keys(c.symptoms)) {
		out = append(out, c.symptoms[id])
	}
	return out
}

// Xids returns the driver errors, sorted by code.
func (c *Catalog) Xids() []Xid {
	out := make([]Xid, 0, len(c.xids))
	for _, code := range slices.Sorted(maps.Keys(c.xids)) {
		out = append(out, c.xids[code])
	}
	return out
}

// common returns for each symptom how many causes explain it. The more causes explain it, the less
// it weighs for one of them.
func (c *Catalog) common() map[state.Symptom]string {
	counts := map[state.Symptom]int{}
	for _, cause := range c.causes {
		for s, d := range cause.Explains {
			if d > 0 {
				counts[s]++
			}
		}
	}
	out := make(map[state.Symptom]string, len(counts))
	for s, n := range counts {
		out[s] = fmt.Sprintf("%d of %d causes would bring it", n, len(c.causes))
	}
	return out
}

// Explains reports whether one cause can explain all the symptoms. The scope "machine" restricts it
// to causes of GPUs and nodes.
func (c *Catalog) Explains(scope string, symptoms ...state.Symptom) bool {
	for _, cause := range c.causes {
		if scope == "machine" && cause.Scope != "gpu" && cause.Scope != "node" {
			continue
		}
		if cause.explainsAll(symptoms) {
			return true
		}
	}
	return false
}
