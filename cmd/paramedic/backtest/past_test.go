package backtest

import (
	"context"
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"

	"paramedic/lab/alerting"
	"paramedic/lab/drill"
)

// A past holds samples in memory, for Prometheus' own engine and behind its API.
type past struct {
	byName map[string]map[string]*promql.Series
	rules  []alerting.Rule
	engine *promql.Engine

	mu      sync.Mutex
	queries int
}

func newPast() *past {
	return &past{byName: map[string]map[string]*promql.Series{}, engine: promql.NewEngine(promql.EngineOpts{MaxSamples: 5e7,
		Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})}
}

func (p *past) add(name string, l map[string]string, at time.Time, v float64) {
	all := maps.Clone(l)
	if all == nil {
		all = map[string]string{}
	}
	all["__name__"] = name
	set := labels.FromMap(all)
	if p.byName[name] == nil {
		p.byName[name] = map[string]*promql.Series{}
	}
	key := set.String()
	s := p.byName[name][key]
	if s == nil {
		s = &promql.Series{Metric: set}
		p.byName[name][key] = s
	}
	s.Floats = append(s.Floats, promql.FPoint{T: at.UnixMilli(), F: v})
}

// scrapeEvery is the interval of scrapes, and of the evaluations that are recorded.
const scrapeEvery = 15 * time.Second

// live records a fleet with a fault: 25 healthy minutes, ten of trouble, and some after it.
func (p *past) live(fault string, start time.Time) error {
	s, err := drill.New(fault, 7)
	if err != nil {
		return err
	}
	s = s.Later(20 * time.Minute)
	s.Config.Start = start
	s.Faults[0].For = 10 * time.Minute
	f, err := s.Build()
	if err != nil {
		return err
	}
	ruler := alerting.NewRuler(f, "")
	for at := time.Duration(0); at <= 50*time.Minute; at += alerting.ScrapeInterval {
		f.Advance(start.Add(at))
		alerts := ruler.Evaluate()
		if at%scrapeEvery != 0 {
			continue
		}
		now, _, pages := f.Scrape()
		for _, page := range pages {
			up := 0.0
			if page.Families != nil {
				up = 1
			}
			p.add("up", page.Target.Labels, now, up)
			for _, family := range page.Families {
				p.scrape(family, now)
			}
		}
		for _, a := range alerts {
			if a.EndsAt.IsZero() {
				l := maps.Clone(a.Labels)
				l["alertstate"] = "firing"
				p.add("ALERTS", l, now, 1)
			}
		}
	}
	p.rules = alerting.Rules(f.Config().Kind)
	return nil
}

func (p *past) scrape(f *dto.MetricFamily, at time.Time) {
	for _, m := range f.Metric {
		l := map[string]string{}
		for _, pair := range m.Label {
			l[pair.GetName()] = pair.GetValue()
		}
		switch {
		case m.Gauge != nil:
			p.add(f.GetName(), l, at, m.Gauge.GetValue())
		case m.Counter != nil:
			p.add(f.GetName(), l, at, m.Counter.GetValue())
		case m.Histogram != nil:
			p.add(f.GetName()+"_sum", l, at, m.Histogram.GetSampleSum())
			p.add(f.GetName()+"_count", l, at, float64(m.Histogram.GetSampleCount()))
			for _, b := range append(m.Histogram.Bucket, &dto.Bucket{UpperBound: new(math.Inf(1)), CumulativeCount: m.Histogram.SampleCount}) {
				with := maps.Clone(l)
				with["le"] = strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
				p.add(f.GetName()+"_bucket", with, at, float64(b.GetCumulativeCount()))
			}
		}
	}
}

// serve starts the API.
func (p *past) serve(t *testing.T) string {
	s := httptest.NewServer(p)
	t.Cleanup(s.Close)
	return s.URL
}

// ServeHTTP implements http.Handler.
func (p *past) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.queries++
	p.mu.Unlock()
	w.Header().Set("Content-Type", "application/json")
	if r.URL.Path == "/api/v1/rules" {
		_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": p.ruleGroups()})
		return
	}
	res, err := p.query(r)
	if err != nil {
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"status": "error", "errorType": "bad_data", "error": err.Error()})
		return
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success",
		"data": map[string]any{"resultType": res.Type(), "result": res}})
}

func (p *past) query(r *http.Request) (parser.Value, error) {
	at := func(name string) time.Time {
		f, err := strconv.ParseFloat(r.FormValue(name), 64)
		if err != nil {
			return time.Time{}
		}
		return time.UnixMilli(int64(math.Round(f * 1000))).UTC()
	}
	var q promql.Query
	var err error
	if r.URL.Path == "/api/v1/query" {
		q, err = p.engine.NewInstantQuery(r.Context(), p, nil, r.FormValue("query"), at("time"))
	} else {
		step, convErr := strconv.ParseFloat(r.FormValue("step"), 64)
		if convErr != nil {
			return nil, convErr
		}
		q, err = p.engine.NewRangeQuery(r.Context(), p, nil, r.FormValue("query"), at("start"), at("end"), time.Duration(step*float64(time.Second)))
	}
	if err != nil {
		return nil, err
	}
	res := q.Exec(r.Context())
	return res.Value, res.Err
}

func (p *past) ruleGroups() any {
	var list []map[string]any
	for _, r := range p.rules {
		list = append(list, map[string]any{"type": "alerting", "name": r.Name, "query": r.Expr, "duration": r.For.Seconds(),
			"labels": map[string]string{"severity": r.Severity}, "annotations": map[string]string{}, "alerts": []any{},
			"health": "ok", "state": "inactive", "lastEvaluation": "2026-11-21T03:00:00Z", "evaluationTime": 0.1})
	}
	return map[string]any{"groups": []any{map[string]any{"name": "lab", "file": "lab.yml", "interval": scrapeEvery.Seconds(),
		"rules": list}}}
}

// Querier implements storage.Queryable.
func (p *past) Querier(mint, maxt int64) (storage.Querier, error) { return querier{p, mint, maxt}, nil }

type querier struct {
	*past
	from, to int64
}

func (querier) Close() error { return nil }
func (querier) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (querier) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (q querier) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	var names []string
	for _, m := range matchers {
		if m.Name == "__name__" && m.Type == labels.MatchEqual {
			names = []string{m.Value}
		}
	}
	if names == nil {
		names = slices.Sorted(maps.Keys(q.byName))
	}
	var out []storage.Series
	for _, name := range names {
		for _, key := range slices.Sorted(maps.Keys(q.byName[name])) {
			s := q.byName[name][key]
			if slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Metric.Get(m.Name)) }) {
				continue
			}
			i, _ := slices.BinarySearchFunc(s.Floats, q.from, func(x promql.FPoint, t int64) int { return int(x.T - t) })
			j, _ := slices.BinarySearchFunc(s.Floats, q.to+1, func(x promql.FPoint, t int64) int { return int(x.T - t) })
			if i < j {
				out = append(out, promql.NewStorageSeries(promql.Series{Metric: s.Metric, Floats: s.Floats[i:j]}))
			}
		}
	}
	return &seriesSet{all: out, at: -1}
}

type seriesSet struct {
	all []storage.Series
	at  int
}

func (s *seriesSet) Next() bool                      { s.at++; return s.at < len(s.all) }
func (s *seriesSet) At() storage.Series              { return s.all[s.at] }
func (*seriesSet) Err() error                        { return nil }
func (*seriesSet) Warnings() annotations.Annotations { return nil }
