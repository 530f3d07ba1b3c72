package score

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"paramedic/internal/text"
	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/engine"
	"paramedic/lab/metrics"
	"paramedic/lab/traffic"
)

// Options change a scenario besides its fault. The zero value changes nothing.
type Options struct {
	Engine   string
	Kind     engine.Kind
	severity float64
	shape    string
	ramp     time.Duration
	lasts    time.Duration
	missing  float64
	without  []string
	noise    float64
	workers  int
	Traffic  string
	rate     float64
	trace    traffic.Trace
	given    func(flag string) bool // on the command line
}

// Flags defines the flags of the options.
func (o *Options) Flags(f *pflag.FlagSet) {
	o.given = f.Changed
	f.StringVar(&o.Engine, "engine", string(engine.VLLM), EngineUsage)
	f.Float64Var(&o.severity, "severity", 0, "`strength` of the fault; 1 is that of the scenario")
	f.StringVar(&o.shape, "shape", "", "`shape` of the fault: step, ramp, pulse or sawtooth")
	f.DurationVar(&o.ramp, "ramp", 0, "`time` until the fault has its full strength")
	f.DurationVar(&o.lasts, "for", 0, "`time` until the fault ends; default: until its repair")
	f.Float64Var(&o.missing, "missing", 0, "`share` of scrapes that fail, from 0 to 1")
	f.StringSliceVar(&o.without, "without", nil,
		"`metrics` that the fleet does not export; * matches any text: DCGM_*,vllm:num_requests_waiting")
	f.Float64Var(&o.noise, "noise", 0, "relative `noise` of the GPU sensors")
	f.IntVar(&o.workers, "workers", 0, "`number` of workers; the traffic grows with it")
	f.StringVar(&o.Traffic, "traffic", "",
		"poisson, diurnal, or a file of recorded requests: Azure's LLM inference traces (CSV) or Mooncake's "+
			"(JSON lines)")
	f.Float64Var(&o.rate, "rate", 0, "`requests` per second to the pool; default: the scenario's")
}

// EngineUsage is the help text of --engine.
const EngineUsage = "`engine` of the workers: vllm, sglang, dynamo (vLLM behind Dynamo's frontend) or trtllm " +
	"(TensorRT-LLM)"

// Load validates the options, and reads the recorded traffic if one is given.
func (o *Options) Load() error {
	kind, err := engine.ParseKind(o.Engine)
	if err != nil {
		return fmt.Errorf("--engine: %w", err)
	}
	o.Kind = kind
	for _, n := range []struct {
		flag        string
		value, most float64
		needed      bool // of none there is nothing to play
	}{
		{"severity", o.severity, 10, true}, {"missing", o.missing, 1, false}, {"noise", o.noise, 1, false},
		{"workers", float64(o.workers), lab.MaxWorkers, true}, {"rate", o.rate, lab.MaxRate, true},
	} {
		switch {
		case !(n.value >= 0 && n.value <= n.most): // NaN is neither
			return fmt.Errorf("--%s is %g: use a number from 0 to %g", n.flag, n.value, n.most)
		case n.needed && n.value == 0 && o.given != nil && o.given(n.flag):
			return fmt.Errorf("--%s is 0, so there is nothing to play: use a larger number, or remove the flag for the "+
				"scenario's", n.flag)
		}
	}
	if o.ramp < 0 || o.lasts < 0 {
		return fmt.Errorf("--ramp is %s and --for is %s: use times from 0s", o.ramp, o.lasts)
	}
	switch o.Traffic {
	case "", "poisson", "diurnal":
		return nil
	}
	f, err := os.Open(o.Traffic)
	if err != nil {
		return fmt.Errorf("--traffic must be poisson, diurnal or a readable file: %w", err)
	}
	defer f.Close()
	if o.trace, err = traffic.ReadTrace(f); err != nil {
		return fmt.Errorf("%s: %w", o.Traffic, err)
	}
	return nil
}

// varies reports whether the traffic changes with time by itself.
func (o Options) varies() bool { return o.trace != nil || o.Traffic == "diurnal" }

// Apply returns the scenario with the options applied.
func (o Options) Apply(s drill.Scenario) drill.Scenario {
	for i := range s.Faults {
		f := &s.Faults[i]
		// a stronger decoy would overload the pool, and so be a fault
		if o.severity > 0 && !slices.Contains(lab.Decoys(), f.Name) {
			if f.Severity == 0 {
				f.Severity = 1
			}
			f.Severity *= o.severity
		}
		if o.shape != "" {
			f.Shape = lab.Shape(strings.ToLower(o.shape))
		}
		if o.ramp > 0 {
			f.Ramp = o.ramp
		}
		if o.lasts > 0 {
			f.For = o.lasts
		}
	}
	s.Config.Without = o.without
	s.Config.Noise = metrics.Noise{Missing: o.missing, Gauges: o.noise}
	if o.workers > 0 {
		s = s.Resize(o.workers)
	}
	switch {
	case o.Traffic == "diurnal":
		s = s.Diurnal()
	case o.trace != nil:
		s = s.Replay(o.trace)
	}
	if o.rate > 0 {
		s.Config.Workload.Rate = o.rate
	}
	if o.Kind != "" {
		return s.As(o.Kind)
	}
	return s
}

// maxSpeed is above the speed that a usual machine reaches with a small fleet. A higher value would
// only busy the processor.
const maxSpeed = 1000

// CheckSpeed returns an error for a speed out of range.
func CheckSpeed(speed float64) error {
	if !(speed > 0 && speed <= maxSpeed) { // NaN is neither
		return fmt.Errorf("--speed is %g: use a number above 0 and up to %d", speed, maxSpeed)
	}
	return nil
}

// CheckFault returns an error with suggestions for the name of an unknown fault.
func CheckFault(flag, name string, known []string) error {
	if slices.Contains(known, name) {
		return nil
	}
	return fmt.Errorf("%s %q is unknown: %s", flag, name, text.DidYouMean(name, known))
}
