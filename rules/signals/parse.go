package signals

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"paramedic/internal/strictyaml"
)

// LoadSignals returns the built-in signals, or an error for any invalid entry.
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

// rawSource is the format of a Source in the file.
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
	Suffix    string   `yaml:"suffix"`
	Value     string   `yaml:"value"`
	Nonzero   bool     `yaml:"nonzero"`
	Per       Per      `yaml:"per"`
	Scale     float64  `yaml:"scale"`
}

// format is the format of a signals file.
var format = strictyaml.Format[signalDoc]{Kinds: map[reflect.Type]string{
	reflect.TypeFor[signalDoc](): "the file of signals",
	reflect.TypeFor[rawSignal](): "a signal",
	reflect.TypeFor[rawSource](): "a source",
}}

// ParseSignals parses a signals file strictly and reports every problem at once.
func ParseSignals(b []byte) ([]Signal, error) {
	doc, problems := format.Read("signals.yaml", b)
	var errs []error
	for _, p := range problems {
		errs = append(errs, errors.New(p.String()))
	}
	if doc.Version != 1 && len(problems) == 0 {
		return nil, fmt.Errorf("signals have version %d; this build reads version 1", doc.Version)
	}
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

var (
	engines = []string{"vllm", "sglang", "dynamo", "trtllm", "dcgm", "cadvisor", "kube_state", "process", "target",
		"epp", "ingress", "client", "slo"}
	// windowed and instant are the functions with and without a window.
	windowed = []Fn{FnAvg, FnMax, FnMin, FnRise, FnRate, FnIncrease, FnChanges, FnNews, FnQuantile, FnMean, FnRatio, FnRest,
		FnSlope, FnFlow, FnRollout}
	instant = []Fn{FnLast, FnShare, FnLess, FnTotal, FnExcess, FnAge}
)

func (r rawSignal) signal() (Signal, error) {
	s, errs := r.Signal, []error(nil)
	if s.ID == "" || s.Title == "" || s.Unit == "" {
		errs = append(errs, errors.New("id, title and unit are needed"))
	}
	if !slices.Contains([]Per{PerPod, PerGPU, PerNode, PerPool}, s.Per) {
		errs = append(errs, fmt.Errorf("per %q: want pod, gpu, node or pool", s.Per))
	}
	if s.Combine == "" {
		s.Combine = CombineSum
	}
	if !slices.Contains([]Combine{CombineSum, CombineMax, CombineMin}, s.Combine) {
		errs = append(errs, fmt.Errorf("combine %q: want sum, max or min", s.Combine))
	}
	for _, by := range s.By {
		if !slices.Contains([]string{"kubernetes", "probe", ByTraces, ByOthers}, by) {
			errs = append(errs, fmt.Errorf("by %q: want kubernetes, probe, traces or signals", by))
		}
	}
	if s.IsDerived() && len(r.Sources)+len(s.By) > 1 {
		errs = append(errs, fmt.Errorf("by %s: what is computed from other signals has no other origin", ByOthers))
	}
	if len(r.Sources) == 0 && len(s.By) == 0 {
		errs = append(errs, errors.New("nothing gives it: it needs sources, or by"))
	}
	s.Sources = nil
	for i, raw := range r.Sources {
		src, err := raw.source()
		if err != nil {
			errs = append(errs, fmt.Errorf("source %d: %w", i+1, err))
		}
		s.Sources = append(s.Sources, src)
	}
	return s, errors.Join(errs...)
}

func (r rawSource) source() (Source, error) {
	s := Source{Engine: r.Engine, Note: r.Note, Metric: r.Metric, Fn: r.Fn, Q: r.Q, Over: r.Over, With: r.With,
		Label: r.Label, Suffix: r.Suffix, Value: r.Value, Nonzero: r.Nonzero, Per: r.Per, Scale: r.Scale}
	var errs []error
	if !slices.Contains(engines, r.Engine) {
		errs = append(errs, fmt.Errorf("engine %q: want one of %v", r.Engine, engines))
	}
	if r.Metric == "" {
		errs = append(errs, errors.New("metric is needed"))
	}
	if r.Suffix != "" && r.Label == "" {
		errs = append(errs, errors.New("suffix needs a label"))
	}
	if s.Fn == "" {
		s.Fn = FnLast
	}
	if s.Scale == 0 {
		s.Scale = 1
	}
	switch {
	case slices.Contains(windowed, s.Fn):
		s.Window = 5 * time.Minute
		if r.Window != "" {
			var err error
			if s.Window, err = time.ParseDuration(r.Window); err != nil || s.Window <= 0 || s.Window%time.Second != 0 {
				errs = append(errs, fmt.Errorf("window %q: want a duration of whole seconds, such as 5m", r.Window))
			}
		}
	case slices.Contains(instant, s.Fn):
		if r.Window != "" {
			errs = append(errs, fmt.Errorf("fn %s takes no window", s.Fn))
		}
	default:
		errs = append(errs, fmt.Errorf("fn %q is not known", s.Fn))
	}
	if slices.Contains([]Fn{FnRatio, FnRest, FnShare, FnLess, FnExcess, FnRollout}, s.Fn) != (s.Over != "") {
		errs = append(errs, errors.New("over is for ratio, rest, share, less and excess, which need it"))
	}
	if (s.Fn == FnQuantile) != (s.Q > 0 && s.Q < 1) {
		errs = append(errs, errors.New("q, between 0 and 1, is for quantile, which needs it"))
	}
	if len(s.With) > 0 && !slices.Contains([]Fn{FnFlow, FnMin, FnRise, FnTotal, FnExcess, FnRatio}, s.Fn) {
		errs = append(errs, errors.New("with is for flow, min, rise, total, excess and ratio"))
	}
	if s.Fn == FnRise && (len(s.With) == 0 || s.Window <= time.Hour) {
		errs = append(errs, errors.New("rise needs with, and a window of more than an hour"))
	}
	var err error
	if s.Match, err = parseMatchers(r.Match); err != nil {
		errs = append(errs, err)
	}
	if s.OverMatch, err = parseMatchers(r.OverMatch); err != nil {
		errs = append(errs, err)
	}
	return s, errors.Join(errs...)
}

func parseMatchers(in []string) ([]Matcher, error) {
	var out []Matcher
	var errs []error
	for _, s := range in {
		m, err := ParseMatcher(s)
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, m)
	}
	return out, errors.Join(errs...)
}
