package rules

import (
	"slices"
	"time"

	"paramedic/state"
)

// observations say from which value on a signal is a symptom, where there are no alerts to say so.
// They are the thresholds that the alert rules in use agree on most (docs: playbooks of the causes
// that explain them).
var observations = []struct {
	symptom  state.Symptom
	severity state.Severity
	signal   string
	over     float64
}{
	{"kv_pressure", state.Critical, "kv_usage", 0.9},
	{"kv_pressure", state.Warning, "kv_idle_usage", 0.1},
	{"preemptions", state.Warning, "preemption_rate", 0.1},
	{"queue_buildup", state.Warning, "requests_waiting", 20},
	{"queue_time_high", state.Warning, "queue_time_p95", 2},
	{"ttft_high", state.Warning, "ttft_p95", 2},
	{"itl_high", state.Warning, "itl_p95", 0.15},
	{"error_rate", state.Critical, "error_rate", 0.05},
	{"gpu_hardware", state.Critical, "gpu_xid_changes", 0},
}

// Observe names the symptoms that evidence shows by itself, for a look at a fleet that no alert has
// called for.
func Observe(ev *state.Evidence) []state.SymptomCount {
	var out []state.SymptomCount
	seen := map[state.Symptom]int{}
	add := func(symptom state.Symptom, severity state.Severity, e state.Entity, at time.Time) {
		i, ok := seen[symptom]
		if !ok {
			i = len(out)
			seen[symptom] = i
			out = append(out, state.SymptomCount{Symptom: symptom, Severity: severity, First: at, Last: at, Hints: map[string]string{}})
		}
		out[i].Alerts++
		out[i].Active++
		if len(out[i].Entities) < 32 {
			out[i].Entities = append(out[i].Entities, e)
		}
	}
	running, tokens := map[place]float64{}, map[place]float64{}
	whole := wholePools(ev)
	held := true // KV cache that is nearly full counts with it, too
	for _, s := range ev.Samples {
		worker := workerOf(s.Entity)
		held = held && !(s.Signal == "kv_usage" && s.Value > 0.9)
		for _, o := range observations {
			if s.Signal == o.signal && (worker != place{} || s.Entity.GPU != "") && s.Value > o.over {
				add(o.symptom, o.severity, s.Entity, s.At)
			}
		}
		switch {
		case s.Signal == "requests_running":
			running[worker] = s.Value
		case s.Signal == "generation_tokens_rate":
			tokens[worker] = s.Value
		case s.Signal == "gateway_ready_endpoints" && s.Value == 0:
			add("no_endpoints", state.Critical, s.Entity, s.At)
		case s.Signal == "gateway_error_ratio" && s.Value > 0.05:
			add("error_rate", state.Critical, s.Entity, s.At)
		case s.Signal == "pod_waiting_reason" && s.Text == "CrashLoopBackOff":
			add("crash_loop", state.Critical, s.Entity, s.At)
		case s.Signal == "pod_ready" && s.Value == 0 && !whole.without(s.Entity):
			add("worker_down", state.Warning, s.Entity, s.At)
		case s.Signal == "up" && s.Value == 0 && !(whole.without(s.Entity) && whole.notReady[worker]):
			add("target_down", state.Critical, s.Entity, s.At)
		case s.Signal == "pod_last_terminated" && s.Text == "OOMKilled":
			add("oom", state.Critical, s.Entity, s.At)
		case s.Signal == "gpu_clock_event" && s.Value > 0 && slices.Contains(brakes, s.Text):
			add("gpu_throttled", state.Warning, s.Entity, s.At)
		case s.Signal == "prefix_hit_ratio" && s.Baseline != nil && *s.Baseline > 0.2 && s.Value < *s.Baseline/2:
			add("prefix_hit_low", state.Warning, s.Entity, s.At)
		}
	}
	for _, s := range ev.Samples {
		worker := workerOf(s.Entity)
		if rate, ok := tokens[worker]; s.Signal == "requests_running" && worker != (place{}) && ok && running[worker] > 0 && rate == 0 {
			add("throughput_drop", state.Critical, s.Entity, s.At)
		}
	}
	if _, ok := seen["worker_down"]; !ok { // those that it had may have been replaced
		for _, s := range ev.Samples {
			if s.Signal == "node_ready" && s.Value == 0 {
				add("worker_down", state.Critical, s.Entity, s.At)
			}
		}
	}
	slowClocks(ev, add)
	hangUps(ev, add)
	memoryGrowth(ev, add)
	for i := range out {
		if out[i].Symptom == "kv_pressure" && held {
			out[i].Hints[heldIdle] = "true"
		}
	}
	return out
}

// staffed are the pools that have all replicas that are wanted of them: a pod beside those that is
// not ready starts, or ends, in a rollout.
type staffed struct {
	pools    map[place]bool
	notReady map[place]bool // workers
}

func wholePools(ev *state.Evidence) staffed {
	ready, out := map[place]float64{}, staffed{map[place]bool{}, map[place]bool{}}
	for _, s := range ev.Samples {
		switch {
		case s.Signal == "replicas_ready":
			ready[place{s.Entity.Namespace, s.Entity.Pool}] = s.Value
		case s.Signal == "pod_ready" && s.Value == 0:
			out.notReady[workerOf(s.Entity)] = true
		}
	}
	for _, s := range ev.Samples {
		pool := place{s.Entity.Namespace, s.Entity.Pool}
		if n, known := ready[pool]; s.Signal == "replicas_desired" && s.Value > 0 && known {
			out.pools[pool] = n >= s.Value
		}
	}
	return out
}

// without says that the entity's pool is whole, whether or not the entity is ready.
func (w staffed) without(e state.Entity) bool {
	return e.Pool != "" && w.pools[place{e.Namespace, e.Pool}]
}

// heldIdle is the hint that a look has seen KV cache held while nothing runs, and none that is
// nearly full. A rule's is idle_kv.
const heldIdle = "held_idle"

// brakes are the clock events that slow a GPU down against its own will. A power cap is none: every
// GPU at full load shows it.
var brakes = []string{"hw_thermal", "sw_thermal", "hw_slowdown", "hw_power_brake"}

// What makes a slow clock a symptom without the driver's word: more is wanted than gpu_throttle's
// 0.8 of the peers' clock, and its 1.5 between tokens, since here nothing but the two speaks for
// it.
const (
	atWork    = 50  // percent of gpu_util
	slowClock = 0.7 // of the median of the busy GPUs
	slowGaps  = 1.5 // of the quickest worker's
)

// slowClocks is a symptom of a busy GPU that runs far below its busy peers, where its worker is
// slow between tokens too: exporters leave clock events out unless they are told to, and a clock
// alone may be another model's or a sensor's whim.
func slowClocks(ev *state.Evidence, add func(state.Symptom, state.Severity, state.Entity, time.Time)) {
	type machine struct{ node, gpu string }
	busy, quickest := map[machine]bool{}, 0.0
	gaps, told := map[place]float64{}, map[machine]bool{}
	for _, s := range ev.Samples {
		switch at := (machine{s.Entity.Node, s.Entity.GPU}); s.Signal {
		case "gpu_util":
			busy[at] = s.Value > atWork
		case "gpu_clock_event":
			told[at] = true // the driver has said what holds it
		case "itl_p95":
			if w := workerOf(s.Entity); w != (place{}) {
				if gaps[w] = s.Value; quickest == 0 || s.Value < quickest {
					quickest = s.Value
				}
			}
		}
	}
	var clocks []float64
	for _, s := range ev.Samples {
		if s.Signal == "gpu_sm_clock" && busy[machine{s.Entity.Node, s.Entity.GPU}] {
			clocks = append(clocks, s.Value)
		}
	}
	if len(clocks) < 3 || quickest == 0 {
		return
	}
	slices.Sort(clocks)
	usual := clocks[len(clocks)/2] // with three or more, one slow GPU does not move it
	for _, s := range ev.Samples {
		at := machine{s.Entity.Node, s.Entity.GPU}
		if s.Signal == "gpu_sm_clock" && busy[at] && !told[at] && s.Value < slowClock*usual && gaps[workerOf(s.Entity)] > slowGaps*quickest {
			add("gpu_throttled", state.Warning, s.Entity, s.At)
		}
	}
}

// So many of the requests that end are aborted, at such a rate, where it is a symptom: one in
// twenty is everyday, a third is beyond impatience (as client_cancellations has it), and two aborts
// within minutes are chance.
const (
	abortShare = 0.3
	abortFloor = 0.1 // 1/s
)

// ends are requests a second, by how they end.
type ends struct{ aborted, finished float64 }

// share is what part of them is aborted; zero where none ends.
func (e ends) share() float64 {
	if e.aborted <= 0 {
		return 0
	}
	return e.aborted / (e.aborted + e.finished)
}

// many says that so many are aborted, at more than a rate, that it is a symptom.
func (e ends) many(floor float64) bool { return e.aborted > floor && e.share() > abortShare }

// hangUps is a symptom of a worker, or of a pool over all its workers, of whose requests a third or
// more are aborted.
func hangUps(ev *state.Evidence, add func(state.Symptom, state.Severity, state.Entity, time.Time)) {
	pool := func(e state.Entity) place { return place{e.Namespace + "/" + e.Pool, e.Model} }
	own, all := map[place]ends{}, map[place]ends{}
	for _, s := range ev.Samples {
		var of ends
		switch s.Signal {
		case "abort_rate":
			of.aborted = s.Value
		case "finish_rate":
			of.finished = s.Value
		default:
			continue
		}
		w, p := own[workerOf(s.Entity)], all[pool(s.Entity)]
		own[workerOf(s.Entity)] = ends{w.aborted + of.aborted, w.finished + of.finished}
		all[pool(s.Entity)] = ends{p.aborted + of.aborted, p.finished + of.finished}
	}
	for _, s := range ev.Samples {
		if s.Signal != "abort_rate" {
			continue
		}
		w := own[workerOf(s.Entity)]
		if workerOf(s.Entity) == (place{}) {
			w = ends{} // the pool's own figure, where no worker has one
		}
		if w.many(abortFloor) || all[pool(s.Entity)].many(abortFloor) && (workerOf(s.Entity) == place{} || w.many(0)) {
			add("aborts", state.Warning, s.Entity, s.At)
		}
	}
}

// workerOf names a worker, also one whose page is all that is known of it; it is zero for what
// belongs to no worker.
func workerOf(e state.Entity) place {
	if e.Pod == "" {
		return place{name: e.Instance}
	}
	return place{e.Namespace, e.Pod}
}

// memoryGrowth is a symptom where the memory, growing on as it does, meets its limit within four
// hours.
func memoryGrowth(ev *state.Evidence, add func(state.Symptom, state.Severity, state.Entity, time.Time)) {
	type memory struct{ used, limit, slope float64 }
	pods := map[place]*memory{}
	for _, s := range ev.Samples {
		if s.Entity.Pod == "" {
			continue
		}
		m := pods[workerOf(s.Entity)]
		if m == nil {
			m = &memory{}
			pods[workerOf(s.Entity)] = m
		}
		switch s.Signal {
		case "container_memory":
			m.used = s.Value
		case "container_memory_limit":
			m.limit = s.Value
		case "container_memory_slope":
			m.slope = s.Value
		}
	}
	for _, s := range ev.Samples {
		m := pods[workerOf(s.Entity)]
		if s.Signal == "container_memory_slope" && m != nil && m.limit > 0 && m.used+m.slope*4*3600 > m.limit {
			add("memory_growth", state.Warning, s.Entity, s.At)
		}
	}
}
