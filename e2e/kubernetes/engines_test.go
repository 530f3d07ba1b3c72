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
	"paramedic/lab/drill"
	"paramedic/lab/scrape"
)

const (
	enginePort = "8000"
	workers    = 3
	modelName  = "llama-70b"
	poolName   = "vllm-llama"
	// pace is the number of simulated seconds per second of the tests.
	pace = 4
)

// A flock holds the simulated engines behind one namespace's pods. Pods with the same
// --max-num-seqs share one simulated fleet with its router. A pod with another value gets a worker
// of another fleet, which is simulated up to the moment at which that value has taken effect.
type flock struct {
	seed     uint64
	scenario string
	// shape changes the configuration of engines by their value of --max-num-seqs; nil: no change.
	shape func(c *lab.Config, maxNumSeqs int)
	// past returns the simulated time that engines with a value have run before their first use.
	past func(maxNumSeqs int) time.Duration
	// busy makes every page report a running request, as of a client that keeps its stream open.
	busy atomic.Bool

	mu     sync.Mutex
	fleets map[int]*lab.Fleet
	next   map[int]int
	pasts  [][]byte          // samples of the past for the first pods
	before map[string][]byte // the same by pod, until Prometheus has them
	ctx    context.Context
}

// flocks maps namespaces to their flock.
var flocks sync.Map

// engineOf returns the engine behind a pod, or nil for a pod of no test.
func engineOf(p *corev1.Pod) http.Handler {
	f, ok := flocks.Load(p.Namespace)
	if !ok {
		return nil
	}
	return f.(*flock).engine(p)
}

// raise registers a namespace's engines for its pods.
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

// engine returns the next worker of the fleet with the pod's value.
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
	page := scrape.Worker(fleet, pods[n%len(pods)].Name)
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

// fleet starts a simulation of engines with one value, which runs until the test ends.
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

// build returns the engines with one value, with the scenario's fault or healthy. It panics if the
// test's scenario is wrong.
func (f *flock) build(seqs int, healthy bool) *lab.Fleet {
	s, err := drill.New(f.scenario, f.seed)
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

// exhausted returns a pool whose cache is too small for max_num_seqs 256. With a lower value the
// queue takes minutes to drain, so new workers start after that.
func exhausted() *flock {
	return &flock{scenario: lab.KVExhaustion, seed: 4, past: func(seqs int) time.Duration {
		if seqs >= 256 {
			return 9 * time.Minute
		}
		return 17 * time.Minute
	}}
}

// worsening returns the same pool, but its new workers have a third of the cache and its clients
// wait longer, so that the fix does harm.
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

// leaking returns a pool with a worker that keeps the blocks of cancelled requests, during a burst
// of traffic.
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
