package lab

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// A page builds an exposition: families in the order of their first sample.
type page struct {
	families []*dto.MetricFamily
	byName   map[string]*dto.MetricFamily
	common   []string // label pairs of every sample
	created  float64  // value of the Python client's _created gauges; 0: none
}

func newPage(common ...string) *page {
	return &page{byName: map[string]*dto.MetricFamily{}, common: common}
}

func (p *page) add(name, help string, kind dto.MetricType, labels []string) *dto.Metric {
	f := p.byName[name]
	if f == nil {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
		p.byName[name] = f
		p.families = append(p.families, f)
	}
	m := &dto.Metric{Label: make([]*dto.LabelPair, 0, (len(p.common)+len(labels))/2)}
	for _, pairs := range [2][]string{p.common, labels} {
		for i := 0; i+1 < len(pairs); i += 2 {
			m.Label = append(m.Label, &dto.LabelPair{Name: &pairs[i], Value: &pairs[i+1]})
		}
	}
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	f.Metric = append(f.Metric, m)
	return m
}

func (p *page) gauge(name, help string, v float64, labels ...string) {
	p.add(name, help, dto.MetricType_GAUGE, labels).Gauge = &dto.Gauge{Value: &v}
}

func (p *page) counter(name, help string, v float64, labels ...string) {
	p.add(name, help, dto.MetricType_COUNTER, labels).Counter = &dto.Counter{Value: &v}
	if p.created != 0 {
		p.gauge(strings.TrimSuffix(name, "_total")+"_created", help, p.created, labels...)
	}
}

func (p *page) histogram(name, help string, h *histogram, labels ...string) {
	out := &dto.Histogram{SampleCount: &h.count, SampleSum: &h.sum}
	var below uint64
	for i := range h.edges {
		below += h.counts[i]
		n := below
		out.Bucket = append(out.Bucket, &dto.Bucket{UpperBound: &h.edges[i], CumulativeCount: &n})
	}
	// The page must not change while the engine continues.
	sum, count := h.sum, h.count
	out.SampleSum, out.SampleCount = &sum, &count
	p.add(name, help, dto.MetricType_HISTOGRAM, labels).Histogram = out
	if p.created != 0 {
		p.gauge(name+"_created", help, p.created, labels...)
	}
}

// encode writes families in the text format.
func encode(families []*dto.MetricFamily) ([]byte, error) {
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.GetName(), err)
		}
	}
	return b.Bytes(), nil
}

// relabel adds a target's labels as a scrape does. A label of the page with the same name becomes
// exported_<name>; with honor, it stays and the target's label is dropped.
func relabel(families []*dto.MetricFamily, target map[string]string, honor bool) {
	names := make([]string, 0, len(target))
	for n := range target {
		names = append(names, n)
	}
	slices.Sort(names)
	for _, f := range families {
		for _, m := range f.Metric {
			for _, n := range names {
				i := slices.IndexFunc(m.Label, func(l *dto.LabelPair) bool { return l.GetName() == n })
				if i >= 0 && honor {
					continue
				}
				if i >= 0 {
					exported := "exported_" + n
					m.Label[i] = &dto.LabelPair{Name: &exported, Value: m.Label[i].Value}
				}
				name, value := n, target[n]
				m.Label = append(m.Label, &dto.LabelPair{Name: &name, Value: &value})
			}
		}
	}
}
