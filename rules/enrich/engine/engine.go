// Package engine reads signals straight from engines' and exporters' /metrics pages, for fleets
// without a Prometheus.
//
// It keeps a short history of every page in memory and evaluates the same signals on it as package
// prometheus compiles to PromQL, by the same rules, so that both tell the same story of the same
// pages. It promises bounded work: pages are bounded in size and time, only the lines that some
// signal reads are kept, densely for a quarter of an hour and thinly for six. A page that cannot be
// read is the signal up with the value 0. History ends with the process: there is no value of a day
// ago.
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

	"paramedic/rules"
	"paramedic/state"
)

// A Target is one page, and labels that its series get where the page has none: pod, namespace,
// node, model_name.
type Target struct {
	URL    string
	Labels map[string]string
}

// Config says what is scraped.
type Config struct {
	Targets []Target
	// Discover, where there is one, names the targets anew before every scrape; a page that stays
	// keeps its history.
	Discover  func() []Target
	Signals   []rules.Signal // whose metrics are kept
	Interval  time.Duration  // zero: 15 s
	Timeout   time.Duration  // of one page; zero: 3 s
	Clock     state.Clock    // nil: the machine's
	Transport http.RoundTripper
	Log       *slog.Logger
}

// A Client scrapes targets and evaluates signals on what it remembers. It is safe for concurrent
// use.
type Client struct {
	discover func() []Target
	listed   sync.Mutex
	targets  []*target // replaced, never changed
	wanted   map[string]bool
	interval time.Duration
	timeout  time.Duration
	clock    state.Clock
	http     *http.Client
	log      *slog.Logger
	scraping chan struct{} // holds one while a round runs, since two at once would halve the intervals; unlike a mutex, a context can leave it
}

// New makes a client. History grows only while Run runs, or with every call of Scrape.
func New(c Config) *Client {
	cl := &Client{wanted: map[string]bool{}, scraping: make(chan struct{}, 1), interval: c.Interval, timeout: c.Timeout, clock: c.Clock, log: c.Log, discover: c.Discover,
		http: &http.Client{Transport: c.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
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
	cl.retarget(c.Targets)
	return cl
}

// list is the pages as they are known now.
func (c *Client) list() []*target {
	c.listed.Lock()
	defer c.listed.Unlock()
	return c.targets
}

// retarget makes these the pages. One that is known already keeps its history, one that is gone
// takes its history with it.
func (c *Client) retarget(now []Target) {
	known := map[string]*target{}
	for _, t := range c.list() {
		known[t.url] = t
	}
	targets := make([]*target, 0, len(now))
	listed := map[string]bool{}
	for _, t := range apart(now) {
		if listed[t.URL] {
			continue // one page named twice is one worker
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
	c.targets = targets
}

// apart gives targets that share an address their paths as well, where nothing else names them:
// several engines behind one address are several workers.
func apart(targets []Target) []Target {
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

// A Problem is a page that could not be read, and why.
type Problem struct {
	URL    string `json:"url"`
	Reason string `json:"reason"`
}

// Problems are the pages that the newest round could not read, in the order in which they were
// named.
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

// parallelScrapes bounds how many pages are read at once.
const parallelScrapes = 16

// Scrape reads every page once and remembers what it says. Where another round still runs when the
// context ends, there is none.
func (c *Client) Scrape(ctx context.Context) {
	select {
	case c.scraping <- struct{}{}:
		defer func() { <-c.scraping }()
	case <-ctx.Done():
		return
	}
	if c.discover != nil {
		c.retarget(c.discover())
	}
	var g errgroup.Group
	g.SetLimit(parallelScrapes)
	for _, t := range c.list() {
		g.Go(func() error {
			began := c.clock.Now() // what the page says may have changed while it was on its way
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
	_ = g.Wait() // no scrape returns an error: it is recorded
}

// Ping reads every page once, remembers none, and says which cannot be read. It reads them as a
// scrape does, some at once: one after the other, those that hang would use up the time of those
// that answer.
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
	_ = g.Wait() // all of the errors are wanted, in the order of the pages
	return errors.Join(errs...)
}
