package lab

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"time"

	"paramedic/lab/clock"
	"paramedic/lab/engine"
	"paramedic/lab/front"
	"paramedic/lab/machine"
	"paramedic/lab/traffic"
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
	mix      traffic.Workload
	router   front.Router[*worker]
	gateway  front.Gateway
	chat     front.Chat
	spoiled  float64 // how badly the newest chat template fits the model
	retries  traffic.Retries
	tape     traffic.Tape
	nodes    []*machine.Node
	workers  []*worker // in the order of their creation
	deploy   deployment
	faults   []*activeFault
	events   []Event
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
	c = c.WithDefaults()
	f := &Fleet{
		cfg: c, rng: rand.New(rand.NewPCG(c.Seed, 1)), names: rand.New(rand.NewPCG(c.Seed, 2)),
		chat: front.Chat{Rand: rand.New(rand.NewPCG(c.Seed, 4))},
		mix:  c.Workload, router: front.Router[*worker]{Kind: c.Routing}, arrival: math.Inf(1),
		gateway: front.NewGateway(c.Kind, c.Pool),
	}
	for i := range c.Nodes {
		f.nodes = append(f.nodes, machine.NewNode(100*c.Index+i, c.GPUsPerNode, func() string { return randomUID(f.names) }))
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
func (f *Fleet) Run(ctx context.Context, c *clock.Clock) {
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
			if c.eng != nil && c.eng.StepEnd() < at {
				at, w = c.eng.StepEnd(), c
			}
		}
		call := min(f.arrival, f.retries.First())
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
			w.eng.Finish(at, func(r *engine.Request) { f.served++; f.chat.Count(r) })
			w.eng.Begin(at)
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
	f.rate = f.mix.RateAt(f.now)
	f.arrival = math.Inf(1)
	if f.mix.Trace != nil {
		f.arrival = f.tape.Next(f.mix.Trace, f.now, was, f.rate)
		return
	}
	if f.rate > 0 {
		f.arrival = f.now + f.rng.ExpFloat64()/f.rate
	}
}

func (f *Fleet) arrive() {
	if f.retries.First() <= f.arrival {
		f.send(f.retries.Next())
		return
	}
	r := f.mix.Draw(f.rng, f.cfg.Engine.MaxModelLen)
	if f.mix.Trace != nil {
		f.tape.Take(r, &f.mix, &f.cfg.Workload, f.cfg.Engine.MaxModelLen)
	}
	f.send(r)
	f.redraw()
}

// send routes a request to a worker.
func (f *Fleet) send(r *engine.Request) {
	if f.gateway.Drop(f.rng) {
		f.retry(r)
		return
	}
	w, ok := f.router.Pick(f.endpoints(), f.pinned(r), f.rng)
	if !ok {
		f.gateway.TurnAway(front.NoEndpoint)
		f.retry(r)
		return
	}
	f.gateway.Send()
	if w.failing > 0 {
		f.reject(w, r)
		return
	}
	f.chat.Sample(r, w.spoiled*spoiledRefusals+w.Refuses, w.spoiled*spoiledEmpties+w.Empties)
	if w.flawed > 0 && f.rng.Float64() < w.flawed {
		f.reject(w, r)
		return
	}
	r.Arrived = f.now
	if f.mix.Patience > 0 {
		r.Deadline = f.now + f.mix.Patience.Seconds()
	}
	if f.mix.Timeout > 0 {
		r.Timeout = f.now + f.mix.Timeout.Seconds()
	}
	w.eng.Add(r)
	w.eng.Begin(f.now)
}

// reject fails a request with an error of its worker. The gateway passes it on and counts it.
func (f *Fleet) reject(w *worker, r *engine.Request) {
	w.eng.Reject()
	f.gateway.TurnAway(front.Upstream)
	f.retry(r)
}

// endpoints returns the workers to which the gateway can send a request.
func (f *Fleet) endpoints() []*worker {
	f.ready = f.ready[:0]
	if f.gateway.Blind {
		return f.ready
	}
	for _, w := range f.workers {
		if w.serves() {
			f.ready = append(f.ready, w)
		}
	}
	return f.ready
}

// retry schedules another attempt after a pause, if the client has one left.
func (f *Fleet) retry(r *engine.Request) {
	if r.Attempt > f.mix.Retries {
		return
	}
	f.retries.Add(f.now+1+2*f.rng.Float64(), r)
}

// abandon ends all requests of a worker whose process ends, and their clients retry. With failed,
// the clients see an error.
func (f *Fleet) abandon(w *worker, failed bool) {
	if w.eng == nil {
		return
	}
	w.eng.Abandon(func(r *engine.Request) {
		if failed {
			w.eng.Fail()
			f.gateway.TurnAway(front.Upstream)
		}
		f.retry(r)
	})
}
