// Package prometheus reads signals from a Prometheus-compatible API.
//
// It promises to cost the server little: a gathering is at most [MaxQueries] queries, each a union of many signals, and none runs
// past the caller's deadline. A query that fails takes its own signals into missing evidence and leaves the others. A value is
// used only if it is a number and at most five minutes old. Nothing of the server's address or credentials gets into an error.
package prometheus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"paramedic/rules/enrich"
	"paramedic/state"
)

const (
	// MaxQueries is the most queries of one gathering.
	MaxQueries = 12
	// Stale is how old a value may be.
	Stale = 5 * time.Minute

	unionsNow     = 4
	unionsBefore  = 2 // of the hour before the onset
	unionsDistant = 3 // of the day and, for charts, the week before, together
	unionsRange   = 2
)

// What a job that is not about the present is for.
const (
	baseline = "baseline"
	distant  = "day_ago, week_ago"
)

// Config says where Prometheus is.
type Config struct {
	URL       string
	Token     func() (string, error) // bearer token, asked for at every call; nil: none
	Transport http.RoundTripper      // nil: http.DefaultTransport
	Timeout   time.Duration          // of one query; zero: 4 s
}

// A Client reads signals from one Prometheus.
type Client struct {
	api     v1.API
	timeout time.Duration
}

// New makes a client; it does not connect.
func New(c Config) (*Client, error) {
	if c.Transport == nil {
		c.Transport = http.DefaultTransport
	}
	if c.Timeout <= 0 {
		c.Timeout = 4 * time.Second
	}
	client, err := api.NewClient(api.Config{Address: c.URL, RoundTripper: &bearer{token: c.Token, next: c.Transport}})
	if err != nil {
		return nil, fmt.Errorf("making a Prometheus client: %s", enrich.Redact(err))
	}
	return &Client{api: v1.NewAPI(client), timeout: c.Timeout}, nil
}

// bearer adds the token as it is now.
type bearer struct {
	token func() (string, error)
	next  http.RoundTripper
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if b.token != nil {
		token, err := b.token()
		if err != nil {
			return nil, errors.New("the bearer token cannot be read")
		}
		r = r.Clone(r.Context())
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

// capped is a body that fails when it goes on for too long: a part of an answer must not pass for all of it.
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
	members []member
	at      time.Time // instant
	span    *v1.Range // range
	name    string    // "" for now; else what is missing when it fails
}

// Read implements enrich.Source.
func (c *Client) Read(ctx context.Context, q enrich.Query) enrich.Reading {
	g := &gathering{query: q, scope: c.narrow(ctx, q), samples: map[string]*sample{}}
	jobs := g.jobs()
	var wg sync.WaitGroup
	results := make([]answer, len(jobs))
	for i, j := range jobs {
		wg.Go(func() { results[i] = c.ask(ctx, j, j.union()) })
	}
	wg.Wait()
	var out enrich.Reading
	for i, j := range jobs { // now first, so that what comes after finds its sample
		if err := results[i].err; err != nil {
			reason := enrich.Explain("Prometheus", err)
			if j.name != "" {
				for name := range strings.SplitSeq(j.name, ", ") {
					out.Notes = appendOnce(out.Notes, state.Missing{Signal: name, Reason: reason})
				}
				continue
			}
			for _, m := range j.members {
				out.Fail(m.signal.ID, reason)
			}
			continue
		}
		g.take(j, results[i])
	}
	out.Samples = g.finish()
	return out
}

func appendOnce(list []state.Missing, m state.Missing) []state.Missing {
	for _, have := range list {
		if have == m {
			return list
		}
	}
	return append(list, m)
}

type answer struct {
	vector model.Vector
	matrix model.Matrix
	err    error
}

// union is the query of all members.
func (j job) union() string {
	parts := make([]string, len(j.members))
	for i, m := range j.members {
		parts[i] = m.labelled()
	}
	return either(parts)
}

// either is the union of expressions that have no series in common. Prometheus goes over all series on the left for every "or", so that
// halves of halves cost it far less than one after the other.
func either(parts []string) string {
	if len(parts) <= 2 {
		return strings.Join(parts, "\nor\n")
	}
	half := len(parts) / 2
	return "(" + either(parts[:half]) + ")\nor\n(" + either(parts[half:]) + ")"
}

func (c *Client) ask(ctx context.Context, j job, query string) answer {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	var value model.Value
	var err error
	if j.span != nil {
		value, _, _, err = c.api.QueryRange(ctx, query, *j.span, v1.WithTimeout(c.timeout))
	} else {
		value, _, _, err = c.api.Query(ctx, query, j.at, v1.WithTimeout(c.timeout), v1.WithLookbackDelta(Stale))
	}
	if err != nil {
		if ctx.Err() != nil { // the client's wording of its own deadline differs by version
			err = ctx.Err()
		}
		return answer{err: err}
	}
	switch v := value.(type) {
	case model.Vector:
		return answer{vector: v}
	case model.Matrix:
		return answer{matrix: v}
	default:
		return answer{err: fmt.Errorf("answered with a %s, not a vector", value.Type())}
	}
}
