package backtest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// atOnce limits the queries that Prometheus works on at the same time.
	atOnce = 4
	// attempts limits how often one query is sent, which takes a minute and a half in all.
	attempts     = 8
	firstPause   = time.Second
	longestPause = 30 * time.Second
	// longestAsked limits the pause that a server may ask for in Retry-After.
	longestAsked = 2 * time.Minute
	// mostPeeked is the part of a refusal that is read for its reason.
	mostPeeked = 64 << 10
)

// A pacer is a transport that bounds the load on Prometheus. It limits the queries at a time and
// per second, and sends a query again later if the server is overloaded or away. After the last
// attempt it remembers the failure: evidence without this answer would be wrong.
type pacer struct {
	next  http.RoundTripper
	slots chan struct{}
	limit *rate.Limiter
	now   func() time.Time
	wait  func(ctx context.Context, d time.Duration) error

	mu      sync.Mutex
	sent    int
	failure error
}

// newPacer returns a pacer for this many queries per second.
func newPacer(next http.RoundTripper, perSecond float64) *pacer {
	return &pacer{next: next, slots: make(chan struct{}, atOnce), limit: rate.NewLimiter(rate.Limit(perSecond), atOnce),
		now: time.Now, wait: pause}
}

// pause waits for a time, or until the context ends.
func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// RoundTrip implements http.RoundTripper.
func (p *pacer) RoundTrip(r *http.Request) (*http.Response, error) {
	ctx := r.Context()
	select {
	case p.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-p.slots }()
	for n := 1; ; n++ {
		resp, err := p.send(r)
		again, why, after := overloaded(resp, err)
		if ctx.Err() != nil || !again {
			return resp, err
		}
		if resp != nil {
			resp.Body.Close()
		}
		if n == attempts {
			err := fmt.Errorf("no answer of Prometheus to %d attempts: %s", attempts, why)
			p.mu.Lock()
			p.failure = err
			p.mu.Unlock()
			return nil, err
		}
		if err := p.wait(ctx, max(after, min(firstPause<<(n-1), longestPause))); err != nil {
			return nil, err
		}
	}
}

// send sends the request once, when the rate allows it.
func (p *pacer) send(r *http.Request) (*http.Response, error) {
	now := p.now()
	if d := p.limit.ReserveN(now, 1).DelayFrom(now); d > 0 {
		if err := p.wait(r.Context(), d); err != nil {
			return nil, err
		}
	}
	p.mu.Lock()
	p.sent++
	p.mu.Unlock()
	again := r.Clone(r.Context())
	if r.GetBody != nil {
		body, err := r.GetBody()
		if err != nil {
			return nil, fmt.Errorf("repeating a query: %w", err)
		}
		again.Body = body
	}
	return p.next.RoundTrip(again)
}

// overloaded reports whether the query may be answered later, why it was not, and how long the
// server asks to wait. A query that took the server too long would take it too long again.
func overloaded(resp *http.Response, err error) (again bool, why string, after time.Duration) {
	switch {
	case err != nil:
		return !errors.Is(err, context.Canceled), err.Error(), 0
	case resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode < 500,
		resp.StatusCode == http.StatusNotImplemented:
		return false, "", 0
	}
	head, _ := io.ReadAll(io.LimitReader(resp.Body, mostPeeked)) // the status alone decides if it cannot be read
	if bytes.Contains(head, []byte(`"errorType":"timeout"`)) {
		resp.Body = &joined{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
		return false, "", 0
	}
	if seconds, err := strconv.Atoi(resp.Header.Get("Retry-After")); err == nil && seconds > 0 {
		after = min(time.Duration(seconds)*time.Second, longestAsked)
	}
	return true, "it answered " + resp.Status, after
}

// joined is a body of which a part was read before.
type joined struct {
	io.Reader
	io.Closer
}

// queries returns the number of requests so far.
func (p *pacer) queries() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent
}

// err returns the failure after which no evidence can be trusted, or nil.
func (p *pacer) err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.failure
}
