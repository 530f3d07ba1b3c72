package signals

import (
	_ "embed"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
)

// Quantity formats a value with its unit. Counts have no unit, since the sentence names it.
func Quantity(v float64, unit string) string {
	switch unit {
	case "requests", "tokens", "blocks", "pods", "events":
		unit = ""
	}
	return state.FormatValue(v, unit)
}

//go:embed signals.yaml
var signalFile []byte

// Per is the kind of entity that a signal is measured on.
type Per string

// The kinds of entities that have signals.
const (
	PerPod  Per = "pod"
	PerGPU  Per = "gpu"
	PerNode Per = "node"
	PerPool Per = "pool"
)

// An Fn computes a signal from the points of a metric.
type Fn string

// The functions. Windows end at the moment of the query.
const (
	FnLast     Fn = "last"     // the newest point
	FnAvg      Fn = "avg"      // the mean over the window
	FnMax      Fn = "max"      // the highest over the window
	FnMin      Fn = "min"      // the lowest over the window
	FnRise     Fn = "rise"     // the lowest of the last hour minus the lowest over the window
	FnRate     Fn = "rate"     // a counter's increase per second, corrected for resets
	FnIncrease Fn = "increase" // a counter's increase over the window, corrected for resets
	FnChanges  Fn = "changes"  // the number of times that a gauge changed its value
	FnNews     Fn = "news"     // the same, also if the value is in a label, so that each value is a series of its own
	FnQuantile Fn = "quantile" // the quantile q of a histogram's observations in the window
	FnMean     Fn = "mean"     // the mean of a histogram's observations in the window
	// Rate of metric / (rates of over and the counters in with); no value if the divisor is zero.
	FnRatio  Fn = "ratio"
	FnRest   Fn = "rest"   // rate of metric minus rate of over, if that exists; at least zero
	FnShare  Fn = "share"  // metric / (metric + over), of gauges
	FnLess   Fn = "less"   // 1 if metric < over, else 0
	FnTotal  Fn = "total"  // sum of metric and the gauges in with
	FnExcess Fn = "excess" // sum of metric and the gauges in with, minus over; at least zero
	FnSlope  Fn = "slope"  // the least-squares slope per second over the window, from at least ten points
	FnAge    Fn = "age"    // seconds since the Unix time in the metric
	// Seconds since the Unix time in the metric, or since the gauge over last was zero within the
	// window, if that is later. Only a ReplicaSet beside another one of its Deployment counts.
	// On scraped pages it is FnAge.
	FnRollout Fn = "rollout"
	FnFlow    Fn = "flow" // arrivals: the rate at which requests end, plus the growth of the gauges in with
)

// Combine is the aggregation of several series of one entity: data-parallel ranks, finish reasons,
// containers.
type Combine string

// The aggregations.
const (
	CombineSum Combine = "sum"
	CombineMax Combine = "max"
	CombineMin Combine = "min"
)

// A Signal is one quantity that evidence, checks and verification use, with its sources.
type Signal struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"`
	Unit  string `yaml:"unit"`
	Per   Per    `yaml:"per"`
	// Text marks a signal whose value is a word, in the sample's Text.
	Text bool `yaml:"text"`
	// Chart marks a signal with a chart around the onset and a z-score.
	Chart bool `yaml:"chart"`
	// Seasonal marks a signal whose values a day and a week ago are queried. Two more moments of
	// every signal would double Prometheus' load, so only key signals have them.
	Seasonal bool `yaml:"seasonal"`
	// Uncompared marks a signal whose value an hour before the onset is not queried, because
	// nothing compares it.
	Uncompared bool `yaml:"uncompared"`
	// Pooled marks a signal whose value for a pool is no aggregate of its pods (a quantile, a
	// ratio). It is also queried per pool.
	Pooled bool `yaml:"pooled"`
	// Cut marks a length that is counted when a request ends. It is too short if clients abort.
	Cut     bool    `yaml:"cut"`
	Combine Combine `yaml:"combine"`
	// By names other origins of the signal: "kubernetes" (the API server), "probe" (the engine's
	// /health), ByTraces (the trace store), ByOthers (other signals).
	By      []string `yaml:"by"`
	Sources []Source `yaml:"-"`
}

// ByTraces marks a signal that is computed from traces of single requests.
const ByTraces = "traces"

// ByOthers marks a signal that is computed from samples of other signals.
const ByOthers = "signals"

// IsDerived reports whether no source can be asked for the signal.
func (s Signal) IsDerived() bool { return slices.Contains(s.By, ByOthers) }

// OnlyTraced reports whether traces are the only origin of the signal, so that it requires a trace
// store.
func (s Signal) OnlyTraced() bool {
	return len(s.Sources) == 0 && len(s.By) == 1 && s.By[0] == ByTraces
}

// A Source is a metric of an engine or exporter that a signal can be read from. The first source
// that has data for an entity wins.
type Source struct {
	// Engine is one of vllm, sglang, dynamo, trtllm, dcgm, cadvisor, kube_state, process, target,
	// epp (llm-d's router), ingress (a proxy before it: Istio, nginx, Envoy), client (its callers)
	// and slo (recorded by deploy/prometheus/slo.yml).
	Engine string `yaml:"engine"`
	Note   string `yaml:"note"` // the versions that export it, and its pitfalls
	Metric string `yaml:"metric"`
	Fn     Fn     `yaml:"fn"`
	Q      float64
	Window time.Duration
	// Over is the second metric of ratio, rest, share, less, excess and rollout. OverMatch are its
	// own matchers (Match if empty).
	Over      string
	OverMatch []Matcher
	// With are gauges: flow adds their growth, total and excess add their values, and min and rise
	// count only points at which they are zero. For ratio they are counters that Over does not
	// include, with the same matchers.
	With  []string
	Match []Matcher
	// Label names the label whose value becomes the sample's Text, with Suffix behind it. Value
	// names the label whose value becomes the sample's value.
	Label  string
	Suffix string
	Value  string
	// Nonzero drops points that are zero: for metrics with a series for every possible word.
	Nonzero bool
	// Per, if set, is the kind of entity that the source identifies: a frontend knows the pool, not
	// the worker.
	Per   Per
	Scale float64
}

// Spelled returns the source with other names for its metrics.
func (s Source) Spelled(name func(metric string) string) Source {
	s.Metric = name(s.Metric)
	if s.Over != "" {
		s.Over = name(s.Over)
	}
	s.With = slices.Clone(s.With)
	for i := range s.With {
		s.With[i] = name(s.With[i])
	}
	return s
}

// Text returns the sample's text for a value of the label; "" if the series lacks it.
func (s Source) Text(value string) string {
	if value == "" {
		return ""
	}
	return value + s.Suffix
}

// A Matcher selects series by a label, in PromQL's syntax: label="v", label!="v", label=~"re",
// label!~"re".
type Matcher struct {
	Label, Op, Value string
	re               *regexp.Regexp
}

var matcherForm = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)(".*")$`)

// ParseMatcher parses a matcher.
func ParseMatcher(s string) (Matcher, error) {
	m := matcherForm.FindStringSubmatch(s)
	if m == nil {
		return Matcher{}, fmt.Errorf(`matcher %q: want label="value", with one of = != =~ !~`, s)
	}
	value, err := strconv.Unquote(m[3])
	if err != nil {
		return Matcher{}, fmt.Errorf("matcher %q: the value is not a quoted string: %w", s, err)
	}
	out := Matcher{Label: m[1], Op: m[2], Value: value}
	if strings.HasSuffix(out.Op, "~") {
		if out.re, err = regexp.Compile("^(?s:" + value + ")$"); err != nil {
			return Matcher{}, fmt.Errorf("matcher %q: %w", s, err)
		}
	}
	return out, nil
}

// Matches reports whether a label's value (empty if the series lacks the label) satisfies the
// matcher.
func (m Matcher) Matches(value string) bool {
	switch m.Op {
	case "=":
		return value == m.Value
	case "!=":
		return value != m.Value
	case "=~":
		return m.re != nil && m.re.MatchString(value)
	default:
		return m.re != nil && !m.re.MatchString(value)
	}
}

// String returns the matcher in PromQL's syntax, with its value escaped.
func (m Matcher) String() string { return m.Label + m.Op + strconv.Quote(m.Value) }

// Denominator returns the matchers of Over.
func (s Source) Denominator() []Matcher {
	if len(s.OverMatch) > 0 {
		return s.OverMatch
	}
	return s.Match
}

// Metrics returns the names of all series that the source reads.
func (s Source) Metrics() []string {
	var out []string
	switch s.Fn {
	case FnQuantile:
		out = append(out, s.Metric+"_bucket")
	case FnMean:
		out = append(out, s.Metric+"_sum", s.Metric+"_count")
	default:
		out = append(out, s.Metric)
	}
	if s.Over != "" {
		out = append(out, s.Over)
	}
	return append(out, s.With...)
}

// Compared reports whether the signal's value an hour before the onset is queried. A slope or a
// count of changes already covers hours, and a second query would read as many samples again. A
// share is compared by its parts, and a state of Kubernetes needs no comparison unless it is
// seasonal.
func (s Signal) Compared() bool {
	if s.Text || s.Uncompared {
		return false
	}
	for _, src := range s.Sources {
		switch src.Fn {
		case FnSlope, FnChanges, FnNews, FnIncrease, FnMax, FnMin, FnRise, FnShare, FnLess, FnAge, FnRollout:
			continue
		}
		if src.Engine != "kube_state" || s.Seasonal {
			return true
		}
	}
	return false
}

// Negligible returns the change of a quantity in this unit that is negligible.
func Negligible(unit string) float64 {
	switch unit {
	case "ratio", "1/s":
		return 0.01
	case "s":
		return 0.001
	case "%", "requests", "tokens", "blocks", "pods", "events":
		return 1
	}
	return 1e-6
}

// IsCount reports whether the pool's value of a unit is the sum of its workers. Texts then have to
// name a mean over workers as such.
func IsCount(unit string) bool { return unit == "requests" || unit == "1/s" }
