// Package engine reads signals directly from the /metrics pages of engines and exporters, for
// fleets without Prometheus.
//
// It keeps a short history of every page in memory. On this history it evaluates the same signals,
// with the same semantics, as package prometheus compiles to PromQL. Its work is bounded: pages are
// limited in size and time, and only series that some signal reads are kept. The history is dense
// for 16 minutes and thin for six hours. If a page cannot be read, the signal up is 0. The history
// ends with the process, so there are no values of a day ago. Those of its beginning replace them.
package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"paramedic/rules/signals"
	"paramedic/state"
)

// A Target is one page, with labels that its series get if the page does not set them: pod,
// namespace, node, model_name.
type Target struct {
	URL    string
	Labels map[string]string
}

// Config lists the pages to scrape.
type Config struct {
	Targets []Target
	// Discover returns the current targets before every scrape, if it is set. A page that stays in
	// the list keeps its history.
	Discover  func() []Target
	Signals   []signals.Signal // signals whose metrics are kept
	Interval  time.Duration    // zero: 15 s
	Timeout   time.Duration    // of one page; zero: 3 s
	Clock     state.Clock      // nil: the system clock
	Transport http.RoundTripper
	Log       *slog.Logger
}

// A Client scrapes targets and evaluates signals on their history. It is safe for concurrent use.
type Client struct {
	discover func() []Target
	listed   sync.Mutex
	targets  []*target // replaced as a whole, never modified
	former   []former  // the same
	wanted   map[string]bool
	interval time.Duration
	timeout  time.Duration
	clock    state.Clock
	http     *http.Client
	log      *slog.Logger
	// scraping is held during a round, because two rounds at once would halve the intervals.
	// Waiting for it can end with the context, unlike for a mutex.
	scraping chan struct{}
}

// New returns a client. Its history grows only while Run runs, or with each call of Scrape.
func New(c Config) *Client {
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	cl := &Client{
		wanted: map[string]bool{}, scraping: make(chan struct{}, 1), interval: c.Interval, timeout: c.Timeout,
		clock: c.Clock, log: c.Log, discover: c.Discover,
		http: &http.Client{Transport: c.Transport, CheckRedirect: stay},
	}
	if cl.interval <= 0 {
		cl.interval = 15 * time.Second
	}
	if cl.timeout <= 0 {
		cl.timeout = 3 * time.Second
	}
	if cl.clock == nil {
		cl.clock = state.SystemClock{}
	}
	if cl.log == nil {
		cl.log = slog.New(slog.DiscardHandler)
	}
	for _, s := range c.Signals {
		for _, src := range s.Sources {
			for _, m := range src.Metrics() {
				cl.wanted[m] = true
			}
		}
	}
	cl.retarget(c.Targets, cl.clock.Now())
	return cl
}

// list returns the current pages.
func (c *Client) list() []*target {
	c.listed.Lock()
	defer c.listed.Unlock()
	return c.targets
}

// retarget replaces the pages. A known page keeps its history. That of a removed one is kept for
// its successors.
func (c *Client) retarget(list []Target, now time.Time) {
	known := map[string]*target{}
	for _, t := range c.list() {
		known[t.url] = t
	}
	targets := make([]*target, 0, len(list))
	listed := map[string]bool{}
	for _, t := range withPaths(list) {
		if listed[t.URL] {
			continue // a page that is listed twice is one worker
		}
		listed[t.URL] = true
		if old := known[t.URL]; old != nil {
			targets = append(targets, old)
			continue
		}
		targets = append(targets, newTarget(t, c.wanted))
	}
	c.listed.Lock()
	defer c.listed.Unlock()
	c.former = c.retire(listed, len(targets), now)
	c.targets = targets
}

// withPaths adds the path to the instance label of targets that share an address, unless they have
// one. Several engines behind one address are several workers.
func withPaths(targets []Target) []Target {
	paths := map[string]map[string]bool{}
	address := func(t Target) (host, path string) {
		u, err := url.Parse(t.URL)
		if err != nil || t.Labels["instance"] != "" {
			return "", ""
		}
		return u.Host, strings.TrimSuffix(u.Path, "/metrics")
	}
	for _, t := range targets {
		host, path := address(t)
		if paths[host] == nil {
			paths[host] = map[string]bool{}
		}
		paths[host][path] = true
	}
	out := slices.Clone(targets)
	for i, t := range out {
		if host, path := address(t); host != "" && len(paths[host]) > 1 {
			out[i].Labels = maps.Clone(t.Labels)
			if out[i].Labels == nil {
				out[i].Labels = map[string]string{}
			}
			out[i].Labels["instance"] = host + path
		}
	}
	return out
}

// A Problem is a page that could not be read, with the reason.
type Problem struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// Problems returns the pages that the newest round could not read, in the order of the targets.
func (c *Client) Problems() []Problem {
	var out []Problem
	for _, t := range c.list() {
		t.mu.Lock()
		if t.problem != "" {
			out = append(out, Problem{t.url, t.problem})
		}
		t.mu.Unlock()
	}
	return out
}

// Run scrapes until the context ends.
func (c *Client) Run(ctx context.Context) {
	for {
		c.Scrape(ctx)
		select {
		case <-ctx.Done():
			return
		case <-c.clock.After(c.interval):
		}
	}
}

// parallelScrapes limits the pages that are read at once.
const parallelScrapes = 16

// Scrape reads every page once and adds it to the history. If another round still runs when the
// context ends, Scrape does nothing.
func (c *Client) Scrape(ctx context.Context) {
	select {
	case c.scraping <- struct{}{}:
		defer func() { <-c.scraping }()
	case <-ctx.Done():
		return
	}
	if c.discover != nil {
		c.retarget(c.discover(), c.clock.Now())
	}
	var g errgroup.Group
	g.SetLimit(parallelScrapes)
	for _, t := range c.list() {
		g.Go(func() error {
			began := c.clock.Now() // before the request, because the values may change while the page is in transit
			points, err := c.fetch(ctx, t.url, t.page)
			if ctx.Err() != nil {
				return nil // stopped, not down
			}
			t.record(began, points, c.health(ctx, t.url), err)
			if err != nil {
				c.log.DebugContext(ctx, "page not read", "instance", t.labels["instance"], "err", err)
			}
			return nil
		})
	}
	_ = g.Wait() // the functions return no error; problems are recorded
}

// Ping reads every page once without keeping it, and returns the pages that cannot be read. It
// reads pages in parallel, so that hanging pages do not use the time of the others.
func (c *Client) Ping(ctx context.Context) error {
	targets := c.list()
	errs := make([]error, len(targets))
	var g errgroup.Group
	g.SetLimit(parallelScrapes)
	for i, t := range targets {
		g.Go(func() error {
			if _, err := c.fetch(ctx, t.url, newReader(c.wanted)); err != nil {
				errs[i] = fmt.Errorf("engine %s: %w", t.labels["instance"], err)
			}
			return nil
		})
	}
	_ = g.Wait() // the errors are in errs, in the order of the pages
	return errors.Join(errs...)
}
