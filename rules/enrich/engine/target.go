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

// A target is one page, with its history.
type target struct {
	url    string
	labels map[string]string // instance, and those of the configuration

	page *reader // used by one scrape at a time

	mu      sync.Mutex
	history *history
	problem string // of the newest scrape; empty if it succeeded
	// own holds the model, namespace and pod that the page named last. A target that is down keeps
	// them.
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

// with returns a series' labels together with the target's. Labels of the page win, because an
// exporter may report on other pods.
func (t *target) with(labels map[string]string) map[string]string {
	out := make(map[string]string, len(labels)+len(t.labels))
	maps.Copy(out, t.labels)
	maps.Copy(out, labels)
	out["instance"] = t.labels["instance"]
	return out
}

// record adds one scrape to the history: a page, or its failure.
func (t *target) record(now time.Time, points []point, health float64, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	up := 1.0
	t.problem = ""
	if err != nil {
		up, points, t.problem = 0, nil, err.Error()
	}
	for _, p := range points {
		if m := p.labels["model_name"]; m != "" && p.labels["server"] == "" && !describesOthers(p.metric) {
			t.own = map[string]string{}
			for _, l := range []string{"model_name", "namespace",
				"pod"} { // a page that names its worker belongs to that worker
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

// describesOthers reports whether a metric is of an endpoint picker or of a caller (for example
// llm_requests_total). These export the names of models that others serve.
func describesOthers(metric string) bool {
	for _, prefix := range []string{"llm_", "inference_objective_", "inference_pool_"} {
		if strings.HasPrefix(metric, prefix) {
			return true
		}
	}
	return false
}

// healthMetric names the series with the answers of /health in a target's history.
const healthMetric = "paramedic_engine_health"

// last returns the current value of a series. It returns false if the newest page is too old or
// lacks the series.
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

// points returns a series' values in (to-window, to].
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

// watched returns the part of the window since the first page. Dividing the increase of 20 seconds
// by five minutes would give a fifteenth of the rate.
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
