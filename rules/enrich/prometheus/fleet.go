package prometheus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
	"golang.org/x/sync/errgroup"

	"paramedic/rules/enrich"
	"paramedic/rules/lint"
)

const (
	// MaxRules is the greatest number of alerting rules, and of recording rules.
	MaxRules = 5000
	// MaxNames is the greatest number of metric names.
	MaxNames = 200_000
	// MaxLookups limits the queries for labels of series. With the other queries, a fleet costs at
	// most 400.
	MaxLookups = 390
	// MaxValues is the greatest number of a label's values.
	MaxValues = 5000
	// atOnce limits the parallel lookups.
	atOnce = 4

	// namesFor is the time after its last sample for which a metric counts as exported. Prometheus
	// answers from blocks of two hours, so the time may be longer.
	namesFor = time.Hour
	// earlierFor limits how far back missing metrics are searched.
	earlierFor = 7 * 24 * time.Hour
	// Metric names per query, so that it fits into a URL, and the greatest number of such queries.
	namesAtOnce, askedEarlier = 50, 4
)

// ErrNoRules reports that the server has no rules API, only queries.
var ErrNoRules = errors.New("the server has no rules API")

// Rules reads the loaded rules, alerting and recording. Each kind has at most [MaxRules].
func (c *Client) Rules(ctx context.Context) ([]lint.AlertingRule, []lint.RecordingRule, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	loaded, err := c.api.Rules(ctx, nil)
	if err != nil {
		var api *v1.Error
		if errors.As(err, &api) && api.Type == v1.ErrClient && strings.Contains(api.Msg, "404") {
			return nil, nil, ErrNoRules
		}
		return nil, nil, explain(ctx, err)
	}
	var alerting []lint.AlertingRule
	var recording []lint.RecordingRule
	for _, g := range loaded.Groups {
		for _, r := range g.Rules {
			switch r := r.(type) {
			case v1.AlertingRule:
				alerting = append(alerting, lint.AlertingRule{Group: g.Name, Name: r.Name, Expr: r.Query,
					For:   time.Duration(r.Duration * float64(time.Second)),
					Holds: r.State == string(v1.AlertStateFiring) || r.State == string(v1.AlertStatePending)})
			case v1.RecordingRule:
				recording = append(recording, lint.RecordingRule{Name: r.Name, Expr: r.Query,
					Labels: labelMap(r.Labels)})
			}
		}
	}
	for what, n := range map[string]int{"alerting": len(alerting), "recording": len(recording)} {
		if n > MaxRules {
			return nil, nil, fmt.Errorf("there are more than %d %s rules", MaxRules, what)
		}
	}
	return alerting, recording, nil
}

func labelMap(set model.LabelSet) map[string]string {
	out := make(map[string]string, len(set))
	for k, v := range set {
		out[string(k)] = string(v)
	}
	return out
}

// MetricNames reads the names of all series with a recent sample. More than [MaxNames] are an
// error, because with an incomplete list, existing metrics would look missing.
func (c *Client) MetricNames(ctx context.Context, now time.Time) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	values, _, _, err := c.api.LabelValues(ctx, "__name__", nil, now.Add(-namesFor), now, v1.WithLimit(MaxNames+1))
	switch {
	case err != nil:
		return nil, explain(ctx, err)
	case len(values) > MaxNames:
		return nil, fmt.Errorf("there are more than %d metrics", MaxNames)
	}
	out := make(map[string]bool, len(values))
	for _, v := range values {
		out[string(v)] = true
	}
	return out, nil
}

// Earlier returns which of the given metrics had series in the last week. It includes all names
// beyond the limit of its queries, because they are unknown.
func (c *Client) Earlier(ctx context.Context, names []string, now time.Time) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out := map[string]bool{}
	if most := namesAtOnce * askedEarlier; len(names) > most {
		for _, name := range names[most:] {
			out[name] = true
		}
		names = names[:most]
	}
	for some := range slices.Chunk(names, namesAtOnce) {
		var any []string
		for _, name := range some {
			any = append(any, regexp.QuoteMeta(name))
		}
		match := fmt.Sprintf("{__name__=~%q}", strings.Join(any, "|"))
		values, _, _, err := c.api.LabelValues(ctx, "__name__", []string{match}, now.Add(-earlierFor), now)
		if err != nil {
			return nil, explain(ctx, err)
		}
		for _, v := range values {
			out[string(v)] = true
		}
	}
	return out, nil
}

// Router reports whether vLLM's requests are exported twice: by the engines, and by a router with
// the label server.
func (c *Client) Router(ctx context.Context, now time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, sel := range []string{`vllm:num_requests_waiting{server!=""}`, `vllm:num_requests_waiting{server=""}`} {
		values, _, _, err := c.api.LabelValues(ctx, "__name__", []string{sel}, now.Add(-namesFor), now, v1.WithLimit(1))
		if err != nil {
			return false, explain(ctx, err)
		}
		if len(values) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// Scraped reads the shortest scrape interval of each job. It returns nil if the server does not
// have scrape targets, because some servers only answer queries.
func (c *Client) Scraped(ctx context.Context) (map[string]time.Duration, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	u := c.url("/api/v1/targets", nil)
	// Dropped targets can be a hundred times as many, and the client's own Targets reads them too.
	u.RawQuery = "state=active"
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("making a request: %w", err)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, explain(ctx, err)
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return nil, nil
	}
	var got struct {
		Data struct {
			ActiveTargets []struct {
				Labels         map[string]string `json:"labels"`
				ScrapeInterval model.Duration    `json:"scrapeInterval"`
			} `json:"activeTargets"`
		} `json:"data"`
	}
	if err := json.NewDecoder(resp.Body).Decode(&got); err != nil {
		return nil, explain(ctx, fmt.Errorf("reading the targets: %w", err))
	}
	out := map[string]time.Duration{}
	for _, t := range got.Data.ActiveTargets {
		job, every := t.Labels[model.JobLabel], time.Duration(t.ScrapeInterval)
		if before, known := out[job]; every > 0 && (!known || every < before) {
			out[job] = every
		}
	}
	return out, nil
}

// Labels reads which labels the recent series of the given metrics have, and the values of the
// requested labels, with at most [MaxLookups] queries. It leaves out the values of a label that has
// more than [MaxValues]. left is the number of metrics that were not read completely: those beyond
// the limit, and those after an error. An error keeps the earlier results.
func (c *Client) Labels(
	ctx context.Context, lookups []lint.Lookup, now time.Time,
) (found map[string]map[string][]string, left int, err error) {
	found = map[string]map[string][]string{}
	var mu sync.Mutex
	budget := MaxLookups
	spend := func() bool {
		mu.Lock()
		defer mu.Unlock()
		budget--
		return budget >= 0
	}
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(atOnce)
	for _, l := range lookups {
		g.Go(func() error {
			has, all, err := c.labelsOf(ctx, l, now, spend)
			mu.Lock()
			defer mu.Unlock()
			if has != nil {
				found[l.Metric] = has
			}
			if !all {
				left++
			}
			return err
		})
	}
	err = g.Wait()
	return found, left, err
}

// labelsOf reads the labels of one metric. A label whose values were not read is nil; all reports
// whether everything was read.
func (c *Client) labelsOf(
	ctx context.Context, l lint.Lookup, now time.Time, spend func() bool,
) (has map[string][]string, all bool, err error) {
	if !spend() {
		return nil, false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	match, from := []string{fmt.Sprintf("{__name__=%q}", l.Metric)}, now.Add(-namesFor)
	names, _, _, err := c.api.LabelNames(ctx, match, from, now)
	if err != nil {
		return nil, false, explain(ctx, err)
	}
	if len(names) == 0 {
		return nil, true, nil // a series has at least its name, so the server cannot answer this
	}
	has = map[string][]string{}
	for _, name := range names {
		if name != model.MetricNameLabel {
			has[string(name)] = nil
		}
	}
	for _, label := range l.Labels {
		if _, ok := has[label]; !ok {
			continue
		}
		if !spend() {
			return has, false, nil
		}
		values, _, _, err := c.api.LabelValues(ctx, label, match, from, now, v1.WithLimit(MaxValues+1))
		if err != nil {
			return nil, false, explain(ctx, err)
		}
		for _, v := range values {
			if len(values) <= MaxValues {
				has[label] = append(has[label], string(v))
			}
		}
	}
	return has, true, nil
}

// explain returns an error's text for people, without addresses and credentials.
func explain(ctx context.Context, err error) error {
	if ctx.Err() != nil { // the client's text for its own deadline differs by version
		err = ctx.Err()
	}
	return errors.New(enrich.Explain("Prometheus", err))
}
