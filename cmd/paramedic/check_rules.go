package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/cmd/paramedic/service"
	"paramedic/rules"
	"paramedic/rules/enrich/prometheus"
)

// A linted is what is wrong with one cluster's own alert rules.
type linted struct {
	Rules    int                 `json:"rules"`
	Findings []rules.LintFinding `json:"findings"`
	Skipped  string              `json:"skipped,omitempty"`  // why they were not looked at
	Unseen   []string            `json:"unseen,omitempty"`   // what was not looked at, and why
	Unjudged []string            `json:"unjudged,omitempty"` // metrics that no series has, and that may come
}

// lintRules compares every cluster's alert rules with what its Prometheus holds.
func (o *checked) lintRules(ctx context.Context, cfg config.Config) {
	var mu sync.Mutex
	var wg sync.WaitGroup
	o.Rules = map[string]linted{}
	for _, c := range cfg.Clusters {
		if c.Prometheus.URL == "" {
			continue
		}
		wg.Go(func() {
			found, err := lintCluster(ctx, c)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				o.Online[c.Name+"/rules"] = okOr(err)
				return
			}
			o.Rules[c.Name] = found
		})
	}
	wg.Wait()
}

func lintCluster(ctx context.Context, c config.ClusterConfig) (linted, error) {
	none := linted{Findings: []rules.LintFinding{}}
	client, err := prometheus.New(prometheus.Config{URL: c.Prometheus.URL, Token: service.SecretReader(c.Prometheus.BearerTokenFile)})
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
	have := rules.Exported{Recorded: recorded}
	if have.Metrics, err = client.MetricNames(ctx, now); err != nil {
		return none, err
	}
	if have.Router, err = client.Router(ctx, now); err != nil {
		return none, err
	}
	if have.Earlier, err = client.Earlier(ctx, rules.Suspects(loaded, have), now); err != nil {
		return none, err
	}
	out := linted{Unjudged: rules.Unjudged(loaded, have)}
	have.Scraped, err = client.Scraped(ctx)
	switch {
	case err != nil:
		out.Unseen = append(out.Unseen, "short ranges were not looked at: "+okOr(err))
	case len(have.Scraped) == 0:
		out.Unseen = append(out.Unseen, "short ranges were not looked at: the server does not tell how often it scrapes")
	}
	labels, left, err := client.Labels(ctx, rules.Lookups(loaded, have), now)
	have.Labels = labels
	switch {
	case err != nil:
		out.Unseen = append(out.Unseen, fmt.Sprintf("labels of %s were not looked at: %s", count(left, "metric"), okOr(err)))
	case left > 0:
		out.Unseen = append(out.Unseen, fmt.Sprintf("labels of %s were not looked at: they take more than %d queries", count(left, "metric"), prometheus.MaxLookups))
	}
	out.Rules, out.Findings = len(loaded), rules.Lint(loaded, have)
	return out, nil
}

// print prints the findings for people, below the cluster's name.
func (l linted) print(c *cli, cluster string) {
	fmt.Fprintf(c.out, "%-32s ", cluster+"/rules")
	switch {
	case l.Skipped != "":
		fmt.Fprintf(c.out, "not looked at: %s\n", l.Skipped)
		return
	case len(l.Findings) == 0:
		fmt.Fprintf(c.out, "ok, %s\n", count(l.Rules, "alert rule"))
	default:
		l.printFindings(c)
	}
	for _, what := range l.Unseen {
		fmt.Fprintf(c.out, "  %s\n", what)
	}
	if len(l.Unjudged) > 0 {
		fmt.Fprintf(c.out, "  not judged: %s without series in the last hour, which may come when something happens, or with an exporter: %s\n", count(len(l.Unjudged), "metric"), someOf(l.Unjudged))
	}
}

func (l linted) printFindings(c *cli) {
	fmt.Fprintf(c.out, "%s in %s\n", count(len(l.Findings), "finding"), count(l.Rules, "alert rule"))
	w := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, f := range l.Findings {
		name := strings.TrimPrefix(f.Group+"/"+f.Rule, "/")
		fmt.Fprintf(w, "  %s\t%s\t%s\n  \t\t→ %s\n", f.Severity, name, f.Text, f.Fix)
	}
	w.Flush()
}

// someOf are the first of many names.
func someOf(names []string) string {
	const shown = 12
	out := strings.Join(names[:min(len(names), shown)], ", ")
	if more := len(names) - shown; more > 0 {
		out += fmt.Sprintf(" and %d more", more)
	}
	return out
}

func count(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
