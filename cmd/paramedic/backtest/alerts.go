package backtest

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"
)

const (
	// piece is the longest part of the window that is read at once.
	piece = time.Hour
	// shortest is the shortest part that a crowded window is divided into.
	shortest = time.Minute
	// mostSamples limits the samples of one answer, unless a minute has more.
	mostSamples = 100_000
	// usualStep is the interval between evaluations if neither the rule nor its samples show it.
	usualStep = time.Minute
)

// An alert is one interval in which an alert fired.
type alert struct {
	Labels   map[string]string `json:"labels"`
	StartsAt time.Time         `json:"starts_at"`
	EndsAt   time.Time         `json:"ends_at,omitzero"` // zero while it fires
	// Last is the last evaluation in which it fired. Step is the interval between evaluations.
	Last time.Time     `json:"last"`
	Step time.Duration `json:"step_ns"`
}

// An event is the start or the end of an alert.
type event struct {
	at    time.Time
	ends  bool
	print string // the alert's fingerprint
	alert alert
}

// A history reads the ALERTS series, and rebuilds the alerts from its samples. Only an alert that
// fires at the end of a piece is kept for the next one.
type history struct {
	api    v1.API
	match  string // the selector of the series
	rules  rulebook
	active map[string]*alert // by fingerprint
	gaps   gaps
}

// gaps holds the smallest gap between two samples of one alert so far, by the name of its rule.
type gaps map[string]time.Duration

// selector returns the series of the alerts that fired in a cluster. A Prometheus of one cluster
// sets no label cluster.
func selector(cluster string) string {
	if cluster == "" {
		return `ALERTS{alertstate="firing"}`
	}
	return `ALERTS{alertstate="firing",cluster=~` + strconv.Quote(regexp.QuoteMeta(cluster)+"|") + `}`
}

// span returns how much of the time after a moment can be read at once: at most as much as asked,
// and half of it as long as it has too many samples.
func (h *history) span(ctx context.Context, from time.Time, most time.Duration) (time.Duration, error) {
	for span := most; ; span = max(shortest, (span / 2).Truncate(time.Second)) {
		query := fmt.Sprintf("sum(count_over_time(%s[%ds]))", h.match, int(span.Seconds()))
		got, _, _, err := h.api.Query(ctx, query, from.Add(span))
		if err != nil {
			return 0, fmt.Errorf("counting the samples of ALERTS: %w", err)
		}
		vector, ok := got.(model.Vector)
		if !ok || len(vector) == 0 || vector[0].Value <= mostSamples || span <= shortest {
			return span, nil
		}
	}
}

// read returns what started and ended after a moment and until another, in order of time.
func (h *history) read(ctx context.Context, from, to time.Time) ([]event, error) {
	got, _, _, err := h.api.Query(ctx, fmt.Sprintf("%s[%ds]", h.match, int(to.Sub(from).Seconds())), to)
	if err != nil {
		return nil, fmt.Errorf("reading the ALERTS series: %w", err)
	}
	matrix, ok := got.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("reading the ALERTS series: the answer is a %s, and not a matrix", got.Type())
	}
	return h.advance(matrix, from, to), nil
}

// advance continues the alerts with the samples of a piece.
func (h *history) advance(matrix model.Matrix, from, to time.Time) []event {
	var out []event
	end := func(print string, a *alert) {
		a.EndsAt = a.Last.Add(a.Step)
		out = append(out, event{at: a.EndsAt, ends: true, print: print, alert: *a})
		delete(h.active, print)
	}
	h.gaps.learn(matrix)
	for _, series := range matrix {
		labels := labelsOf(series.Metric)
		print := fingerprint(labels)
		step := h.step(labels)
		for _, point := range series.Values {
			at := point.Timestamp.Time().UTC()
			if !at.After(from) { // Prometheus 2 includes the sample at the edge
				continue
			}
			a := h.active[print]
			if a != nil && at.Sub(a.Last) > a.Step+a.Step/2 {
				end(print, a)
				a = nil
			}
			if a == nil {
				a = &alert{Labels: labels, StartsAt: at, Step: step}
				h.active[print] = a
				out = append(out, event{at: at, print: print, alert: *a})
			}
			a.Last = at
		}
	}
	for print, a := range h.active {
		if !a.Last.Add(a.Step + a.Step/2).After(to) {
			end(print, a)
		}
	}
	slices.SortFunc(out, func(x, y event) int {
		return cmp.Or(x.at.Compare(y.at), boolFirst(x.ends, y.ends), strings.Compare(x.print, y.print))
	})
	return out
}

func boolFirst(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// step returns the interval between the evaluations of an alert's rule. It is that of today's rule,
// or the smallest gap between its samples if that is longer: the rule was evaluated less often.
func (h *history) step(labels map[string]string) time.Duration {
	r, _ := h.rules.of(labels)
	return cmp.Or(max(r.Interval, h.gaps[labels["alertname"]]), usualStep)
}

// learn takes the gaps of more samples.
func (g gaps) learn(matrix model.Matrix) {
	for _, series := range matrix {
		name := string(series.Metric["alertname"])
		for i := 1; i < len(series.Values); i++ {
			gap := series.Values[i].Timestamp.Sub(series.Values[i-1].Timestamp)
			if have := g[name]; gap > 0 && (have == 0 || gap < have) {
				g[name] = gap
			}
		}
	}
}

// labelsOf returns the labels of the alert that a series of ALERTS is about.
func labelsOf(m model.Metric) map[string]string {
	out := make(map[string]string, len(m))
	for k, v := range m {
		if k != model.MetricNameLabel && k != "alertstate" {
			out[string(k)] = string(v)
		}
	}
	return out
}

// fingerprint returns Alertmanager's hash of a label set.
func fingerprint(labels map[string]string) string {
	return model.Fingerprint(model.LabelsToSignature(labels)).String()
}
