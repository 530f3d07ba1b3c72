package alerting

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/drill"
	"paramedic/lab/engine"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/util/annotations"
)

// A rule that fires in Prometheus and not in the lab, or the reverse, is scored wrongly. Here
// Prometheus's engine evaluates the expressions on the Ruler's samples, at many moments of faults
// that make most rules fire.
func TestRulesEvaluateAsInPrometheus(t *testing.T) {
	faults := []string{lab.KVExhaustion, lab.GPUFault, lab.ClientCancellations, lab.EngineHang, lab.GatewayFailure, lab.OOMKilled,
		lab.PrefixCacheCollapse}
	if testing.Short() {
		faults = faults[:2]
	}
	for _, kind := range engine.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			t.Parallel()
			fired := map[string]bool{}
			for _, fault := range faults {
				agree(t, kind, fault, fired)
			}
			var idle []string
			for _, r := range Rules(kind) {
				if !fired[r.Name] {
					idle = append(idle, r.Name)
				}
			}
			if len(idle) > len(Rules(kind))/3 && !testing.Short() {
				t.Errorf("too few rules fired to compare: never %v", idle)
			}
		})
	}
}

func agree(t *testing.T, kind engine.Kind, fault string, fired map[string]bool) {
	t.Helper()
	s, err := drill.New(fault, 3)
	if err != nil {
		t.Fatal(err)
	}
	f, err := s.As(kind).Build()
	if err != nil {
		t.Fatal(err)
	}
	r := NewRuler(f, "")
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1e7, Timeout: time.Minute, LookbackDelta: ScrapeInterval,
		Parser: parser.NewParser(parser.Options{})})
	t.Cleanup(func() { _ = engine.Close() })
	for at := time.Duration(0); at <= 12*time.Minute; at += ScrapeInterval {
		f.Advance(f.Start().Add(at))
		r.scrape()
		if at < 6*time.Minute || at%(100*time.Second) != 0 {
			continue
		}
		for _, rule := range Rules(kind) {
			q, err := engine.NewInstantQuery(t.Context(), scraped{r.history}, nil, rule.Expr, moment(r.history, r.history.last))
			if err != nil {
				t.Fatalf("%s: %v", rule.Name, err)
			}
			res := q.Exec(t.Context())
			vec, err := res.Vector()
			if err != nil {
				t.Fatalf("%s: %v", rule.Name, err)
			}
			theirs, ours := map[string]bool{}, map[string]bool{}
			for _, x := range vec {
				m := x.Metric.Map()
				delete(m, "__name__")
				theirs[labelKey(m)] = true
			}
			for _, x := range rule.eval(r.history) {
				ours[labelKey(x.labels)] = true
			}
			q.Close()
			fired[rule.Name] = fired[rule.Name] || len(ours) > 0
			if !maps.Equal(theirs, ours) {
				t.Errorf("%s, %s after %s: %s: Prometheus %v, the lab %v", kind, fault, at, rule.Name, readable(theirs), readable(ours))
			}
		}
	}
}

// readable joins label keys for an error message.
func readable(m map[string]bool) string {
	return strings.ReplaceAll(fmt.Sprint(slices.Sorted(maps.Keys(m))), "\xff", " ")
}

func moment(h *history, at float64) time.Time {
	return time.UnixMilli(int64(math.Round((h.epoch + at) * 1000))).UTC()
}

// scraped lets Prometheus's engine read a history.
type scraped struct{ *history }

func (s scraped) Querier(_, _ int64) (storage.Querier, error) { return s, nil }
func (scraped) Close() error                                  { return nil }
func (scraped) LabelValues(context.Context, string, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}
func (scraped) LabelNames(context.Context, *storage.LabelHints, ...*labels.Matcher) ([]string, annotations.Annotations, error) {
	return nil, nil, nil
}

func (s scraped) Select(_ context.Context, _ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
	name := ""
	for _, m := range matchers {
		if m.Name == "__name__" {
			name = m.Value
		}
	}
	var out []storage.Series
	var list []*series
	if f := s.series[name]; f != nil {
		list = f.list
	}
	for _, x := range list {
		all := maps.Clone(x.labels)
		all["__name__"] = name
		set := labels.FromMap(all)
		if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(set.Get(m.Name)) }) {
			one := promql.Series{Metric: set}
			for _, p := range x.points {
				one.Floats = append(one.Floats, promql.FPoint{T: moment(s.history, p.at).UnixMilli(), F: p.value})
			}
			out = append(out, promql.NewStorageSeries(one))
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
