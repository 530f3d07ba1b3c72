package engine

import (
	"maps"
	"math"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"
)

// target is one page that is scraped, and what is remembered of it.
type target struct {
	url    string
	labels map[string]string // instance, and what the configuration adds

	page *reader // used by one scrape at a time

	mu      sync.Mutex
	history *history
	problem string // of the newest scrape; empty when it worked
	// own is the model that the page last named, and the pod if it did: a target that is down is
	// still known to serve it.
	own map[string]string
}

func newTarget(c Target, wanted map[string]bool) *target {
	labels := maps.Clone(c.Labels)
	if labels == nil {
		labels = map[string]string{}
	}
	if u, err := url.Parse(c.URL); err == nil && labels["instance"] == "" {
		labels["instance"] = u.Host
	}
	return &target{url: c.URL, labels: labels, page: newReader(wanted), history: newHistory()}
}

// with is a series' labels with the target's: the page's own win, as an exporter that speaks of
// others' pods knows best.
func (t *target) with(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+len(t.labels))
	maps.Copy(out, t.labels)
	maps.Copy(out, labels)
	out["instance"] = t.labels["instance"]
	return out
}

// record remembers one scrape: a page, or that there was none.
func (t *target) record(now time.Time, points []point, health float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	up := 1.0
	t.problem = ""
	if err != nil {
		up, points, t.problem = 0, nil, err.Error()
	}
	for _, p := range points {
		if m := p.labels["model_name"]; m != "" && p.labels["server"] == "" && !ofOthers(p.metric) {
			t.own = map[string]string{}
			for _, l := range []string{"model_name", "namespace", "pod"} { // a page that names its worker is that worker's, with what is told of it here
				if v := p.labels[l]; v != "" {
					t.own[l] = v
				}
			}
			break
		}
	}
	points = append(points, point{newLine("up", t.own, math.NaN()), up})
	if !math.IsNaN(health) {
		points = append(points, point{newLine(healthMetric, t.own, math.NaN()), health})
	}
	t.history.add(now, points)
}

// ofOthers says whether a metric is an endpoint picker's or a caller's (llm_requests_total and its
// like), who speak of a model that others serve.
func ofOthers(metric string) bool {
	for _, prefix := range []string{"llm_", "inference_objective_", "inference_pool_"} {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return false
}

// healthMetric holds the answers of /health in a target's history.
const healthMetric = "paramedic_engine_health"

// last is a series' newest value: that of the newest page, if the page is not too old and has it.
func (t *target) last(i int, to time.Time) (float64, bool) {
	n := t.history.search(to)
	if n == 0 {
		return 0, false
	}
	r := t.history.rows[n-1]
	if to.Sub(r.at) >= stale {
		return 0, false
	}
	v := r.value(i)
	return v, !math.IsNaN(v)
}

// points are a series' values in (to-window, to].
func (t *target) points(i int, to time.Time, window time.Duration) []at {
	rows := t.history.between(to.Add(-window), to)
	out := make([]at, 0, len(rows))
	for _, r := range rows {
		if v := r.value(i); !math.IsNaN(v) {
			out = append(out, at{-to.Sub(r.at).Seconds(), v})
		}
	}
	return out
}

// watched is how much of a window the page has been read for. A rate of what was seen in twenty
// seconds, divided by five minutes, would be a fifteenth of what it is.
func (t *target) watched(to time.Time, window time.Duration) time.Duration {
	if since := to.Sub(t.history.rows[0].at); since > 0 {
		return min(window, since)
	}
	return window
}

func labelValue(s string) (float64, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return f, err == nil && !math.IsNaN(f)
}
