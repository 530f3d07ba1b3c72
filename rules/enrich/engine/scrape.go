package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"paramedic/rules/enrich"
)

// MaxPage is the largest page that is read, in bytes after decompression.
const MaxPage = 16 << 20

// maxSeries is how many series of one target are kept: a target with more is misread, not worth the memory.
const maxSeries = 20000

// A point is one line of a page.
type point struct {
	metric string
	labels map[string]string
	le     float64 // of a bucket; NaN otherwise
	value  float64
}

// parse reads the text format and keeps the lines of wanted series; a histogram gives its buckets, sum and count.
func parse(r io.Reader, wanted map[string]bool) ([]point, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(r)
	if err != nil {
		return nil, fmt.Errorf("page is not in the Prometheus text format: %w", err)
	}
	var out []point
	for _, name := range slices.Sorted(maps.Keys(families)) {
		for _, m := range families[name].GetMetric() {
			out = appendPoints(out, name, m, wanted)
		}
	}
	if len(out) > maxSeries {
		return nil, fmt.Errorf("page has %d series that matter; at most %d are read", len(out), maxSeries)
	}
	return out, nil
}

func appendPoints(out []point, name string, m *dto.Metric, wanted map[string]bool) []point {
	labels := make(map[string]string, len(m.GetLabel()))
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	add := func(metric string, le, v float64) {
		if wanted[metric] {
			out = append(out, point{metric, labels, le, v})
		}
	}
	none := math.NaN()
	switch {
	case m.Histogram != nil:
		h := m.GetHistogram()
		add(name+"_sum", none, h.GetSampleSum())
		add(name+"_count", none, float64(h.GetSampleCount()))
		for _, b := range h.GetBucket() {
			add(name+"_bucket", b.GetUpperBound(), float64(b.GetCumulativeCount()))
		}
	case m.Summary != nil:
		add(name+"_sum", none, m.GetSummary().GetSampleSum())
		add(name+"_count", none, float64(m.GetSummary().GetSampleCount()))
	case m.Counter != nil:
		add(name, none, m.GetCounter().GetValue())
	case m.Gauge != nil:
		add(name, none, m.GetGauge().GetValue())
	case m.Untyped != nil:
		add(name, none, m.GetUntyped().GetValue())
	}
	return out
}

// fetch reads and parses one page.
func (c *Client) fetch(ctx context.Context, url string) ([]point, error) {
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
	points, err := parse(body, c.wanted)
	if body.left < 0 {
		return nil, fmt.Errorf("page is larger than %d MiB", MaxPage>>20)
	}
	return points, err
}

// health asks the engine's /health: 1 well, 0 not, NaN where the server has no such path.
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

// bounded fails, instead of ending, where a page is too long: a page cut in the middle would be read as counters that fell.
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

// key is what makes a series the same in the next page.
func (p point) key() string {
	var b strings.Builder
	b.WriteString(p.metric)
	for _, k := range slices.Sorted(maps.Keys(p.labels)) {
		b.WriteString("\x00" + k + "\x00" + p.labels[k])
	}
	if !math.IsNaN(p.le) {
		b.WriteString("\x00le\x00" + strconv.FormatFloat(p.le, 'g', -1, 64))
	}
	return b.String()
}
