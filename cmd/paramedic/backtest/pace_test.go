package backtest

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// answers is a transport with fixed answers, the last of them for ever.
type answers struct {
	mu   sync.Mutex
	list []func() (*http.Response, error)
	sent []string
}

func (a *answers) RoundTrip(r *http.Request) (*http.Response, error) {
	raw, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sent = append(a.sent, string(raw))
	next := a.list[0]
	if len(a.list) > 1 {
		a.list = a.list[1:]
	}
	return next()
}

func status(code int, body string, header ...string) func() (*http.Response, error) {
	return func() (*http.Response, error) {
		h := http.Header{}
		for i := 0; i+1 < len(header); i += 2 {
			h.Set(header[i], header[i+1])
		}
		return &http.Response{StatusCode: code, Status: http.StatusText(code), Header: h, Body: io.NopCloser(strings.NewReader(body))}, nil
	}
}

// paced returns a pacer whose clock only moves when it waits, and the list of its pauses.
func paced(next http.RoundTripper, perSecond float64) (*pacer, *[]time.Duration) {
	p := newPacer(next, perSecond)
	now, pauses := end, &[]time.Duration{}
	p.now = func() time.Time { return now }
	p.wait = func(_ context.Context, d time.Duration) error {
		now = now.Add(d)
		*pauses = append(*pauses, d)
		return nil
	}
	return p, pauses
}

func ask(t *testing.T, p *pacer) (string, error) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://prometheus/api/v1/query", strings.NewReader("query=up"))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := p.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return string(raw), err
}

func TestPacerRepeatsWhatAnOverloadRefused(t *testing.T) {
	a := &answers{list: []func() (*http.Response, error){status(503, ""), status(429, "", "Retry-After", "7"),
		func() (*http.Response, error) { return nil, errors.New("connection reset") }, status(200, "fine")}}
	p, pauses := paced(a, 1000)
	got, err := ask(t, p)
	if err != nil || got != "fine" {
		t.Fatal(got, err)
	}
	if want := []time.Duration{time.Second, 7 * time.Second, 4 * time.Second}; len(*pauses) != 3 || (*pauses)[0] != want[0] ||
		(*pauses)[1] != want[1] || (*pauses)[2] != want[2] {
		t.Errorf("the pauses are %v, want %v", *pauses, want)
	}
	for _, body := range a.sent {
		if body != "query=up" {
			t.Errorf("an attempt sent %q", body)
		}
	}
	if p.err() != nil {
		t.Errorf("a query that was answered in the end is a failure: %v", p.err())
	}
}

func TestPacerFailsAfterTheLastAttempt(t *testing.T) {
	a := &answers{list: []func() (*http.Response, error){status(502, "")}}
	p, _ := paced(a, 1000)
	if _, err := ask(t, p); err == nil || p.err() == nil || len(a.sent) != attempts {
		t.Errorf("after %d attempts: %v", len(a.sent), err)
	}
}

// A query that takes Prometheus too long is missing evidence. It must not end the backtest.
func TestPacerPassesAQueryTimeout(t *testing.T) {
	body := `{"status":"error","errorType":"timeout","error":"query timed out"}`
	a := &answers{list: []func() (*http.Response, error){status(503, body)}}
	p, _ := paced(a, 1000)
	if got, err := ask(t, p); err != nil || got != body || len(a.sent) != 1 || p.err() != nil {
		t.Errorf("%d attempts: %q, %v", len(a.sent), got, err)
	}
}

func TestPacerKeepsTheRate(t *testing.T) {
	p, _ := paced(&answers{list: []func() (*http.Response, error){status(200, "")}}, 5)
	begin := p.now()
	const n = 54
	for range n {
		if _, err := ask(t, p); err != nil {
			t.Fatal(err)
		}
	}
	if took := p.now().Sub(begin); took < 10*time.Second || took > 11*time.Second {
		t.Errorf("%d queries at 5 per second took %s", n, took)
	}
}

// crowd counts the requests that are in it at the same time.
type crowd struct {
	mu       sync.Mutex
	in, most int
	arrived  chan struct{}
	leave    chan struct{}
}

func (c *crowd) RoundTrip(*http.Request) (*http.Response, error) {
	c.mu.Lock()
	c.in++
	c.most = max(c.most, c.in)
	c.mu.Unlock()
	c.arrived <- struct{}{}
	<-c.leave
	c.mu.Lock()
	c.in--
	c.mu.Unlock()
	return status(200, "")()
}

func TestPacerBoundsQueriesAtATime(t *testing.T) {
	const n = 3 * atOnce
	c := &crowd{arrived: make(chan struct{}, n), leave: make(chan struct{})}
	p := newPacer(c, 1e6)
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, err := ask(t, p); err != nil {
				t.Error(err)
			}
		})
	}
	for range n { // each that leaves lets another in
		<-c.arrived
		c.leave <- struct{}{}
	}
	wg.Wait()
	if c.most > atOnce {
		t.Errorf("%d queries at a time, at most %d", c.most, atOnce)
	}
}
