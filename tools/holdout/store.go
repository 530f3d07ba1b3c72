package main

import (
	"context"
	"math"
	"slices"
	"sort"
	"strconv"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// A store holds scraped samples in memory, as Prometheus's database does: a series that its target
// no longer exports gets a staleness marker.
type store struct {
	byName  map[string][]*series
	byKey   map[string]*series
	targets map[string]map[*series]bool // the series of each target's last scrape
	want    func(metric string) bool
}

type series struct {
	labels labels.Labels
	points []promql.FPoint
}

func newStore(want func(string) bool) *store {
	return &store{byName: map[string][]*series{}, byKey: map[string]*series{}, targets: map[string]map[*series]bool{},
		want: want}
}

// scrape records a target's page, or that the scrape failed if there are no families.
func (s *store) scrape(at time.Time, target string, set map[string]string, families []*dto.MetricFamily) {
	before, now := s.targets[target], map[*series]bool{}
	add := func(name string, with map[string]string, v float64) {
		x := s.find(name, with)
		x.points = append(x.points, promql.FPoint{T: at.UnixMilli(), F: v})
		now[x] = true
	}
	up := 0.0
	if families != nil {
		up = 1
	}
	add("up", set, up)
	for _, f := range families {
		if s.want(f.GetName()) {
			ingest(f, add)
		}
	}
	for x := range before {
		if !now[x] {
			x.points = append(x.points, promql.FPoint{T: at.UnixMilli(), F: math.Float64frombits(value.StaleNaN)})
		}
	}
	s.targets[target] = now
}

// ingest passes on every sample of a family as Prometheus ingests it.
func ingest(f *dto.MetricFamily, add func(name string, with map[string]string, v float64)) {
	name := f.GetName()
	for _, m := range f.Metric {
		with := map[string]string{}
		for _, l := range m.Label {
			with[l.GetName()] = l.GetValue()
		}
		switch {
		case m.Gauge != nil:
			add(name, with, m.Gauge.GetValue())
		case m.Counter != nil:
			add(name, with, m.Counter.GetValue())
		case m.Histogram != nil:
			add(name+"_sum", with, m.Histogram.GetSampleSum())
			add(name+"_count", with, float64(m.Histogram.GetSampleCount()))
			for _, b := range m.Histogram.Bucket {
				if !math.IsInf(b.GetUpperBound(), 1) {
					with["le"] = strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
					add(name+"_bucket", with, float64(b.GetCumulativeCount()))
				}
			}
			with["le"] = "+Inf"
			add(name+"_bucket", with, float64(m.Histogram.GetSampleCount()))
		}
	}
}

// vanish marks the series of targets that are no longer discovered as stale.
func (s *store) vanish(at time.Time, present map[string]bool) {
	for target, all := range s.targets {
		if present[target] {
			continue
		}
		for x := range all {
			x.points = append(x.points, promql.FPoint{T: at.UnixMilli(), F: math.Float64frombits(value.StaleNaN)})
		}
		delete(s.targets, target)
	}
}

func (s *store) find(name string, with map[string]string) *series {
	b := labels.NewScratchBuilder(len(with) + 1)
	b.Add(labels.MetricName, name)
	for k, v := range with {
		if v != "" {
			b.Add(k, v)
		}
	}
	b.Sort()
	set := b.Labels()
	key := string(set.Bytes(nil))
	x := s.byKey[key]
	if x == nil {
		x = &series{labels: set}
		s.byKey[key] = x
		s.byName[name] = append(s.byName[name], x)
	}
	return x
}

// Querier implements storage.Queryable.
func (s *store) Querier(from, to int64) (storage.Querier, error) { return querier{s, from, to}, nil }

type querier struct {
	*store
	from, to int64
}

// Close implements storage.Querier.
func (querier) Close() error { return nil }

// LabelValues implements storage.Querier. The bot does not ask for label values while it gathers
// evidence.
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string,
	annotations.Annotations, error,
) {
	return nil, nil, nil
}

// LabelNames implements storage.Querier.
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string,
	annotations.Annotations, error,
) {
	return nil, nil, nil
}

// Select implements storage.Querier.
func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var candidates []*series
	for _, m := range matchers {
		if m.Name == labels.MetricName && m.Type == labels.MatchEqual {
			candidates = q.byName[m.Value]
		}
	}
	if candidates == nil && !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
		return m.Name == labels.MetricName && m.Type == labels.MatchEqual
	}) {
		for _, all := range q.byName {
			candidates = append(candidates, all...)
		}
	}
	var out []storage.Series
	for _, x := range candidates {
		if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(x.labels.Get(m.Name)) }) {
			continue
		}
		i := sort.Search(len(x.points), func(i int) bool { return x.points[i].T >= q.from })
		j := sort.Search(len(x.points), func(i int) bool { return x.points[i].T > q.to })
		if i < j {
			out = append(out, promql.NewStorageSeries(promql.Series{Metric: x.labels, Floats: x.points[i:j]}))
		}
	}
	slices.SortFunc(out, func(a, b storage.Series) int { return labels.Compare(a.Labels(), b.Labels()) })
	return &seriesSet{all: out, at: -1}
}

type seriesSet struct {
	all []storage.Series
	at  int
}

// Next implements storage.SeriesSet.
func (s *seriesSet) Next() bool { s.at++; return s.at < len(s.all) }

// At implements storage.SeriesSet.
func (s *seriesSet) At() storage.Series { return s.all[s.at] }

// Err implements storage.SeriesSet.
func (*seriesSet) Err() error { return nil }

// Warnings implements storage.SeriesSet.
func (*seriesSet) Warnings() annotations.Annotations { return nil }
