// Package prometheus reads signals from a Prometheus-compatible API. It plans, sends and caches the
// queries, and turns their answers into samples. Package query below writes the PromQL.
//
// It limits the server's work: a gathering sends at most [MaxQueries] queries, including those that
// [Client.Prepare] prefetched if its scope and onset stay the same. Each query is a union of many
// signals, and ends at the caller's deadline. If a query fails, only its own signals are missing.
//
// A value is used only if it is a number and at most five minutes old. It has the time of the
// query, or the time of its scrape if the caller requests fresh values. Errors contain neither the
// server's address nor its credentials.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/prometheus/model/labels"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/prometheus/query"
)

const (
	// MaxQueries limits the queries of one gathering, including prefetched ones. A server that
	// takes only short queries gets more.
	MaxQueries = 12
	// Stale is the greatest age of a value.
	Stale = 5 * time.Minute

	unionsNow     = 3
	unionsBefore  = 2 // of the hour before the onset
	unionsDistant = 2 // of the day and the week before, together
	unionsRange   = 2 // of the charts, and again of their points after the prefetch
)

// A moment is the time that a query, or a part of it, reads.
type moment string

// The moments. If a query fails, its note has the moment's name; for the present, its signals are
// missing.
const (
	present  moment = "now"
	baseline moment = "baseline" // an hour before the onset
	dayAgo   moment = "day_ago"
	weekAgo  moment = "week_ago"
	course   moment = "series" // from an hour before the onset until now
)

// Config holds the address of Prometheus and how to call it.
type Config struct {
	URL       string
	Token     func() (string, error)      // bearer token, read at every call; nil: none
	Headers   func() (http.Header, error) // read at every call; nil: none
	Transport http.RoundTripper           // nil: [Transport]
	Timeout   time.Duration               // of one query; zero: 4 s
	// Match restricts each query to series with these labels. A store of several clusters needs it.
	Match map[string]string
}

// A Client reads signals from one Prometheus. It is safe for concurrent use.
type Client struct {
	api     v1.API
	url     func(path string, args map[string]string) *url.URL
	http    *http.Client
	timeout time.Duration
	past    *pastCache
	match   []*labels.Matcher // of every selector
	longest atomic.Int64      // the length of a query that the server found too long; 0: none
}

// Transport returns a transport that keeps a connection for each query of a gathering.
// http.DefaultTransport keeps two, so most queries would need a new TLS handshake.
func Transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // replaced by another package
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = MaxQueries
	return t
}

// New returns a client; it does not connect.
func New(c Config) (*Client, error) {
	if c.Transport == nil {
		c.Transport = Transport()
	}
	if c.Timeout <= 0 {
		c.Timeout = 4 * time.Second
	}
	plain := &http.Client{Transport: &bearer{token: c.Token, headers: c.Headers, next: c.Transport}, CheckRedirect: enrich.RefuseRedirect}
	client, err := api.NewClient(api.Config{Address: c.URL, Client: plain})
	if err != nil {
		return nil, fmt.Errorf("making a Prometheus client: %s", enrich.Redact(err))
	}
	past, err := newPastCache()
	if err != nil {
		return nil, err
	}
	out := &Client{api: v1.NewAPI(client), url: client.URL, http: plain, timeout: c.Timeout, past: past}
	for _, name := range slices.Sorted(maps.Keys(c.Match)) {
		out.match = append(out.match, labels.MustNewMatcher(labels.MatchEqual, name, c.Match[name]))
	}
	return out, nil
}

// bearer adds the current token and headers to each request and limits the answer's size. It would
// also add them to a redirected request, so the client follows no redirect.
type bearer struct {
	token   func() (string, error)
	headers func() (http.Header, error)
	next    http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity") // compressing takes longer than the cluster's network needs
	if b.token != nil {
		token, err := b.token()
		if err != nil {
			return nil, errors.New("the bearer token cannot be read")
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if b.headers != nil {
		more, err := b.headers()
		if err != nil {
			return nil, errors.New("the headers cannot be read")
		}
		maps.Copy(r.Header, more)
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &capped{ReadCloser: resp.Body, left: maxAnswer}
	return resp, nil
}

// maxAnswer is the largest accepted answer, in bytes.
const maxAnswer = 64 << 20

// capped is a body that fails at its limit, because a part of an answer must not pass for all of
// it.
type capped struct {
	io.ReadCloser
	left int64
}

// Read implements io.Reader.
func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Ping sends the simplest query.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, _, _, err := c.api.Query(ctx, "vector(1)", time.Time{}); err != nil {
		return errors.New(enrich.Explain("Prometheus", err))
	}
	return nil
}

// A plannedQuery is one query, with its purpose.
type plannedQuery struct {
	union   query.Union
	moments []moment
	at      time.Time // of an instant query
	timed   bool      // the answer also has the scrape times of its values
	span    *v1.Range // of a range query
	// settled is the moment up to which the answer stays the same after late samples have arrived.
	// It is zero if the query will not be repeated.
	settled time.Time
}

// covers reports whether the query reads the moment.
func (j plannedQuery) covers(m moment) bool { return slices.Contains(j.moments, m) }

// momentsExcept returns the query's moments without one.
func (j plannedQuery) momentsExcept(m moment) []moment {
	return slices.DeleteFunc(slices.Clone(j.moments), func(x moment) bool { return x == m })
}

// Prepare prefetches the past for a gathering of the same incident, which then waits only for the
// present. Read queries what did not arrive. Prepare stops if the discovery of engines fails or is
// partial, because the rest would not be complete either. It also stops if its answers would evict
// other prefetched ones.
func (c *Client) Prepare(ctx context.Context, q enrich.Query) {
	if !q.Onset.Before(q.Now) { // no answer could be cached
		return
	}
	l, ok := c.discover(ctx, q, &enrich.Reading{})
	if !ok {
		return
	}
	c.past.discoveries.Add(discoveryKeyOf(q), recentDiscovery{l, q.Now})
	g := &gathering{query: q, filter: l.Filter(q.Scope), began: l.Began(q.Scope)}
	_, rest := c.past.lookup(g.queries(), q.Now)
	rest = slices.DeleteFunc(rest, func(j plannedQuery) bool { return j.settled.IsZero() })
	if c.past.isFull(len(rest), q.Now) {
		return
	}
	var wg sync.WaitGroup
	for _, j := range rest {
		wg.Go(func() { c.past.keep(j, c.ask(ctx, j), q.Now) })
	}
	wg.Wait()
}

var errPartial = errors.New("a store behind it did not answer, so the answer is only a part")

// Read implements enrich.Source.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	var out enrich.Reading
	l, whole := c.past.takeDiscovery(q)
	if !whole {
		l, whole = c.discover(ctx, q, &out)
	}
	g := &gathering{query: q, filter: l.Filter(q.Scope), began: l.Began(q.Scope), samples: map[sampleKey]*sample{},
		scraped: map[enrich.Scraped]bool{}}
	if q.Fresh && !whole { // some engines may be missing, or their names
		for _, j := range g.queries() {
			j.recordFailure(&out, "the engines were not found: the server refused, or a store behind it did not answer")
		}
		return out
	}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func(j plannedQuery) {
		wg.Go(func() {
			got := c.ask(ctx, j)
			c.past.keep(j, got, q.Now)
			mu.Lock()
			defer mu.Unlock()
			if q.Fresh && got.partial { // a write may rest on it
				got.err = errPartial
			}
			if got.err != nil {
				j.recordFailure(&out, enrich.Explain("Prometheus", got.err))
				return
			}
			g.take(j, got.series)
		})
	}
	wg.Go(func() {
		found := c.about(ctx, q)
		mu.Lock()
		defer mu.Unlock()
		out.About = found
	})
	known, rest := c.past.lookup(g.queries(), q.Now)
	for _, j := range rest {
		ask(j)
	}
	mu.Lock()
	for _, k := range known {
		g.take(k.plannedQuery, k.series)
	}
	mu.Unlock()
	wg.Wait()
	g.finish(&out)
	out.Scraped = g.readBy(l.Targets)
	return out
}
