package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"paramedic/rules"
	"paramedic/state"
)

// DefaultDeadline is how long one gathering may take.
const DefaultDeadline = 5 * time.Second

// A Request asks for the evidence on one incident.
type Request struct {
	Incident state.IncidentID
	Cluster  string
	Scope    state.Scope
	Onset    time.Time
	Now      time.Time
	Signals  []string // nil: all
	// Jobs are the scrapes that the incident's alerts name: whose pods they read is looked up, also
	// where they read none any more.
	Jobs []string
	// Fresh asks for values that a write may rest on, of the present alone. Each has the time of
	// the scrape that it was measured at, and one whose time is not known is missing.
	Fresh bool
}

// A Query is what a source is asked.
type Query struct {
	Cluster string
	Scope   state.Scope
	Onset   time.Time
	Now     time.Time
	Signals []rules.Signal
	Jobs    []string
	Fresh   bool
	// Running is how it is read how many requests run, which every engine tells: what has it is an
	// engine, whatever is asked for.
	Running rules.Signal
}

// A Reading is what a source knows. Failed says by signal why a source could not answer; a signal
// with neither a sample nor a reason has no data. Notes are other things that did not come
// ("baseline", "series") with the reason. Engines are the engines of workers by their WorkerKey, as
// the metrics tell that they export.
type Reading struct {
	Samples []state.Sample
	Gone    []state.Sample // the courses of the pool's workers that are no more, without a value
	Workers []state.Worker
	Engines map[string]string
	Scraped []Scraped
	Failed  map[string]string
	Notes   []state.Missing
	Began   time.Time
}

// Scraped is a page with the job that reads it, or read it in the last hours.
type Scraped struct {
	Entity state.Entity
	By     state.ScrapeJob
}

// WorkerKey is what an entity's worker goes by before anybody has resolved it: its pod, or its
// address.
func WorkerKey(e state.Entity) string { return e.Namespace + "/" + cmp.Or(e.Pod, e.Instance) }

// runs are the engines that run a model themselves; Dynamo's workers run one of them, and export
// its metrics too.
var runs = []string{"vllm", "sglang", "trtllm"}

// Runs records that a worker exports a metric of an engine.
func (r *Reading) Runs(e state.Entity, engine string) {
	if !slices.Contains(runs, engine) || e.Pod == "" && e.Instance == "" {
		return
	}
	if r.Engines == nil {
		r.Engines = map[string]string{}
	}
	r.Engines[WorkerKey(e)] = engine
}

// Fail records why a source could not answer for a signal; the first reason stays.
func (r *Reading) Fail(signal, reason string) {
	if r.Failed == nil {
		r.Failed = map[string]string{}
	}
	if _, ok := r.Failed[signal]; !ok {
		r.Failed[signal] = reason
	}
}

// A Source reads signals. Read MUST return when the context ends, with what it has; errors are in
// the reading. One that does not is left behind with all it has. Ping says whether the source can
// be reached. Both are safe for concurrent use.
type Source interface {
	Read(ctx context.Context, q Query) Reading
	Ping(ctx context.Context) error
}

// A Cluster is the sources of one cluster; those that are nil do not exist.
type Cluster struct {
	Prometheus Source
	Engines    Source
	Kubernetes Source
	Traces     Source
}

// A Preparer is a source that can ask ahead for what Read will want to know of the past. Prepare
// MUST return when the context ends; what did not come is asked for by Read. It is safe for
// concurrent use.
type Preparer interface {
	Prepare(ctx context.Context, q Query)
}

type named struct {
	name   string
	source Source
}

func (c Cluster) sources() []named {
	var out []named
	for _, n := range []named{{"prometheus", c.Prometheus}, {"engines", c.Engines}, {"kubernetes", c.Kubernetes}, {"traces", c.Traces}} {
		if n.source != nil {
			out = append(out, n)
		}
	}
	return out
}

// gives says whether the source can have a signal at all.
func (n named) gives(s rules.Signal) bool {
	switch n.name {
	case "kubernetes", rules.ByTraces:
		return slices.Contains(s.By, n.name)
	}
	return len(s.Sources) > 0 || n.name == "engines" && slices.Contains(s.By, "probe")
}

// leftBehind is the reading of a source that did not come back.
func (n named) leftBehind(q Query, err error) Reading {
	var r Reading
	for _, s := range q.Signals {
		if n.gives(s) {
			r.Fail(s.ID, Explain(n.name, err))
		}
	}
	return r
}

// Config is what a Gatherer needs.
type Config struct {
	Clusters map[string]Cluster
	Signals  []rules.Signal
	Deadline time.Duration // zero: DefaultDeadline
	Log      *slog.Logger
}

// A Gatherer gathers evidence. It is safe for concurrent use.
type Gatherer struct {
	clusters map[string]Cluster
	signals  []rules.Signal
	untraced []rules.Signal // those that do not need traces
	byID     map[string]rules.Signal
	deadline time.Duration
	log      *slog.Logger
}

// New makes a gatherer over clusters by their names.
func New(c Config) *Gatherer {
	g := &Gatherer{clusters: c.Clusters, signals: c.Signals, byID: map[string]rules.Signal{}, deadline: c.Deadline, log: c.Log}
	if g.deadline <= 0 {
		g.deadline = DefaultDeadline
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	for _, s := range c.Signals {
		g.byID[s.ID] = s
		if !s.OnlyTraced() {
			g.untraced = append(g.untraced, s)
		}
	}
	return g
}

// Gather reads every source of the cluster and puts their answers together. It returns within the
// deadline, or when the context ends, or a moment later, and never fails: what did not come is in
// Missing.
func (g *Gatherer) Gather(ctx context.Context, r Request) state.Evidence {
	ev := state.Evidence{Incident: r.Incident, At: r.Now}
	cluster, ok := g.clusters[r.Cluster]
	signals, missing := g.wanted(r.Signals, cluster)
	ev.Missing = missing
	sources := cluster.sources()
	if !ok || len(sources) == 0 {
		reason := "the cluster " + r.Cluster + " has no Prometheus, engines or Kubernetes configured"
		if !ok {
			reason = "no cluster " + r.Cluster + " is configured"
		}
		for _, s := range signals {
			ev.Missing = append(ev.Missing, state.Missing{Signal: s.ID, Reason: reason})
		}
		return ev
	}
	q := g.query(r, signals)
	m := merge{query: q, signals: signals}
	m.readings = g.read(ctx, sources, q)
	m.evidence(&ev)
	g.log.DebugContext(ctx, "evidence gathered", "incident", string(r.Incident), "samples", len(ev.Samples), "missing", len(ev.Missing))
	return ev
}

// Prepare has the cluster's sources ask ahead for what gathering this evidence soon will want to
// know of the past. It returns when all have, or the deadline or the context ends.
func (g *Gatherer) Prepare(ctx context.Context, r Request) {
	ctx, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	cluster := g.clusters[r.Cluster]
	signals, _ := g.wanted(r.Signals, cluster)
	var wg sync.WaitGroup
	for _, s := range cluster.sources() {
		if p, ok := s.source.(Preparer); ok {
			wg.Go(func() { p.Prepare(ctx, g.query(r, signals)) })
		}
	}
	wg.Wait()
}

func (g *Gatherer) query(r Request, signals []rules.Signal) Query {
	onset := r.Onset
	if onset.IsZero() || onset.After(r.Now) {
		onset = r.Now
	}
	return Query{Cluster: r.Cluster, Scope: r.Scope, Onset: onset, Now: r.Now, Signals: signals, Jobs: r.Jobs, Fresh: r.Fresh, Running: g.byID["requests_running"]}
}

// JobsOf returns the scrape jobs that an incident's alerts name, for a Request.
func JobsOf(in state.Incident) []string {
	var out []string
	for _, s := range in.Symptoms {
		for _, e := range s.Entities {
			if e.Job != "" && !slices.Contains(out, e.Job) {
				out = append(out, e.Job)
			}
		}
	}
	slices.Sort(out)
	return out
}

// wanted are the signals that were asked for; a name that nobody declared is missing. Those of
// traces do not exist in a cluster without a trace store, unless somebody asks for one by name.
func (g *Gatherer) wanted(ids []string, cluster Cluster) ([]rules.Signal, []state.Missing) {
	if ids == nil && cluster.Traces == nil {
		return g.untraced, nil
	}
	if ids == nil {
		return g.signals, nil
	}
	var out []rules.Signal
	var missing []state.Missing
	seen := map[string]bool{}
	for _, id := range ids {
		s, ok := g.byID[id]
		switch {
		case seen[id]:
		case ok:
			out = append(out, s)
		default:
			missing = append(missing, state.Missing{Signal: id, Reason: "no signal of this name is declared"})
		}
		seen[id] = true
	}
	return out, missing
}

// grace is how long sources have to come back with what they have, when their time is over.
const grace = 500 * time.Millisecond

// read asks all sources at once. A source that does not come back by the deadline is left behind:
// its reading is a failure.
func (g *Gatherer) read(ctx context.Context, sources []named, q Query) []Reading {
	ctx, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	type answer struct {
		of int
		Reading
	}
	answers := make(chan answer, len(sources)) // room for all: nobody reads from it for one that is left behind
	for i, s := range sources {
		go func() { answers <- answer{i, s.source.Read(ctx, q)} }()
	}
	out, came := make([]Reading, len(sources)), make([]bool, len(sources))
	over := ctx.Done()
	var late <-chan time.Time
	for left := len(sources); left > 0; {
		select {
		case a := <-answers:
			out[a.of], came[a.of] = a.Reading, true
			left--
		case <-over:
			over, late = nil, time.After(grace)
		case <-late:
			for i, s := range sources {
				if !came[i] {
					out[i] = s.leftBehind(q, ctx.Err())
				}
			}
			return out
		}
	}
	return out
}

// Ping asks every source of every cluster whether it can be reached, and returns the problems by
// "cluster/source".
func (g *Gatherer) Ping(ctx context.Context) map[string]error {
	ctx, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	out := map[string]error{}
	for name, cluster := range g.clusters {
		for _, s := range cluster.sources() {
			wg.Go(func() {
				err := s.source.Ping(ctx)
				mu.Lock()
				defer mu.Unlock()
				out[name+"/"+s.name] = err
			})
		}
	}
	wg.Wait()
	return out
}

// Explain is an error of a call as evidence shows it: short, with what to look at, and no address
// or credential in it.
func Explain(who string, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return who + " did not answer in time"
	case errors.Is(err, context.Canceled):
		return who + " was not waited for"
	}
	return fmt.Sprintf("%s: %s", who, Redact(err))
}
