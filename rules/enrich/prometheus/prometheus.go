// Package prometheus reads signals from a Prometheus-compatible API.
//
// It promises to cost the server little: a gathering is at most [MaxQueries] queries, each a union
// of many signals, and none runs past the caller's deadline. What [Client.Prepare] asks ahead for
// one is among them, as long as its scope and its onset stay. A query that fails takes its own
// signals into missing evidence and leaves the others. A value is used only if it is a number and
// at most five minutes old. It has the time of the query, or of its scrape where the caller asks
// for fresh values. Nothing of the server's address or credentials gets into an error.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/rules/enrich"
)

const (
	// MaxQueries is the most queries of one gathering, with those that were asked ahead.
	MaxQueries = 12
	// Stale is how old a value may be.
	Stale = 5 * time.Minute

	unionsNow     = 3
	unionsBefore  = 2 // of the hour before the onset
	unionsDistant = 2 // of the day and the week before, together
	unionsRange   = 2 // of the charts, and again of what has come since they were asked for ahead
)

// A moment is what a query is about, or part of it.
type moment string

// The moments. What is missing where a query fails is called by their names, and by the present's
// signals.
const (
	present  moment = "now"
	baseline moment = "baseline" // an hour before the onset
	dayAgo   moment = "day_ago"
	weekAgo  moment = "week_ago"
	course   moment = "series" // the hour before the onset until now
)

// Config says where Prometheus is.
type Config struct {
	URL       string
	Token     func() (string, error) // bearer token, asked for at every call; nil: none
	Transport http.RoundTripper      // nil: [Transport]
	Timeout   time.Duration          // of one query; zero: 4 s
}

// A Client reads signals from one Prometheus.
type Client struct {
	api     v1.API
	url     func(path string, args map[string]string) *url.URL
	http    *http.Client
	timeout time.Duration
	past    *memory
}

// Transport keeps a connection for each query of a gathering. http.DefaultTransport keeps two, so
// that all others would shake hands again each time, and with TLS that is dear.
func Transport() http.RoundTripper {
	t, ok := http.DefaultTransport.(*http.Transport)
	if !ok { // somebody else's
		return http.DefaultTransport
	}
	t = t.Clone()
	t.MaxIdleConnsPerHost = MaxQueries
	return t
}

// New makes a client; it does not connect.
func New(c Config) (*Client, error) {
	if c.Transport == nil {
		c.Transport = Transport()
	}
	if c.Timeout <= 0 {
		c.Timeout = 4 * time.Second
	}
	plain := &http.Client{Transport: &bearer{token: c.Token, next: c.Transport}, CheckRedirect: enrich.RefuseRedirect}
	client, err := api.NewClient(api.Config{Address: c.URL, Client: plain})
	if err != nil {
		return nil, fmt.Errorf("making a Prometheus client: %s", enrich.Redact(err))
	}
	past, err := newMemory()
	if err != nil {
		return nil, err
	}
	return &Client{api: v1.NewAPI(client), url: client.URL, http: plain, timeout: c.Timeout, past: past}, nil
}

// bearer adds the token as it is now, and bounds what is read. It would add it to a redirected
// request too, so that none is followed.
type bearer struct {
	token func() (string, error)
	next  http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Accept-Encoding", "identity") // compressing an answer takes longer than a cluster's network does for it
	if b.token != nil {
		token, err := b.token()
		if err != nil {
			return nil, errors.New("the bearer token cannot be read")
		}
		r.Header.Set("Authorization", "Bearer "+token)
	}
	resp, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	resp.Body = &capped{ReadCloser: resp.Body, left: maxAnswer}
	return resp, nil
}

// maxAnswer is the largest answer in bytes that is read.
const maxAnswer = 64 << 20

// capped is a body that fails when it goes on for too long: a part of an answer must not pass for
// all of it.
type capped struct {
	io.ReadCloser
	left int64
}

// Read reads on.
func (c *capped) Read(p []byte) (int, error) {
	if c.left <= 0 {
		return 0, fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)
	}
	n, err := c.ReadCloser.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	return n, err
}

// Ping asks for the simplest query there is.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	if _, _, _, err := c.api.Query(ctx, "vector(1)", time.Time{}); err != nil {
		return errors.New(enrich.Explain("Prometheus", err))
	}
	return nil
}

// A job is one query with what it is for.
type job struct {
	parts   []part
	query   string // the union of the parts
	moments []moment
	at      time.Time // instant
	timed   bool      // the answer also says when its values were scraped
	span    *v1.Range // range
	// settled is the moment up to which the answer is the same whenever it is asked for, once all
	// has come in; zero where nobody will ask again.
	settled time.Time
}

// gives says whether the moment is among those that the job is about.
func (j job) gives(m moment) bool { return slices.Contains(j.moments, m) }

// but are the job's moments without one.
func (j job) but(m moment) []moment {
	return slices.DeleteFunc(slices.Clone(j.moments), func(x moment) bool { return x == m })
}

// Prepare asks ahead for what a gathering about the same will want to know of the past, so that it
// has only the present to wait for. What does not come is asked for then. It gives up where the
// server does not say all about what runs, since it would not about the rest, and where answers
// that were asked ahead for others would have to go for these.
func (c *Client) Prepare(ctx context.Context, q enrich.Query) {
	if !q.Onset.Before(q.Now) { // nothing of it would be remembered
		return
	}
	l, ok := c.look(ctx, q, &enrich.Reading{})
	if !ok {
		return
	}
	c.past.looks.Add(placeOf(q), recentLook{l, q.Now})
	g := &gathering{query: q, scope: narrowed(q, l)}
	_, rest := c.past.recall(g.jobs(), q.Now)
	rest = slices.DeleteFunc(rest, func(j job) bool { return j.settled.IsZero() })
	if c.past.crowded(len(rest), q.Now) {
		return
	}
	var wg sync.WaitGroup
	for _, j := range rest {
		wg.Go(func() { c.past.keep(j, c.ask(ctx, j), q.Now) })
	}
	wg.Wait()
}

// Read implements enrich.Source.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	var out enrich.Reading
	l, ahead := c.past.looked(q)
	if !ahead {
		l, _ = c.look(ctx, q, &out)
	}
	g := &gathering{query: q, scope: narrowed(q, l), samples: map[sampleKey]*sample{}, scraped: map[enrich.Scraped]bool{}}
	var mu sync.Mutex
	var wg sync.WaitGroup
	ask := func(j job) {
		wg.Go(func() {
			got := c.ask(ctx, j)
			c.past.keep(j, got, q.Now)
			mu.Lock()
			defer mu.Unlock()
			if got.err != nil {
				j.lost(&out, enrich.Explain("Prometheus", got.err))
				return
			}
			g.take(j, got.series)
		})
	}
	known, rest := c.past.recall(g.jobs(), q.Now)
	for _, j := range rest {
		ask(j)
	}
	mu.Lock()
	for _, k := range known {
		g.take(k.job, k.series)
	}
	mu.Unlock()
	wg.Wait()
	g.finish(&out)
	out.Scraped = g.readBy(l.jobs)
	return out
}
