package lab

import (
	"cmp"
	"fmt"
	"math/rand/v2"

	"paramedic/lab/engine"
	"paramedic/lab/machine"
)

type phase int

const (
	podPending phase = iota // no node has room
	podLoading              // the container runs and loads the model
	podReady
	podBackOff // the container died and waits to be started again
	podLost    // its node does not answer
	podGone
	podPulling // its image cannot be pulled
)

// worker is a pod and the engine in it.
type worker struct {
	Trouble
	name, uid, hash, ip string
	args                []string
	image               string
	flawed              float64 // share of requests that its revision fails
	node                *machine.Node
	gpus                []*machine.GPU

	phase      phase
	until      float64 // when the phase ends: loading, back-off
	loaded     float64 // until, while its machine has no network
	created    float64
	started    float64 // the container, last
	inService  bool
	leaving    bool // it terminates
	leaveBy    float64
	restarts   int
	lastReason string // of the last termination
	lastCode   int
	lastWords  string // the end of its log
	lastAt     float64

	eng      *engine.Engine
	kept     *engine.Engine // while its machine has no network
	rng      *rand.Rand
	rss      float64 // bytes of the API server's process
	memory   float64 // working set of the container
	leakRate float64 // bytes a second
	gpuLeak  float64 // MiB a second on each of its GPUs
	burst    float64 // bytes a second, from burstAfter on
	// CFS periods of the container, and those in which it was throttled.
	cpuPeriods, cpuThrottled float64

	spoiled float64 // how badly its chat template fits the model
	words   string  // its last log lines if it dies now
	failing float64 // the time at which all requests began to fail; 0: they do not
}

func (w *worker) serves() bool {
	return w.phase == podReady && w.inService && !w.leaving && !w.Unready && !w.Unrouted
}

// Name returns the pod's name.
func (w *worker) Name() string { return w.name }

// Engine returns the engine, or nil if the container runs none.
func (w *worker) Engine() *engine.Engine { return w.eng }

// Load returns the number of requests that run and wait.
func (w *worker) Load() int { return w.eng.Load() }

// start begins the container's process on the pod's GPUs.
func (w *worker) start(now, load float64) {
	w.phase, w.started, w.until = podLoading, now, now+load
	w.memory, w.rss, w.failing = 18<<30, 0, 0 // the weights pass through host memory
	w.eng = nil
}

func (w *worker) serve(f *Fleet) {
	w.phase = podReady
	e := f.settings(w)
	w.eng = engine.New(engine.Config{Kind: f.cfg.Kind, Settings: e, Cost: f.cfg.Cost, GroupTokens: f.cfg.Workload.GroupTokens,
		Rand: w.rng, Trouble: &w.Trouble.Trouble, Front: f.gateway.Frontend}, f.now)
	w.memory, w.rss = 18<<30, 3.1*(1<<30)
	for _, g := range w.gpus {
		g.Reserved = e.GPUMemoryUtilization
	}
}

// die ends the container's process. Its requests fail, and the kubelet restarts it after a
// back-off.
func (w *worker) die(f *Fleet, reason string, code int) {
	f.abandon(w, true)
	w.lastReason, w.lastCode, w.lastAt = reason, code, f.now
	w.lastWords, w.words = w.words, ""
	w.restarts++
	w.eng = nil
	for _, g := range w.gpus {
		g.Reset()
	}
	w.phase, w.until = podBackOff, f.now+backOff(w.restarts)
}

// backOff returns the kubelet's delay: 1 s for the first restart, then 10 s, 20 s, up to 5 minutes.
func backOff(restarts int) float64 {
	if restarts <= 1 {
		return 1
	}
	return min(300, 10*float64(int(1)<<min(restarts-2, 10)))
}

func (w *worker) waitingReason() string {
	switch {
	case w.phase == podBackOff && w.restarts > 1:
		return "CrashLoopBackOff"
	case w.phase == podPulling:
		return cmp.Or(w.Waits, "ImagePullBackOff")
	case w.phase == podPending:
		return "ContainerCreating"
	}
	return ""
}

const podLetters = "bcdfghjklmnpqrstvwxz2456789"

// hashLetters are the letters of a pod-template-hash: Kubernetes encodes a number's digits with
// them.
const hashLetters = "456789bcdf"

func randomName(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = podLetters[rng.IntN(len(podLetters))]
	}
	return string(b)
}

func randomUID(rng *rand.Rand) string {
	a, b := rng.Uint64(), rng.Uint64()
	return fmt.Sprintf("%08x-%04x-4%03x-%04x-%012x", a>>32, a>>16&0xffff, a&0xfff, b>>48&0x3fff|0x8000,
		b&0xffffffffffff)
}

// pace returns the factor by which low clocks and the worker's trouble slow its steps. All ranks of
// a tensor-parallel group wait for each other in every layer, so the slowest GPU sets the pace.
func (w *worker) pace() float64 {
	slow := 1.0
	for _, g := range w.gpus {
		slow = max(slow, g.Slowdown())
	}
	return slow * max(1, w.Slow)
}
