package lab

import (
	"container/heap"
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"
)

const tickEvery = 0.5 // seconds between updates of everything but engine steps

// A Fleet is a pool of workers with its nodes, clients and controllers. It is safe for concurrent
// use, but only one caller may use Advance.
type Fleet struct {
	mu       sync.Mutex
	cfg      Config
	rng      *rand.Rand // traffic
	names    *rand.Rand // pods and UIDs; apart from rng, so that a restart does not change the traffic
	now      float64    // seconds since cfg.Start
	nextTick float64
	arrival  float64 // time of the next request
	rate     float64 // the arrival rate for which it was drawn
	mix      Workload
	router   router
	gateway  gateway
	answers  answerSampler
	spoiled  float64 // how badly the newest chat template fits the model
	retries  retryHeap
	tape     tape
	nodes    []*node
	workers  []*worker // in the order of their creation
	deploy   deployment
	faults   []*activeFault
	events   []Event
	refused  float64 // requests without a worker
	flaw     float64 // the share of requests that workers of the flawed image fail
	denied   bool    // the model hub denies downloads
	slowLoad float64 // seconds to load a model; 0: as configured
	unseen   bool    // the engines serve, but their /metrics fail
	served   float64
	starved  float64 // severity of the hosts' CPU shortage
	ready    []*worker
}

// An Event is an entry of the fleet's log, for people.
type Event struct {
	At   time.Time
	Pod  string
	Kind string // Created, Ready, OOMKilled, Error, Terminating, Deleted, Fault, Rollout
	Text string
}

// NewFleet returns a fleet with all workers ready and idle.
func NewFleet(c Config) (*Fleet, error) {
	if err := c.Validate(); err != nil {
		return nil, fmt.Errorf("lab: %w", err)
	}
	c = c.withDefaults()
	f := &Fleet{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), names: rand.New(rand.NewPCG(c.Seed, 2)),
		answers: answerSampler{rng: rand.New(rand.NewPCG(c.Seed, 4))},
		mix:     c.Workload, router: router{kind: c.Routing}, arrival: math.Inf(1),
		gateway: newGateway(c),
	}
	for i := range c.Nodes {
		f.nodes = append(f.nodes, newNode(100*c.Index+i, c.GPUsPerNode, func() string { return randomUID(f.names) }))
	}
	f.deploy = newDeployment(c, randomUID(f.names))
	for range c.Workers {
		w := f.create()
		f.schedule(w)
		if w.phase == podPending {
			return nil, fmt.Errorf("lab: %d workers of %d GPUs do not fit %d nodes of %d", c.Workers, c.GPUsPerWorker,
				c.Nodes, c.GPUsPerNode)
		}
		w.created, w.started = -3600, -3600
		w.serve(f)
	}
	f.events = nil
	f.redraw()
	return f, nil
}

// Config returns the fleet's configuration with its defaults filled in.
func (f *Fleet) Config() Config { return f.cfg }

// Start returns the simulated moment at which the fleet began.
func (f *Fleet) Start() time.Time { return f.cfg.Start }

// Now returns the moment up to which the fleet is simulated.
func (f *Fleet) Now() time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.at(f.now)
}

func (f *Fleet) at(t float64) time.Time {
	return f.cfg.Start.Add(time.Duration(t * float64(time.Second))).Truncate(time.Millisecond)
}

// Advance simulates up to a moment. A moment in the past changes nothing.
func (f *Fleet) Advance(to time.Time) {
	end := to.Sub(f.cfg.Start).Seconds()
	for {
		f.mu.Lock()
		// Slices of 5 s release the lock, so that a scrape does not wait for a long simulation.
		slice := min(end, f.now+5)
		if slice > f.now {
			f.run(slice)
		}
		over := f.now >= end
		f.mu.Unlock()
		if over {
			return
		}
	}
}

// Run keeps the fleet at a clock's time until the context ends. On a machine that is too slow for
// the clock's speed, the fleet falls behind.
func (f *Fleet) Run(ctx context.Context, c *Clock) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.After(time.Second):
			f.Follow(ctx, c.Now())
		}
	}
}

// Follow simulates up to a moment in steps of a second, and stops early if the context ends.
func (f *Fleet) Follow(ctx context.Context, to time.Time) {
	for at := f.Now(); at.Before(to) && ctx.Err() == nil; {
		at = at.Add(min(time.Second, to.Sub(at)))
		f.Advance(at)
	}
}

// run processes arrivals, ends of steps and ticks up to end, in order.
func (f *Fleet) run(end float64) {
	for {
		at, w := f.nextTick, (*worker)(nil)
		for _, c := range f.workers {
			if c.eng != nil && c.eng.stepping && c.eng.stepEnd < at {
				at, w = c.eng.stepEnd, c
			}
		}
		call := min(f.arrival, f.retries.first())
		if min(at, call) > end {
			f.now = end
			return
		}
		switch {
		case call < at:
			f.now = call
			f.arrive()
		case w != nil:
			f.now = at
			w.eng.finish(at, func(r *request, _ string) { f.answer(w, "2xx"); f.answers.count(r) })
			w.eng.begin(at)
		default:
			f.now = at
			f.tick()
			f.nextTick += tickEvery
		}
	}
}

// redraw draws the next arrival again. A Poisson process has no memory, so this is valid at any
// time.
func (f *Fleet) redraw() {
	was := f.rate
	f.rate = f.mix.rateAt(f.now)
	f.arrival = math.Inf(1)
	if f.mix.Trace != nil {
		f.arrival = f.tape.next(f.mix.Trace, f.now, was, f.rate)
		return
	}
	if f.rate > 0 {
		f.arrival = f.now + f.rng.ExpFloat64()/f.rate
	}
}

func (f *Fleet) arrive() {
	if f.retries.first() <= f.arrival {
		f.send(heap.Pop(&f.retries).(*retry).request)
		return
	}
	r := f.mix.draw(f.rng, f.cfg.Engine.MaxModelLen)
	if f.mix.Trace != nil {
		f.tape.take(r, &f.mix, &f.cfg)
	}
	f.send(r)
	f.redraw()
}

// send routes a request to a worker.
func (f *Fleet) send(r *request) {
	if f.drops(r) {
		return
	}
	w := f.router.pick(f.endpoints(), f.pinned(r), f.rng)
	if w == nil {
		f.refused++
		f.gateway.turnAway(GatewayNoEndpoint)
		f.retry(r)
		return
	}
	f.gateway.requests++
	if w.failing > 0 {
		f.fail(w)
		w.eng.stats.finished[finishedError]++
		f.retry(r)
		return
	}
	f.answers.sample(r, w.spoiled*spoiledRefusals+w.Refuses, w.spoiled*spoiledEmpties+w.Empties)
	if w.flawed > 0 && f.rng.Float64() < w.flawed {
		f.fail(w)
		w.eng.stats.finished[finishedError]++
		f.retry(r)
		return
	}
	r.arrived = f.now
	if f.mix.Patience > 0 {
		r.deadline = f.now + f.mix.Patience.Seconds()
	}
	if f.mix.Timeout > 0 {
		r.timeout = f.now + f.mix.Timeout.Seconds()
	}
	w.eng.add(r)
	w.eng.begin(f.now)
}

func (f *Fleet) answer(w *worker, class string) {
	w.eng.stats.http[class]++
	if class == "2xx" {
		f.served++
	}
}

// fail answers a request with an error of the worker. The gateway passes it on and counts it.
func (f *Fleet) fail(w *worker) {
	f.answer(w, "5xx")
	w.eng.handler.fail()
	f.gateway.turnAway(GatewayUpstream)
}

// retry schedules another attempt after a pause, if the client has one left.
func (f *Fleet) retry(r *request) {
	if r.attempt > f.mix.Retries {
		return
	}
	again := &request{group: r.group, shared: r.shared, prompt: r.prompt, output: r.output, maxTokens: r.maxTokens,
		scored: r.scored, attempt: r.attempt + 1}
	heap.Push(&f.retries, &retry{at: f.now + 1 + 2*f.rng.Float64(), request: again})
}

// abandon ends all requests of a worker whose process ends, and their clients retry. With failed,
// the clients see an error.
func (f *Fleet) abandon(w *worker, failed bool) {
	if w.eng == nil {
		return
	}
	for _, list := range [][]*request{w.eng.running, w.eng.waiting} {
		for _, r := range list {
			if failed {
				f.fail(w)
			}
			f.retry(r)
		}
	}
	w.eng.running, w.eng.waiting, w.eng.stepping = nil, nil, false
}

type retry struct {
	at      float64
	request *request
}

type retryHeap []*retry

func (h retryHeap) first() float64 {
	if len(h) == 0 {
		return math.Inf(1)
	}
	return h[0].at
}
func (h retryHeap) Len() int           { return len(h) }
func (h retryHeap) Less(i, j int) bool { return h[i].at < h[j].at }
func (h retryHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *retryHeap) Push(x any) { *h = append(*h, x.(*retry)) }

// Pop implements heap.Interface.
func (h *retryHeap) Pop() any {
	old := *h
	last := old[len(old)-1]
	*h = old[:len(old)-1]
	return last
}
