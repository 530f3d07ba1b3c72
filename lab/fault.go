package lab

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/lab/engine"
	"paramedic/lab/machine"
	"paramedic/lab/traffic"
)

// A Fault is a failure that begins at a set time. Its Name is the cause that a diagnosis should
// find.
type Fault struct {
	Name     string        `json:"name"`
	At       time.Duration `json:"at"`       // since the fleet's start; if it has passed: now
	Ramp     time.Duration `json:"ramp"`     // until full strength
	Shape    Shape         `json:"shape"`    // default: a step, or a ramp if Ramp is set
	Period   time.Duration `json:"period"`   // of a pulse or a sawtooth; default 4 min
	For      time.Duration `json:"for"`      // default: until it is repaired
	Severity float64       `json:"severity"` // default 1
	Worker   int           `json:"worker"`   // for a fault of one worker; 0 is the first
	Code     int           `json:"code"`     // gpu_fault: the Xid; default 79
	Then     int           `json:"then"`     // gpu_fault: a second Xid half a minute later; 0: none
	Story    int           `json:"story"`    // which of the lab's own stories is told; 0 is the first
	Plot     *Plot         `json:"-"`        // another story, which replaces what the fault does; nil: none
}

// The faults that the lab can inject.
const (
	KVExhaustion        = "kv_exhaustion"
	KVLeak              = "kv_leak"
	ConcurrencyCap      = "concurrency_cap"
	PrefillStarvation   = "prefill_starvation"
	RoutingSkew         = "routing_skew"
	PrefixCacheCollapse = "prefix_cache_collapse"
	HostMemoryLeak      = "host_memory_leak"
	GPUFault            = "gpu_fault"
	EngineHang          = "engine_hang"
	QualityRegression   = "quality_regression"
	BenignAlert         = "benign_alert"
	GatewayFailure      = "gateway_failure"
	MonitoringGap       = "monitoring_gap"
	GPUUnderutilization = "gpu_underutilization"
)

// joined returns names as a list for people.
func joined[T ~string](names []T) string {
	words := make([]string, len(names))
	for i, n := range names {
		words[i] = string(n)
	}
	return strings.Join(words, ", ")
}

// Faults returns the faults' names.
func Faults() []string {
	return slices.Concat([]string{
		QualityRegression,
		KVExhaustion, KVLeak, ConcurrencyCap, PrefillStarvation, RoutingSkew, PrefixCacheCollapse, HostMemoryLeak, GPUFault, EngineHang,
		BenignAlert,
		GatewayFailure, MonitoringGap,
		GPUUnderutilization,
	}, machineFaults, demandFaults, clusterFaults)
}

type activeFault struct {
	Fault
	at       float64
	begun    bool
	worker   *worker      // that it affects, if it is the fault of one
	over     bool         // its time has passed
	gpu      *machine.GPU // that it affects, if it is the fault of one
	followed bool         // Then was reported
	hash     string       // of the newest revision when it began; for a Plot
	since    float64      // when it began; for a Plot. A ramp begins after at
}

// level returns the fault's strength at a time, from 0 to its severity.
func (a *activeFault) level(now float64) float64 {
	since := now - a.at
	if since < 0 || a.For > 0 && since >= a.For.Seconds() {
		return 0
	}
	if ramp := a.Ramp.Seconds(); since < ramp {
		return a.Severity * since / ramp
	}
	return a.Severity * a.Shape.at(since, a.Period.Seconds())
}

// Inject adds a fault to the fleet.
func (f *Fleet) Inject(x Fault) error {
	if !slices.Contains(Faults(), x.Name) && !slices.Contains(Decoys(), x.Name) {
		return fmt.Errorf("fault %q is unknown: use one of %s", x.Name, joined(Faults()))
	}
	if err := x.Shape.validate(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if x.Worker < 0 || x.Worker >= f.cfg.Workers {
		return fmt.Errorf("fault %s affects worker %d, counted from 0, but the fleet has %d workers: use more workers",
			x.Name, x.Worker, f.cfg.Workers)
	}
	setDefault(&x.Severity, 1)
	setDefault(&x.Period, 4*time.Minute)
	if x.Shape == Gradual {
		setDefault(&x.Ramp, 3*time.Minute)
	}
	setDefault(&x.Code, 79)
	f.faults = append(f.faults, &activeFault{Fault: x, at: max(f.now, x.At.Seconds())})
	return nil
}

func (f *Fleet) applyFaults() {
	mix := f.cfg.Workload
	for _, a := range f.faults {
		level := a.level(f.now)
		if a.Plot != nil {
			f.tell(a, &mix, level)
			continue
		}
		if level > 0 || a.begun {
			f.act(a, &mix, level)
			a.shapeDecoy(&mix, level)
		}
		if level > 0 && !a.begun {
			a.begun = true
			f.event("", "Fault", a.Name)
			f.begin(a)
			f.beginCluster(a)
			f.beginDecoy(a)
		}
		if a.begun && !a.over && a.For > 0 && f.now-a.at >= a.For.Seconds() {
			a.over = true
			a.end()
		}
		if a.Name == GPUFault && a.Then != 0 && !a.followed && f.now-a.at >= 30 {
			if a.gpu != nil {
				a.gpu.Report(a.Then, f.now)
			}
			a.followed = true
		}
		switch {
		case !a.begun || a.Story > 0:
		case a.Name == RoutingSkew:
			f.router.Skew = min(0.95, 0.7*level)
		case a.Name == GatewayFailure:
			f.gateway.Blind = level > 0
		case a.Name == MonitoringGap:
			f.unseen = level > 0
		case a.Name == GPUUnderutilization:
			f.starved = level
		}
	}
	mix.Rate = min(mix.Rate, MaxRate) // a strong fault may multiply it beyond the limit
	f.mix = mix
}

// act changes the traffic and the engines' settings as the fault's story tells.
func (f *Fleet) act(a *activeFault, w *traffic.Workload, level float64) {
	switch v := a.variation(); {
	case v == nil && a.Name == PrefillStarvation:
		f.tune(func(e *engine.Engine, level float64) { e.Budget = max(1, int(42/level)) }, level)
	case v == nil:
		a.shape(w, level, f.now-a.at)
	case v.shape != nil:
		v.shape(w, level)
	case v.tune != nil:
		f.tune(v.tune, level)
	}
}

// shape changes the traffic if the fault is a change of traffic.
func (a *activeFault) shape(w *traffic.Workload, level, since float64) {
	switch a.Name {
	case KVExhaustion:
		w.Output.Mean *= 1 + 1.28*level
		// A wave of new sessions starts it; preemptions, timeouts and retries keep it going.
		if since < a.Ramp.Seconds()+180 {
			w.Rate *= 1 + 1.2*level
		}
	case KVLeak:
		w.CancelShare = min(1, w.CancelShare+0.25*level)
	case ConcurrencyCap:
		w.Rate *= 1 + 0.45*level
	case CUDAOOM:
		w.LongShare, w.LongScore = 0.016*level, true
		w.Long = traffic.Lengths{Mean: 6000, Sigma: 0.1}
	case PrefixCacheCollapse:
		w.GroupShare *= max(0, 1-level)
	default:
		a.shapeDemand(w, level)
	}
}

// begin starts a fault of one process or one machine.
func (f *Fleet) begin(a *activeFault) {
	w := f.workers[min(a.Worker, len(f.workers)-1)]
	a.worker = w
	switch a.Name {
	case RoutingSkew:
		f.router.SkewPod = w.name
	case KVLeak:
		if w.eng != nil {
			w.eng.Leaky = true
		}
	case HostMemoryLeak:
		w.leakRate = 128 << 20 * a.Severity
	case QualityRegression:
		f.breakTemplate(a.Severity)
	case EngineHang:
		if w.eng != nil {
			w.eng.Hung = true
		}
	case GPUFault:
		if len(w.gpus) > 0 {
			g := w.gpus[0]
			a.gpu, g.Fault = g, a.Code
			g.Report(a.Code, f.now)
		}
	case GPUThrottle, NodeFailure, OOMKilled, GPUMemoryLeak:
		f.beginMachine(a, w)
	case BenignAlert:
		for _, c := range f.workers {
			for _, g := range c.gpus {
				g.Reserved = max(g.Reserved, 0.945)
			}
		}
	}
}

// end stops a fault that can end by itself: a leak, a hang, poor cooling. A dead process, a dead
// machine and a rollout stay until they are repaired.
func (a *activeFault) end() {
	w := a.worker
	switch a.Name {
	case KVLeak:
		if w.eng != nil {
			w.eng.Leaky = false
		}
	case EngineHang:
		if w.eng != nil {
			w.eng.Hung = false
		}
	case HostMemoryLeak:
		w.leakRate = 0
	case GPUMemoryLeak:
		w.gpuLeak = 0
	case OOMKilled:
		w.burst = 0
	case GPUThrottle:
		if a.gpu != nil {
			a.gpu.Cooling = 1
		}
	}
}
