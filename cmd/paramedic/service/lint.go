package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/internal/text"
	"paramedic/rules/enrich/prometheus"
	"paramedic/rules/lint"
)

// A LintResult holds the findings about one cluster's own alert rules.
type LintResult struct {
	Rules    int            `json:"rules"`
	Findings []lint.Finding `json:"findings"`
	Skipped  string         `json:"skipped,omitempty"`  // why they were not checked
	Unseen   []string       `json:"unseen,omitempty"`   // what was not checked, and why
	Unjudged []string       `json:"unjudged,omitempty"` // metrics that no series has, and that may come
}

// LintRules compares every cluster's alert rules with the series of its Prometheus. It returns the
// results by cluster, and the errors by "cluster/rules".
func LintRules(ctx context.Context, cfg config.Config) (map[string]LintResult, map[string]error) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	all, failed := map[string]LintResult{}, map[string]error{}
	for _, c := range cfg.Clusters {
		if c.Prometheus.URL == "" {
			continue
		}
		wg.Go(func() {
			found, err := lintCluster(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				failed[c.Name+"/rules"] = err
				return
			}
			all[c.Name] = found
		})
	}
	wg.Wait()
	return all, failed
}

func lintCluster(ctx context.Context, c config.ClusterConfig) (LintResult, error) {
	none := LintResult{Findings: []lint.Finding{}}
	client, err := prometheus.New(prometheus.Config{URL: c.Prometheus.URL,
		Token: secretReader(c.Prometheus.BearerTokenFile), Headers: c.Prometheus.Headers, Match: c.Prometheus.Match})
	if err != nil {
		return none, err
	}
	loaded, recorded, err := client.Rules(ctx)
	switch {
	case errors.Is(err, prometheus.ErrNoRules):
		none.Skipped = err.Error()
		return none, nil
	case err != nil:
		return none, err
	}
	now := time.Now()
	have := lint.Exported{Recorded: recorded}
	if have.Metrics, err = client.MetricNames(ctx, now); err != nil {
		return none, err
	}
	if have.Router, err = client.Router(ctx, now); err != nil {
		return none, err
	}
	if have.Earlier, err = client.Earlier(ctx, lint.Suspects(loaded, have), now); err != nil {
		return none, err
	}
	out := LintResult{Unjudged: lint.Unjudged(loaded, have)}
	have.Scraped, err = client.Scraped(ctx)
	switch {
	case err != nil:
		out.Unseen = append(out.Unseen, "short ranges were not checked: "+strings.TrimSpace(err.Error()))
	case len(have.Scraped) == 0:
		out.Unseen = append(out.Unseen,
			"short ranges were not checked: Prometheus does not report how often it scrapes")
	}
	labels, left, err := client.Labels(ctx, lint.Lookups(loaded, have), now)
	have.Labels = labels
	switch {
	case err != nil:
		out.Unseen = append(out.Unseen, fmt.Sprintf("labels of %s were not checked: %s", text.Count(left, "metric"),
			strings.TrimSpace(err.Error())))
	case left > 0:
		out.Unseen = append(out.Unseen, fmt.Sprintf("labels of %s were not checked: they take more than %d queries",
			text.Count(left, "metric"), prometheus.MaxLookups))
	}
	out.Rules, out.Findings = len(loaded), lint.Lint(loaded, have)
	return out, nil
}
