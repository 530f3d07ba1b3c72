package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strings"

	"paramedic/rules/enrich"
)

// fetch reads and parses one page.
func (c *Client) fetch(ctx context.Context, url string, page *reader) ([]point, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, errors.New("the address is not a URL")
	}
	req.Header.Set("Accept", "text/plain;version=0.0.4")
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, errors.New(enrich.Redact(err))
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("answers %d to a scrape", resp.StatusCode)
	}
	body := &bounded{r: resp.Body, left: MaxPage}
	points, err := page.read(body)
	if body.left < 0 {
		return nil, fmt.Errorf("page is larger than %d MiB", MaxPage>>20)
	}
	return points, err
}

// health requests the engine's /health: 1 for healthy, 0 for unhealthy, NaN if the server has no
// such path.
func (c *Client) health(ctx context.Context, url string) float64 {
	base, ok := strings.CutSuffix(url, "/metrics")
	if !ok {
		return math.NaN()
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+"/health", nil)
	if err != nil {
		return math.NaN()
	}
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil && !errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return math.NaN()
		}
		return 0
	}
	defer resp.Body.Close()
	switch {
	case resp.StatusCode == http.StatusOK:
		return 1
	case resp.StatusCode >= 500:
		return 0
	default:
		return math.NaN()
	}
}

var errTooLarge = errors.New("page is too large")

// bounded is a reader that fails at its limit instead of ending. A page that is cut would look like
// counters that fell.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left+1)])
	if b.left -= int64(n); b.left < 0 {
		return n, errTooLarge
	}
	return n, err
}
