package lab

import (
	"cmp"
	"fmt"
	"math/rand/v2"
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
	node                *node
	gpus                []*gpu

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

	eng      *engine
	kept     *engine // while its machine has no network
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

func (w *worker) load() int {
	if w.eng == nil {
		return 0
	}
	return len(w.eng.running) + len(w.eng.waiting)
}

// start begins the container's process on the pod's GPUs.
func (w *worker) start(now, load float64) {
	w.phase, w.started, w.until = podLoading, now, now+load
	w.memory, w.rss, w.failing = 18<<30, 0, 0 // the weights pass through host memory
	w.eng = nil
}

func (w *worker) serve(f *Fleet) {
	w.phase = podReady
	e := f.engineOf(w.args)
	w.eng = newEngine(e, f.cfg.Cost, f.cfg.Workload.GroupTokens, w.rng)
	w.eng.trouble = &w.Trouble
	switch f.cfg.Kind {
	case SGLang:
		w.eng.sglang = newSGLangStats(f.now)
	case TRTLLM:
		w.eng.trtllm = newTRTLLMStats()
	case Dynamo:
		w.eng.handler, w.eng.front = &handlerStats{duration: newHistogram(handlerEdges)}, f.gateway.front
	}
	w.memory, w.rss = 18<<30, 3.1*(1<<30)
	for _, g := range w.gpus {
		g.reserved = e.GPUMemoryUtilization
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
		g.reserved, g.leaked = 0, 0
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
