package prometheus

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"paramedic/rules"
	"paramedic/rules/enrich"
)

const (
	// MaxRules is how many alerting rules are read.
	MaxRules = 5000
	// MaxNames is how many names of metrics are read.
	MaxNames = 200_000

	// namesFor is how long a metric is called exported after its last sample. Prometheus keeps blocks of two hours, so that this is only
	// the least it remembers.
	namesFor = time.Hour
)

// ErrNoRules says that the server has no rules API: it only answers queries.
var ErrNoRules = errors.New("the server has no rules API")

// Rules reads the alerting rules that are loaded, at most [MaxRules].
func (c *Client) Rules(ctx context.Context) ([]rules.AlertingRule, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	loaded, err := c.api.Rules(ctx, nil)
	if err != nil {
		var api *v1.Error
		if errors.As(err, &api) && api.Type == v1.ErrClient && strings.Contains(api.Msg, "404") {
			return nil, ErrNoRules
		}
		return nil, explained(ctx, err)
	}
	var out []rules.AlertingRule
	for _, g := range loaded.Groups {
		for _, r := range g.Rules {
			a, ok := r.(v1.AlertingRule)
			if !ok {
				continue
			}
			if len(out) == MaxRules {
				return nil, fmt.Errorf("there are more than %d alerting rules", MaxRules)
			}
			out = append(out, rules.AlertingRule{Group: g.Name, Name: a.Name, Expr: a.Query, For: time.Duration(a.Duration * float64(time.Second))})
		}
	}
	return out, nil
}

// MetricNames reads the names of all series that had a sample lately. More than [MaxNames] are an error: half of them would only let what
// exists look as if it did not.
func (c *Client) MetricNames(ctx context.Context, now time.Time) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	values, _, _, err := c.api.LabelValues(ctx, "__name__", nil, now.Add(-namesFor), now, v1.WithLimit(MaxNames+1))
	switch {
	case err != nil:
		return nil, explained(ctx, err)
	case len(values) > MaxNames:
		return nil, fmt.Errorf("there are more than %d metrics", MaxNames)
	}
	out := make(map[string]bool, len(values))
	for _, v := range values {
		out[string(v)] = true
	}
	return out, nil
}

// Router says whether the requests of vLLM are there twice: from the engines, and with the label server from a router.
func (c *Client) Router(ctx context.Context, now time.Time) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	for _, sel := range []string{`vllm:num_requests_waiting{server!=""}`, `vllm:num_requests_waiting{server=""}`} {
		values, _, _, err := c.api.LabelValues(ctx, "__name__", []string{sel}, now.Add(-namesFor), now, v1.WithLimit(1))
		if err != nil {
			return false, explained(ctx, err)
		}
		if len(values) == 0 {
			return false, nil
		}
	}
	return true, nil
}

// explained is an error as people may read it.
func explained(ctx context.Context, err error) error {
	if ctx.Err() != nil { // the client's wording of its own deadline differs by version
		err = ctx.Err()
	}
	return errors.New(enrich.Explain("Prometheus", err))
}
