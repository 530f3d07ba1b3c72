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
	targets map[string]*target
	want    func(metric string) bool
	scrapes uint64 // so far
	key     []byte
}

type series struct {
	labels labels.Labels
	points []promql.FPoint
	scrape uint64 // the last one that had a sample of it
}

// A target holds the series of a scraped page.
type target struct {
	// cells holds the series of a sample by its metric and its labels on the page: a histogram has
	// several.
	cells map[string][]*series
	last  []*series // of the last scrape
}

func newStore(want func(string) bool) *store {
	return &store{byName: map[string][]*series{}, byKey: map[string]*series{}, targets: map[string]*target{}, want: want}
}

// scrape records a target's page, or that the scrape failed if there are no families. The labels of
// a sample are those that relabel returns for its labels on the page.
func (s *store) scrape(at time.Time, key string, set map[string]string, families []*dto.MetricFamily,
	relabel func(metric string, pairs []*dto.LabelPair) map[string]string,
) {
	t := s.targets[key]
	if t == nil {
		t = &target{cells: map[string][]*series{}}
		s.targets[key] = t
	}
	before := t.last
	t.last = make([]*series, 0, len(before)+1)
	s.scrapes++
	add := func(x *series, v float64) {
		x.points = append(x.points, promql.FPoint{T: at.UnixMilli(), F: v})
		if x.scrape != s.scrapes {
			x.scrape = s.scrapes
			t.last = append(t.last, x)
		}
	}
	up := 0.0
	if families != nil {
		up = 1
	}
	add(s.find("up", set), up)
	for _, f := range families {
		if !s.want(f.GetName()) {
			continue
		}
		for _, m := range f.Metric {
			record(m, s.cell(t, f.GetName(), m, relabel), add)
		}
	}
	for _, x := range before {
		if x.scrape != s.scrapes {
			x.end(at)
		}
	}
}

// end marks a series as stale.
func (x *series) end(at time.Time) {
	x.points = append(x.points, promql.FPoint{T: at.UnixMilli(), F: math.Float64frombits(value.StaleNaN)})
}

// cell returns the series of a sample as Prometheus ingests it: of a histogram the sum, the count
// and the buckets.
func (s *store) cell(t *target, name string, m *dto.Metric,
	relabel func(metric string, pairs []*dto.LabelPair) map[string]string,
) []*series {
	s.key = append(s.key[:0], name...)
	for _, l := range m.Label {
		s.key = append(append(s.key, 0xff), l.GetName()...)
		s.key = append(append(s.key, 0xff), l.GetValue()...)
	}
	buckets := finite(m.GetHistogram())
	have, ok := t.cells[string(s.key)]
	if ok && (m.Histogram == nil || len(have) == len(buckets)+3) {
		return have
	}
	key, with := string(s.key), relabel(name, m.Label)
	if m.Histogram == nil {
		have = []*series{s.find(name, with)}
	} else {
		have = []*series{s.find(name+"_sum", with), s.find(name+"_count", with)}
		for _, b := range buckets {
			with["le"] = strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
			have = append(have, s.find(name+"_bucket", with))
		}
		with["le"] = "+Inf"
		have = append(have, s.find(name+"_bucket", with))
	}
	t.cells[key] = have
	return have
}

// finite returns the buckets of a histogram without the last, which has no bound.
func finite(h *dto.Histogram) []*dto.Bucket {
	all := h.GetBucket()
	if n := len(all); n > 0 && math.IsInf(all[n-1].GetUpperBound(), 1) {
		return all[:n-1]
	}
	return all
}

// record passes on the values of a sample with their series.
func record(m *dto.Metric, of []*series, add func(*series, float64)) {
	switch {
	case m.Gauge != nil:
		add(of[0], m.Gauge.GetValue())
	case m.Counter != nil:
		add(of[0], m.Counter.GetValue())
	case m.Histogram != nil:
		count := float64(m.Histogram.GetSampleCount())
		add(of[0], m.Histogram.GetSampleSum())
		add(of[1], count)
		for i, b := range finite(m.Histogram) {
			add(of[i+2], float64(b.GetCumulativeCount()))
		}
		add(of[len(of)-1], count)
	}
}

// vanish marks the series of targets that are no longer discovered as stale.
func (s *store) vanish(at time.Time, present map[string]bool) {
	for key, t := range s.targets {
		if present[key] {
			continue
		}
		for _, x := range t.last {
			x.end(at)
		}
		delete(s.targets, key)
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
