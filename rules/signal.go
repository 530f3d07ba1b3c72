package rules

import (
	"bytes"
	_ "embed" // the built-in signals
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"
)

//go:embed catalog/signals.yaml
var signalFile []byte

// Per says what a signal is measured on.
type Per string

// What a signal can be measured on.
const (
	PerPod  Per = "pod"
	PerGPU  Per = "gpu"
	PerNode Per = "node"
	PerPool Per = "pool"
)

// Fn is how a signal is made of a metric's points.
type Fn string

// The functions. All that take a window look back from the moment that is asked for.
const (
	FnLast     Fn = "last"     // the newest point
	FnAvg      Fn = "avg"      // the mean over the window
	FnMax      Fn = "max"      // the highest over the window
	FnMin      Fn = "min"      // the lowest over the window
	FnRate     Fn = "rate"     // a counter's increase per second, resets healed
	FnIncrease Fn = "increase" // a counter's increase over the window, resets healed
	FnChanges  Fn = "changes"  // how often a gauge took another value
	FnNews     Fn = "news"     // how often a gauge took another value, also where its labels tell the value too and another value is another series
	FnQuantile Fn = "quantile" // a histogram's quantile q of what was observed in the window
	FnMean     Fn = "mean"     // a histogram's sum by count of what was observed in the window
	FnRatio    Fn = "ratio"    // the rate of metric by the rates of over and of the counters in with; nothing where all of these stand still
	FnRest     Fn = "rest"     // the rate of metric less that of over, where there is one; not below zero
	FnShare    Fn = "share"    // metric / (metric + over), of gauges
	FnLess     Fn = "less"     // 1 where metric < over, else 0
	FnTotal    Fn = "total"    // metric and the gauges in with, together
	FnExcess   Fn = "excess"   // metric and the gauges in with, by which they exceed over; not below zero
	FnSlope    Fn = "slope"    // the least-squares slope per second over the window, of at least ten points
	FnAge      Fn = "age"      // seconds since the Unix time that the metric holds
	FnFlow     Fn = "flow"     // what came in: the rate at which requests leave, plus how fast the gauges in with grow
)

// Combine is how several series of one entity (data-parallel ranks, finish reasons, containers)
// become one value.
type Combine string

// How series are combined.
const (
	CombineSum Combine = "sum"
	CombineMax Combine = "max"
	CombineMin Combine = "min"
)

// A Signal is one quantity that evidence, checks and verification speak of, and every place where
// it can be read.
type Signal struct {
	ID    string `yaml:"id"`
	Title string `yaml:"title"`
	Unit  string `yaml:"unit"`
	Per   Per    `yaml:"per"`
	// Text marks a signal whose meaning is a word: its sample has Text.
	Text bool `yaml:"text"`
	// Chart marks a signal that is drawn around the onset, and gets a z-score.
	Chart bool `yaml:"chart"`
	// Seasonal marks a signal whose values of a day and of a week ago are read. They are read of
	// nothing else: two more moments of every signal would cost Prometheus as much as the rest of
	// the evidence.
	Seasonal bool `yaml:"seasonal"`
	// Uncompared marks a signal of which an hour before the onset is not read either: nobody
	// compares it.
	Uncompared bool `yaml:"uncompared"`
	// Pooled marks a signal whose pool's value is no aggregate of the pods' values (a quantile, a
	// ratio), so that it is read per pool too.
	Pooled bool `yaml:"pooled"`
	// Cut marks a length that is counted when a request ends, and too short where clients gave up
	// before.
	Cut     bool    `yaml:"cut"`
	Combine Combine `yaml:"combine"`
	// By names what else gives the signal: "kubernetes" (the API server), "probe" (the engine's
	// /health), ByTraces (the trace store).
	By      []string `yaml:"by"`
	Sources []Source `yaml:"-"`
}

// ByTraces marks a signal that the traces of single requests give.
const ByTraces = "traces"

// OnlyTraced says that nothing but traces gives the signal, so that it does not exist where there
// is no trace store.
func (s Signal) OnlyTraced() bool {
	return len(s.Sources) == 0 && len(s.By) == 1 && s.By[0] == ByTraces
}

// A Source is one metric, of one engine or exporter and its versions, that a signal can be read
// from. The first source that has data for an entity wins.
type Source struct {
	Engine string `yaml:"engine"` // vllm, sglang, dynamo, trtllm, dcgm, cadvisor, kube_state, process, target, epp (llm-d's router), ingress (a proxy before it: Istio, nginx), client (its callers), slo (what deploy/prometheus/slo.yml records)
	Note   string `yaml:"note"`   // the versions that have it, and its traps
	Metric string `yaml:"metric"`
	Fn     Fn     `yaml:"fn"`
	Q      float64
	Window time.Duration
	// Over is the other metric of ratio, rest, share, less and excess; OverMatch its own matchers
	// (Match where empty).
	Over      string
	OverMatch []Matcher
	// With are gauges: those whose growth flow adds; those that total and excess add; for min,
	// those that have to be zero for a point to count. For ratio they are counters of what Over
	// leaves out, by the same matchers.
	With  []string
	Match []Matcher
	// Label's value becomes the sample's Text. Value's value (of a label) becomes its value.
	Label string
	Value string
	// Nonzero drops points that are zero: for series that exist for every possible word.
	Nonzero bool
	// Per, where set, says that the source only knows this much of the entity (a frontend knows the
	// pool, not the worker).
	Per   Per
	Scale float64
}

// A Matcher selects series by a label, as PromQL writes it: label="v", label!="v", label=~"re",
// label!~"re".
type Matcher struct {
	Label, Op, Value string
	re               *regexp.Regexp
}

var matcherForm = regexp.MustCompile(`^([a-zA-Z_][a-zA-Z0-9_]*)(=~|!~|!=|=)(".*")$`)

// ParseMatcher reads a matcher.
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

// Matches says whether a label's value (empty where the series lacks the label) satisfies the
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

// String is the matcher as PromQL writes it, its value escaped.
func (m Matcher) String() string { return m.Label + m.Op + strconv.Quote(m.Value) }

// Denominator is the matchers of Over.
func (s Source) Denominator() []Matcher {
	if len(s.OverMatch) > 0 {
		return s.OverMatch
	}
	return s.Match
}

// Metrics are the names of all series that the source reads.
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

// Compared says whether the signal's value of an hour before the onset is read. What looks back
// over hours by itself, a slope or a count of changes, is told by its own value, and reading it
// twice costs hours of samples; a share is told by what it is a share of, and a state of Kubernetes
// is what it is.
func (s Signal) Compared() bool {
	if s.Text || s.Uncompared {
		return false
	}
	for _, src := range s.Sources {
		switch src.Fn {
		case FnSlope, FnChanges, FnNews, FnIncrease, FnMax, FnMin, FnShare, FnLess, FnAge:
			continue
		}
		if src.Engine != "kube_state" {
			return true
		}
	}
	return false
}

// LoadSignals reads the built-in signals and fails on anything in them that is not understood.
func LoadSignals() ([]Signal, error) {
	return ParseSignals(signalFile)
}

type signalDoc struct {
	Version int         `yaml:"version"`
	Signals []rawSignal `yaml:"signals"`
}

type rawSignal struct {
	Signal  `yaml:",inline"`
	Sources []rawSource `yaml:"sources"`
}

// rawSource is a Source as the file writes it.
type rawSource struct {
	Engine    string   `yaml:"engine"`
	Note      string   `yaml:"note"`
	Metric    string   `yaml:"metric"`
	Fn        Fn       `yaml:"fn"`
	Q         float64  `yaml:"q"`
	Window    string   `yaml:"window"`
	Over      string   `yaml:"over"`
	OverMatch []string `yaml:"over_match"`
	With      []string `yaml:"with"`
	Match     []string `yaml:"match"`
	Label     string   `yaml:"label"`
	Value     string   `yaml:"value"`
	Nonzero   bool     `yaml:"nonzero"`
	Per       Per      `yaml:"per"`
	Scale     float64  `yaml:"scale"`
}

// ParseSignals reads a signals file strictly and reports every problem at once.
func ParseSignals(b []byte) ([]Signal, error) {
	dec := yaml.NewDecoder(bytes.NewReader(b))
	dec.KnownFields(true)
	var doc signalDoc
	if err := dec.Decode(&doc); err != nil {
		return nil, fmt.Errorf("decoding signals: %w", err)
	}
	if err := dec.Decode(new(signalDoc)); !errors.Is(err, io.EOF) {
		return nil, errors.New("decoding signals: want one YAML document")
	}
	if doc.Version != 1 {
		return nil, fmt.Errorf("signals have version %d; this build reads version 1", doc.Version)
	}
	var errs []error
	seen := map[string]bool{}
	out := make([]Signal, 0, len(doc.Signals))
	for _, raw := range doc.Signals {
		s, err := raw.signal()
		if err != nil {
			errs = append(errs, fmt.Errorf("signal %q: %w", raw.ID, err))
		}
		if seen[raw.ID] {
			errs = append(errs, fmt.Errorf("signal %q is declared twice", raw.ID))
		}
		seen[raw.ID] = true
		out = append(out, s)
	}
	return out, errors.Join(errs...)
}
