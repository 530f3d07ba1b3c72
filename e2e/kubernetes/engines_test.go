package kubernetes

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"paramedic/lab"
)

const (
	enginePort = "8000"
	workers    = 3
	modelName  = "llama-70b"
	poolName   = "vllm-llama"
	// pace is how many simulated seconds pass in one of the tests'.
	pace = 4
)

// A flock is the simulated engines behind one namespace's pods. The pods that have the same
// --max-num-seqs share one simulated fleet, which a router feeds as the real one would; a pod with
// another value gets a worker of another fleet, brought forward to the moment at which that value
// has taken effect.
type flock struct {
	seed     uint64
	scenario string
	// shape is what else differs for engines with a value of --max-num-seqs; nil: nothing.
	shape func(c *lab.Config, maxNumSeqs int)
	// past is how much simulated time engines with a value have behind them when they are first
	// seen.
	past func(maxNumSeqs int) time.Duration
	// busy makes every page say that a request still runs, as of a client that keeps its stream
	// open.
	busy atomic.Bool

	mu     sync.Mutex
	fleets map[int]*lab.Fleet
	next   map[int]int
	pasts  [][]byte          // one for each of the first pods
	before map[string][]byte // those that Prometheus is to know, by their pods
	ctx    context.Context
}

// flocks are by namespace.
var flocks sync.Map

// engineOf is the engine behind a pod, for the pods of tests.
func engineOf(p *corev1.Pod) http.Handler {
	f, ok := flocks.Load(p.Namespace)
	if !ok {
		return nil
	}
	return f.(*flock).engine(p)
}

// raise makes a namespace's engines ready to back its pods.
func raise(t *testing.T, namespace string, f *flock) {
	t.Helper()
	f.fleets, f.next, f.before, f.ctx = map[int]*lab.Fleet{}, map[int]int{}, map[string][]byte{}, t.Context()
	flocks.Store(namespace, f)
	t.Cleanup(func() { flocks.Delete(namespace) })
}

func maxNumSeqs(p *corev1.Pod) int {
	for _, arg := range p.Spec.Containers[0].Args {
		if v, ok := strings.CutPrefix(arg, "--max-num-seqs="); ok {
			n, _ := strconv.Atoi(v)
			return n
		}
	}
	return 0
}

// engine gives a pod the next worker of the fleet of its value.
func (f *flock) engine(p *corev1.Pod) http.Handler {
	f.mu.Lock()
	defer f.mu.Unlock()
	seqs := maxNumSeqs(p)
	fleet := f.fleets[seqs]
	if fleet == nil {
		if len(f.fleets) == 0 {
			f.pasts = f.healthy(seqs)
		}
		fleet = f.fleet(seqs)
		f.fleets[seqs] = fleet
	}
	pods := fleet.Pods()
	n := f.next[seqs]
	f.next[seqs]++
	if len(f.pasts) > 0 {
		f.before[p.Name], f.pasts = f.pasts[0], f.pasts[1:]
	}
	page := fleet.WorkerHandler(pods[n%len(pods)].Name)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == pastPath {
			f.recall(w, p.Name)
			return
		}
		if !f.busy.Load() {
			page.ServeHTTP(w, r)
			return
		}
		kept := httptest.NewRecorder()
		page.ServeHTTP(kept, r)
		w.WriteHeader(kept.Code)
		w.Write(running.ReplaceAll(kept.Body.Bytes(), []byte("${1}1\n")))
	})
}

var running = regexp.MustCompile(`(?m)^(vllm:num_requests_running\{[^}]*\} )0\n`)

// fleet simulates engines with one value, and goes on until the test ends.
func (f *flock) fleet(seqs int) *lab.Fleet {
	fleet := f.build(seqs, false)
	begin, from := fleet.Start().Add(f.past(seqs)), time.Now()
	fleet.Advance(begin)
	go func() {
		beat := time.NewTicker(250 * time.Millisecond)
		defer beat.Stop()
		for {
			select {
			case <-f.ctx.Done():
				return
			case <-beat.C:
				fleet.Advance(begin.Add(pace * time.Since(from)))
			}
		}
	}()
	return fleet
}

// build makes the engines with one value, with the scenario's fault to come or without. It cannot
// fail but by a mistake of a test.
func (f *flock) build(seqs int, healthy bool) *lab.Fleet {
	s, err := lab.NewScenario(f.scenario, f.seed)
	if err != nil {
		panic(err)
	}
	s.Config.Workers, s.Config.Model, s.Config.Pool = workers, modelName, poolName
	s.Config.Engine.MaxNumSeqs = seqs
	if s.Config.Workload.Rate == 0 {
		s.Config.Workload.Rate = 2.3 * workers / 4
	}
	if f.shape != nil {
		f.shape(&s.Config, seqs)
	}
	if healthy {
		s.Faults = nil
	}
	fleet, err := s.Build()
	if err != nil {
		panic(fmt.Sprintf("the simulated fleet: %v", err))
	}
	return fleet
}

// exhausted is a pool whose cache cannot hold what max_num_seqs 256 admits. With a lower value the
// queue takes a while to drain, which the new workers have behind them when they come up.
func exhausted() *flock {
	return &flock{scenario: lab.KVExhaustion, seed: 4, past: func(seqs int) time.Duration {
		if seqs >= 256 {
			return 9 * time.Minute
		}
		return 17 * time.Minute
	}}
}

// worsening is the same pool, whose new workers come up with a third of the cache, while clients
// wait longer than before: what was meant to help does harm.
func worsening() *flock {
	f := exhausted()
	f.past = func(int) time.Duration { return 9 * time.Minute }
	f.shape = func(c *lab.Config, seqs int) {
		if seqs < 256 {
			c.Engine.NumGPUBlocks = 4000
			c.Workload.Patience = 90 * time.Second
		}
	}
	return f
}

// leaking is a pool of which one worker keeps the blocks of cancelled requests, in the middle of a
// burst of traffic.
func leaking() *flock {
	return &flock{scenario: lab.KVLeak, seed: 1, past: func(int) time.Duration { return 15*time.Minute + 20*time.Second }}
}

// metricsOf reads a pod's page over the network, as Prometheus does.
func metricsOf(p *corev1.Pod) (string, error) {
	resp, err := http.Get("http://" + p.Status.PodIP + ":" + enginePort + "/metrics")
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(resp.Body)
	return b.String(), err
}
