package enrich

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"paramedic/rules/signals"
	"paramedic/state"
)

// DefaultDeadline limits one gathering.
const DefaultDeadline = 5 * time.Second

// A Request asks for the evidence on one incident.
type Request struct {
	Incident state.IncidentID
	Cluster  string
	Scope    state.Scope
	Onset    time.Time
	Now      time.Time
	Signals  []string // nil: all
	// Jobs are the scrape jobs that the incident's alerts name. The gathering looks up the pods
	// that they scrape, or scraped in the last hours.
	Jobs []string
	// Series holds PromQL for the series that the incident's alerts without a place are about.
	Series []string
	// Fresh requests current values that a write may rely on. Each sample then has the time of its
	// scrape. A value whose scrape time is unknown is missing.
	Fresh bool
}

// A Query is a request as the sources get it.
type Query struct {
	Cluster string
	Scope   state.Scope
	Onset   time.Time
	Now     time.Time
	Signals []signals.Signal
	Jobs    []string
	Series  []string
	Fresh   bool
	// Running is the signal that counts running requests. Every engine exports it, so a pod that
	// has it is an engine, even if the query asks for other signals.
	Running signals.Signal
}

// A Reading is the answer of one source. Failed holds by signal why the source could not read it; a
// signal with neither a sample nor a reason has no data. Notes list other missing parts
// ("baseline", "series"), with the reason. Engines holds the workers' engines by WorkerKey, as
// their metrics show. If Began is set, the baselines are of the first minutes after it, because
// there are no older data.
type Reading struct {
	Samples []state.Sample
	Gone    []state.Sample // charts of the pool's workers that no longer exist, without a value
	Workers []state.Worker
	Engines map[string]string
	Scraped []Scraped
	About   []state.Entity // of the series of the query
	Earlier []state.Entity // engines that reported a model since the hour before the onset, and do not now
	Failed  map[string]string
	Notes   []state.Missing
	Began   time.Time
}

// Scraped is a page, with the job that scrapes it or scraped it in the last hours.
type Scraped struct {
	Entity state.Entity
	By     state.ScrapeJob
}

// WorkerKey returns the key of an entity's worker before it is resolved: its pod, or else its
// address.
func WorkerKey(e state.Entity) string { return e.Namespace + "/" + cmp.Or(e.Pod, e.Instance) }

// modelEngines are the engines that run a model themselves. Dynamo's workers run one of them and
// also export its metrics.
var modelEngines = []string{"vllm", "sglang", "trtllm"}

// Runs records that a worker exports a metric of an engine.
func (r *Reading) Runs(e state.Entity, engine string) {
	if !slices.Contains(modelEngines, engine) || e.Pod == "" && e.Instance == "" {
		return
	}
	if r.Engines == nil {
		r.Engines = map[string]string{}
	}
	r.Engines[WorkerKey(e)] = engine
}

// Fail records why a source could not read a signal. The first reason stays.
func (r *Reading) Fail(signal, reason string) {
	if r.Failed == nil {
		r.Failed = map[string]string{}
	}
	if _, ok := r.Failed[signal]; !ok {
		r.Failed[signal] = reason
	}
}

// A Source reads signals. Read MUST return when the context ends, with what it has read; errors are
// in the reading. A source that does not return in time is abandoned, with all its data. Ping
// reports whether the source can be reached. Both are safe for concurrent use.
type Source interface {
	Read(ctx context.Context, q Query) Reading
	Ping(ctx context.Context) error
}

// A Cluster holds the sources of one cluster. A nil source does not exist.
type Cluster struct {
	Prometheus Source
	Engines    Source
	Kubernetes Source
	Traces     Source
}

// A Preparer is a source that can prefetch the past that Read will need. Prepare MUST return when
// the context ends; Read queries the rest. It is safe for concurrent use.
type Preparer interface {
	Prepare(ctx context.Context, q Query)
}

type named struct {
	name   string
	source Source
}

func (c Cluster) sources() []named {
	var out []named
	for _, n := range []named{{"prometheus", c.Prometheus}, {"engines", c.Engines}, {"kubernetes", c.Kubernetes},
		{"traces", c.Traces}} {
		if n.source != nil {
			out = append(out, n)
		}
	}
	return out
}

// gives reports whether the source can have a signal at all.
func (n named) gives(s signals.Signal) bool {
	switch n.name {
	case "kubernetes", signals.ByTraces:
		return slices.Contains(s.By, n.name)
	}
	return len(s.Sources) > 0 || n.name == "engines" && slices.Contains(s.By, "probe")
}

// abandoned returns the reading of a source that did not return in time.
func (n named) abandoned(q Query, err error) Reading {
	var r Reading
	for _, s := range q.Signals {
		if n.gives(s) {
			r.Fail(s.ID, Explain(n.name, err))
		}
	}
	return r
}

// Config configures a Gatherer.
type Config struct {
	Clusters map[string]Cluster
	Signals  []signals.Signal
	Deadline time.Duration // zero: DefaultDeadline
	Log      *slog.Logger
}

// A Gatherer gathers evidence. It is safe for concurrent use.
type Gatherer struct {
	clusters map[string]Cluster
	declared []signals.Signal
	untraced []signals.Signal // signals that do not need traces
	byID     map[string]signals.Signal
	deadline time.Duration
	log      *slog.Logger
}

// New returns a gatherer over clusters by name.
func New(c Config) *Gatherer {
	g := &Gatherer{clusters: c.Clusters, byID: map[string]signals.Signal{}, deadline: c.Deadline,
		log: c.Log}
	if g.deadline <= 0 {
		g.deadline = DefaultDeadline
	}
	if g.log == nil {
		g.log = slog.New(slog.DiscardHandler)
	}
	for _, s := range c.Signals {
		g.byID[s.ID] = s
		if s.IsDerived() {
			continue
		}
		g.declared = append(g.declared, s)
		if !s.OnlyTraced() {
			g.untraced = append(g.untraced, s)
		}
	}
	return g
}

// Gather reads all sources of the cluster and merges their answers. It returns by the deadline or
// when the context ends, plus at most the grace period. It never fails: missing data are in
// Missing.
func (g *Gatherer) Gather(ctx context.Context, r Request) state.Evidence {
	ev := state.Evidence{Incident: r.Incident, At: r.Now}
	cluster, ok := g.clusters[r.Cluster]
	declared, missing := g.wanted(r.Signals, cluster)
	ev.Missing = missing
	sources := cluster.sources()
	if !ok || len(sources) == 0 {
		reason := "no Prometheus, engines or Kubernetes configured for cluster " + r.Cluster
		if !ok {
			reason = "cluster " + r.Cluster + " is not configured"
		}
		ev.Missing = slices.Grow(ev.Missing, len(declared))
		for _, s := range declared {
			ev.Missing = append(ev.Missing, state.Missing{Signal: s.ID, Reason: reason})
		}
		return ev
	}
	q := g.query(r, declared)
	m := merge{query: q, wanted: declared}
	m.readings = g.read(ctx, sources, q)
	m.evidence(&ev)
	silentNodes(&ev)
	compareWithYesterday(&ev, q.Onset)
	g.log.DebugContext(ctx, "evidence gathered", "incident", string(r.Incident),
		"samples", len(ev.Samples), "missing", len(ev.Missing))
	return ev
}

// Prepare lets the cluster's sources prefetch the past for a gathering that follows soon. It
// returns when all are done, or at the deadline, or when the context ends.
func (g *Gatherer) Prepare(ctx context.Context, r Request) {
	ctx, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	cluster := g.clusters[r.Cluster]
	declared, _ := g.wanted(r.Signals, cluster)
	var wg sync.WaitGroup
	for _, s := range cluster.sources() {
		if p, ok := s.source.(Preparer); ok {
			wg.Go(func() { p.Prepare(ctx, g.query(r, declared)) })
		}
	}
	wg.Wait()
}

func (g *Gatherer) query(r Request, declared []signals.Signal) Query {
	onset := r.Onset
	if onset.IsZero() || onset.After(r.Now) {
		onset = r.Now
	}
	return Query{Cluster: r.Cluster, Scope: r.Scope, Onset: onset, Now: r.Now, Signals: declared, Jobs: r.Jobs,
		Series: r.Series, Fresh: r.Fresh, Running: g.byID["requests_running"]}
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

// SeriesOf returns the queries for the series that an incident's alerts without a place are about,
// for a Request.
func SeriesOf(in state.Incident) []string {
	var out []string
	for _, s := range in.Symptoms {
		for q := range strings.SplitSeq(s.Hints[state.SeriesHint], "\n") {
			if q != "" && !slices.Contains(out, q) {
				out = append(out, q)
			}
		}
	}
	return out
}

// wanted returns the requested signals. An undeclared name is missing. In a cluster without a trace
// store, the signals of traces are left out, unless the request names one.
func (g *Gatherer) wanted(ids []string, cluster Cluster) ([]signals.Signal, []state.Missing) {
	if ids == nil && cluster.Traces == nil {
		return g.untraced, nil
	}
	if ids == nil {
		return g.declared, nil
	}
	var out []signals.Signal
	var missing []state.Missing
	seen := map[string]bool{}
	for _, id := range ids {
		s, ok := g.byID[id]
		switch {
		case seen[id]:
		case ok:
			out = append(out, s)
		default:
			missing = append(missing, state.Missing{Signal: id, Reason: "unknown signal"})
		}
		seen[id] = true
	}
	return out, missing
}

// grace is the time that sources have after the deadline to return what they have.
const grace = 500 * time.Millisecond

// read reads all sources in parallel. It abandons a source that has not returned after the grace
// period.
func (g *Gatherer) read(ctx context.Context, sources []named, q Query) []Reading {
	ctx, cancel := context.WithTimeout(ctx, g.deadline)
	defer cancel()
	type answer struct {
		of int
		Reading
	}
	answers := make(chan answer, len(sources)) // buffered for all, because an abandoned source's answer is not received
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
					out[i] = s.abandoned(q, ctx.Err())
				}
			}
			return out
		}
	}
	return out
}

// Ping pings all sources of all clusters and returns the results by "cluster/source".
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

// Explain returns an error as evidence shows it: short, and without addresses or credentials.
func Explain(who string, err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return who + ": no answer in time"
	case errors.Is(err, context.Canceled):
		return who + ": cancelled"
	}
	return fmt.Sprintf("%s: %s", who, Redact(err))
}
