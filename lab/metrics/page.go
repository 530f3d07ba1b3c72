package metrics

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"strings"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// A Page builds an exposition: families in the order of their first sample. It leaves out the
// metrics that its hides function names.
type Page struct {
	families []*dto.MetricFamily
	byName   map[string]*dto.MetricFamily // nil for a hidden metric
	common   []*dto.LabelPair             // of every sample; shared, so that no caller may change one
	created  float64                      // value of the Python client's _created gauges; 0: none
	hides    func(metric string) bool
}

// NewPage returns a page without samples. It leaves out the metrics for which hides returns true;
// hides must not be nil.
func NewPage(hides func(metric string) bool) *Page {
	return &Page{families: []*dto.MetricFamily{}, byName: map[string]*dto.MetricFamily{}, hides: hides}
}

// Common sets the labels of all samples that follow, as alternating names and values.
func (p *Page) Common(labels ...string) { p.common = labelPairs(labels) }

// Created adds a _created gauge to each counter and histogram that follows, as the Python client
// does: the Unix time in seconds at which the process began to count. 0 ends that.
func (p *Page) Created(at float64) { p.created = at }

// Families returns the page's families. It is not nil. The caller may change all but the label
// pairs.
func (p *Page) Families() []*dto.MetricFamily { return p.families }

// labelPairs returns the pairs of alternating names and values.
func labelPairs(of []string) []*dto.LabelPair {
	pairs := make([]dto.LabelPair, len(of)/2)
	out := make([]*dto.LabelPair, len(pairs))
	for i := range pairs {
		out[i] = &pairs[i]
		out[i].Name, out[i].Value = &of[2*i], &of[2*i+1]
	}
	return out
}

// family returns the family of a name, or nil if it is hidden.
func (p *Page) family(name, help string, kind dto.MetricType) *dto.MetricFamily {
	f, known := p.byName[name]
	if known {
		return f
	}
	if !p.hides(name) {
		f = &dto.MetricFamily{Name: &name, Help: &help, Type: &kind}
		p.families = append(p.families, f)
	}
	p.byName[name] = f
	return f
}

// targetLabels is the usual number of labels that a scrape adds.
const targetLabels = 8

// add adds a sample without a value to a family.
func (p *Page) add(f *dto.MetricFamily, labels []string) *dto.Metric {
	m := &dto.Metric{Label: make([]*dto.LabelPair, 0, len(p.common)+len(labels)/2+targetLabels)}
	m.Label = append(append(m.Label, p.common...), labelPairs(labels)...)
	slices.SortFunc(m.Label, func(a, b *dto.LabelPair) int { return strings.Compare(a.GetName(), b.GetName()) })
	f.Metric = append(f.Metric, m)
	return m
}

// Bool returns the value of a gauge that is 1 if v holds and 0 otherwise.
func Bool(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// Gauge adds a sample of a gauge, with labels as alternating names and values besides the common
// ones. The page keeps their slice.
func (p *Page) Gauge(name, help string, v float64, labels ...string) {
	if f := p.family(name, help, dto.MetricType_GAUGE); f != nil {
		p.add(f, labels).Gauge = &dto.Gauge{Value: &v}
	}
}

// Counter adds a sample of a counter. Its name ends in _total.
func (p *Page) Counter(name, help string, v float64, labels ...string) {
	if f := p.family(name, help, dto.MetricType_COUNTER); f != nil {
		p.add(f, labels).Counter = &dto.Counter{Value: &v}
	}
	if p.created != 0 {
		p.Gauge(strings.TrimSuffix(name, "_total")+"_created", help, p.created, labels...)
	}
}

// Histogram adds the present state of a histogram.
func (p *Page) Histogram(name, help string, h *Histogram, labels ...string) {
	if f := p.family(name, help, dto.MetricType_HISTOGRAM); f != nil {
		p.add(f, labels).Histogram = h.export()
	}
	if p.created != 0 {
		p.Gauge(name+"_created", help, p.created, labels...)
	}
}

// Encode writes families in the text format.
func Encode(families []*dto.MetricFamily) ([]byte, error) {
	var b bytes.Buffer
	for _, f := range families {
		if _, err := expfmt.MetricFamilyToText(&b, f); err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.GetName(), err)
		}
	}
	return b.Bytes(), nil
}

// Relabel adds a target's labels as a scrape does. A label of the page with the same name becomes
// exported_<name>; with honor, it stays and the target's label is dropped.
func Relabel(families []*dto.MetricFamily, target map[string]string, honor bool) {
	type label struct {
		name     string
		exported *string // the name of a label of the page with this name
		pair     *dto.LabelPair
	}
	added := make([]label, 0, len(target))
	for _, name := range slices.Sorted(maps.Keys(target)) {
		exported := "exported_" + name
		added = append(added, label{name, &exported, labelPairs([]string{name, target[name]})[0]})
	}
	for _, f := range families {
		for _, m := range f.Metric {
			for _, l := range added {
				i := slices.IndexFunc(m.Label, func(of *dto.LabelPair) bool { return of.GetName() == l.name })
				if i >= 0 && honor {
					continue
				}
				if i >= 0 {
					m.Label[i] = &dto.LabelPair{Name: l.exported, Value: m.Label[i].Value}
				}
				m.Label = append(m.Label, l.pair)
			}
		}
	}
}
