package evidence

import (
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/topology"
	"paramedic/state"
)

// observations are the thresholds from which a signal is a symptom without an alert. They are the
// thresholds that most public alert rules agree on (docs: playbooks of the causes that explain
// them).
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

// Observe returns the symptoms that the evidence shows without any alert, for a survey of the
// fleet.
func Observe(ev *state.Evidence) []state.SymptomCount {
	found, ready := symptomList{seen: map[state.Symptom]int{}}, fullPoolsOf(ev)
	for _, s := range ev.Samples {
		found.thresholds(s)
		found.states(s, ready)
	}
	found.stalls(ev)
	found.failedNodes(ev)
	slowClocks(ev, found.add)
	hangUps(ev, found.add)
	memoryGrowth(ev, found.add)
	full := slices.ContainsFunc(ev.Samples,
		func(s state.Sample) bool { return s.Signal == "kv_usage" && s.Value > 0.9 })
	for i := range found.out {
		if found.out[i].Symptom == "kv_pressure" && !full {
			found.out[i].Hints[catalog.HeldIdle] = "true"
		}
	}
	return found.out
}

// A symptomList collects the symptoms of evidence in the order of their discovery.
type symptomList struct {
	out  []state.SymptomCount
	seen map[state.Symptom]int // index in out
}

// add counts a symptom of an entity. A symptom lists at most 32 entities.
func (l *symptomList) add(symptom state.Symptom, severity state.Severity, e state.Entity, at time.Time) {
	i, ok := l.seen[symptom]
	if !ok {
		i = len(l.out)
		l.seen[symptom] = i
		l.out = append(l.out, state.SymptomCount{Symptom: symptom, Severity: severity, First: at, Last: at,
			Hints: map[string]string{}})
	}
	found := &l.out[i]
	found.Alerts++
	found.Active++
	if len(found.Entities) < 32 {
		found.Entities = append(found.Entities, e)
	}
}

// thresholds adds the symptoms of a worker's or GPU's sample above a threshold of observations.
func (l *symptomList) thresholds(s state.Sample) {
	if topology.WorkerOf(s.Entity) == (topology.Place{}) && s.Entity.GPU == "" {
		return
	}
	for _, o := range observations {
		if s.Signal == o.signal && s.Value > o.over {
			l.add(o.symptom, o.severity, s.Entity, s.At)
		}
	}
}

// states adds the symptoms that gateways, Kubernetes, scrapes and drivers report as a state.
func (l *symptomList) states(s state.Sample, ready fullPools) {
	switch {
	case s.Signal == "gateway_ready_endpoints" && s.Value == 0:
		l.add("no_endpoints", state.Critical, s.Entity, s.At)
	case s.Signal == "gateway_error_ratio" && s.Value > 0.05:
		l.add("error_rate", state.Critical, s.Entity, s.At)
	case s.Signal == "pod_waiting_reason" && s.Text == "CrashLoopBackOff":
		l.add("crash_loop", state.Critical, s.Entity, s.At)
	case s.Signal == "pod_ready" && s.Value == 0 && !ready.without(s.Entity):
		l.add("worker_down", state.Warning, s.Entity, s.At)
	case s.Signal == "up" && s.Value == 0 && !(ready.without(s.Entity) && ready.notReady[topology.WorkerOf(s.Entity)]):
		l.add("target_down", state.Critical, s.Entity, s.At)
	case s.Signal == "pod_last_terminated" && s.Text == "OOMKilled":
		l.add("oom", state.Critical, s.Entity, s.At)
	case s.Signal == "gpu_clock_event" && s.Value > 0 && slices.Contains(brakes, s.Text):
		l.add("gpu_throttled", state.Warning, s.Entity, s.At)
	case s.Signal == "prefix_hit_ratio" && s.Baseline != nil && *s.Baseline > 0.2 && s.Value < *s.Baseline/2:
		l.add("prefix_hit_low", state.Warning, s.Entity, s.At)
	}
}

// stalls adds a symptom for each worker that runs requests and produces no tokens.
func (l *symptomList) stalls(ev *state.Evidence) {
	running, tokens := map[topology.Place]float64{}, map[topology.Place]float64{}
	for _, s := range ev.Samples {
		switch s.Signal {
		case "requests_running":
			running[topology.WorkerOf(s.Entity)] = s.Value
		case "generation_tokens_rate":
			tokens[topology.WorkerOf(s.Entity)] = s.Value
		}
	}
	for _, s := range ev.Samples {
		worker := topology.WorkerOf(s.Entity)
		rate, known := tokens[worker]
		if s.Signal == "requests_running" && worker != (topology.Place{}) && known && running[worker] > 0 && rate == 0 {
			l.add("throughput_drop", state.Critical, s.Entity, s.At)
		}
	}
}

// failedNodes adds a symptom for each node that is not ready if no worker is down: the workers of
// such a node may have been replaced by now.
func (l *symptomList) failedNodes(ev *state.Evidence) {
	if _, down := l.seen["worker_down"]; down {
		return
	}
	for _, s := range ev.Samples {
		if s.Signal == "node_ready" && s.Value == 0 {
			l.add("worker_down", state.Critical, s.Entity, s.At)
		}
	}
}

// fullPools holds the pools that have all wanted replicas ready. An additional pod that is not
// ready is starting or terminating in a rollout.
type fullPools struct {
	pools    map[topology.Place]bool
	notReady map[topology.Place]bool // workers
}

func fullPoolsOf(ev *state.Evidence) fullPools {
	ready, out := map[topology.Place]float64{}, fullPools{map[topology.Place]bool{}, map[topology.Place]bool{}}
	for _, s := range ev.Samples {
		switch {
		case s.Signal == "replicas_ready":
			ready[topology.PlaceOf(s.Entity.Namespace, s.Entity.Pool)] = s.Value
		case s.Signal == "pod_ready" && s.Value == 0:
			out.notReady[topology.WorkerOf(s.Entity)] = true
		}
	}
	for _, s := range ev.Samples {
		pool := topology.PlaceOf(s.Entity.Namespace, s.Entity.Pool)
		if n, known := ready[pool]; s.Signal == "replicas_desired" && s.Value > 0 && known {
			out.pools[pool] = n >= s.Value
		}
	}
	return out
}

// without reports whether the entity's pool has all wanted replicas ready.
func (w fullPools) without(e state.Entity) bool {
	return e.Pool != "" && w.pools[topology.PlaceOf(e.Namespace, e.Pool)]
}

// brakes are the clock events that indicate a fault. A power cap is not one of them: every GPU at
// full load shows it.
var brakes = []string{"hw_thermal", "sw_thermal", "hw_slowdown", "hw_power_brake"}

// Thresholds for slow clocks without a clock event of the driver. They are stricter than those of
// gpu_throttle (0.8 of the peers' clock, 1.5 between tokens), because no other evidence is required
// here.
const (
	atWork    = 50  // percent of gpu_util
	slowClock = 0.7 // of the median of the busy GPUs
	slowGaps  = 1.5 // of the fastest worker's
)

// slowClocks adds a symptom for a busy GPU that is much slower than its busy peers, if its worker
// is also slow between tokens. DCGM exporters do not export clock events by default. A clock alone
// may be due to another model or a wrong sensor.
func slowClocks(ev *state.Evidence, add func(state.Symptom, state.Severity, state.Entity, time.Time)) {
	type machine struct{ node, gpu string }
	busy, quickest := map[machine]bool{}, 0.0
	gaps, told := map[topology.Place]float64{}, map[machine]bool{}
	for _, s := range ev.Samples {
		switch at := (machine{s.Entity.Node, s.Entity.GPU}); s.Signal {
		case "gpu_util":
			busy[at] = s.Value > atWork
		case "gpu_clock_event":
			told[at] = true // the driver has reported a reason
		case "itl_p95":
			if w := topology.WorkerOf(s.Entity); w != (topology.Place{}) {
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
	usual := clocks[len(clocks)/2] // with three or more, one slow GPU does not change it
	for _, s := range ev.Samples {
		at := machine{s.Entity.Node, s.Entity.GPU}
		if s.Signal == "gpu_sm_clock" && busy[at] && !told[at] && s.Value < slowClock*usual &&
			gaps[topology.WorkerOf(s.Entity)] > slowGaps*quickest {
			add("gpu_throttled", state.Warning, s.Entity, s.At)
		}
	}
}

// The share and rate of aborts that are a symptom. One abort in twenty requests is normal, and a
// third exceeds impatience (client_cancellations has the same limit). Two aborts within minutes are
// chance.
const (
	abortShare = 0.3
	abortFloor = 0.1 // 1/s
)

// completions holds requests per second by their end.
type completions struct{ aborted, finished float64 }

// share returns the share of aborted requests; zero if no request ends.
func (e completions) share() float64 {
	if e.aborted <= 0 {
		return 0
	}
	return e.aborted / (e.aborted + e.finished)
}

// many reports whether the rate of aborts is above floor and their share above abortShare.
func (e completions) many(floor float64) bool { return e.aborted > floor && e.share() > abortShare }

// hangUps adds a symptom for each worker that aborts many of its requests, and for each pool that
// does so over all workers.
func hangUps(ev *state.Evidence, add func(state.Symptom, state.Severity, state.Entity, time.Time)) {
	pool := func(e state.Entity) topology.Place { return topology.PlaceOf(e.Namespace+"/"+e.Pool, e.Model) }
	own, all := map[topology.Place]completions{}, map[topology.Place]completions{}
	for _, s := range ev.Samples {
		var of completions
		switch s.Signal {
		case "abort_rate":
			of.aborted = s.Value
		case "finish_rate":
			of.finished = s.Value
		default:
			continue
		}
		w, p := own[topology.WorkerOf(s.Entity)], all[pool(s.Entity)]
		own[topology.WorkerOf(s.Entity)] = completions{w.aborted + of.aborted, w.finished + of.finished}
		all[pool(s.Entity)] = completions{p.aborted + of.aborted, p.finished + of.finished}
	}
	for _, s := range ev.Samples {
		if s.Signal != "abort_rate" {
			continue
		}
		w := own[topology.WorkerOf(s.Entity)]
		if topology.WorkerOf(s.Entity) == (topology.Place{}) {
			w = completions{} // a total of the pool counts only if no worker has its own rate
		}
		if w.many(abortFloor) || all[pool(s.Entity)].many(abortFloor) && (topology.WorkerOf(s.Entity) == topology.Place{} || w.many(0)) {
			add("aborts", state.Warning, s.Entity, s.At)
		}
	}
}

// memoryGrowth adds a symptom if a container reaches its memory limit within four hours at the
// present growth.
func memoryGrowth(ev *state.Evidence, add func(state.Symptom, state.Severity, state.Entity, time.Time)) {
	type memory struct{ used, limit, slope float64 }
	pods := map[topology.Place]*memory{}
	for _, s := range ev.Samples {
		if s.Entity.Pod == "" {
			continue
		}
		m := pods[topology.WorkerOf(s.Entity)]
		if m == nil {
			m = &memory{}
			pods[topology.WorkerOf(s.Entity)] = m
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
		m := pods[topology.WorkerOf(s.Entity)]
		if s.Signal == "container_memory_slope" && m != nil && m.limit > 0 && m.used+m.slope*4*3600 > m.limit {
			add("memory_growth", state.Warning, s.Entity, s.At)
		}
	}
}
