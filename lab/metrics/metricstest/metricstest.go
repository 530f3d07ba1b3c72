// Package metricstest reads and compares pages, for tests.
package metricstest

import (
	"bytes"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// Parse returns the families of a page in the text format, by name.
func Parse(t testing.TB, body []byte) map[string]*dto.MetricFamily {
	t.Helper()
	p := expfmt.NewTextParser(model.UTF8Validation)
	families, err := p.TextToMetricFamilies(bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// Labels returns the labels of a sample.
func Labels(m *dto.Metric) map[string]string {
	out := map[string]string{}
	for _, l := range m.Label {
		out[l.GetName()] = l.GetValue()
	}
	return out
}

// Sum returns the sum of a gauge's or a counter's samples that have the labels, which are
// alternating names and values. The families may be of several pages.
func Sum(families []*dto.MetricFamily, name string, labels ...string) float64 {
	sum := 0.0
	for _, m := range samples(families, name) {
		of, same := Labels(m), true
		for i := 0; i < len(labels); i += 2 {
			same = same && of[labels[i]] == labels[i+1]
		}
		if same {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}

// Observed returns the number and the sum of a histogram's observations. The families may be of
// several pages.
func Observed(families []*dto.MetricFamily, name string) (count, sum float64) {
	for _, m := range samples(families, name) {
		count += float64(m.GetHistogram().GetSampleCount())
		sum += m.GetHistogram().GetSampleSum()
	}
	return count, sum
}

func samples(families []*dto.MetricFamily, name string) []*dto.Metric {
	var out []*dto.Metric
	for _, f := range families {
		if f.GetName() == name {
			out = append(out, f.Metric...)
		}
	}
	return out
}

// Compare reports differences between a family and the recorded one: its type, its labels and its
// buckets.
func Compare(t testing.TB, name string, got, want *dto.MetricFamily) {
	t.Helper()
	if got == nil {
		t.Errorf("%s is missing", name)
		return
	}
	if got.GetType() != want.GetType() {
		t.Errorf("%s is a %v, want %v", name, got.GetType(), want.GetType())
	}
	if g, w := labelNames(got.Metric[0]), labelNames(want.Metric[0]); g != w {
		t.Errorf("%s has labels %s, want %s", name, g, w)
	}
	if g, w := edges(got.Metric[0]), edges(want.Metric[0]); !slices.EqualFunc(g, w,
		func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Abs(b) || a == b }) {
		t.Errorf("%s has bucket edges %v, want %v", name, g, w)
	}
}

func edges(m *dto.Metric) []float64 {
	var out []float64
	for _, b := range m.GetHistogram().GetBucket() {
		out = append(out, b.GetUpperBound())
	}
	return out
}

func labelNames(m *dto.Metric) string { return strings.Join(slices.Sorted(maps.Keys(Labels(m))), ",") }
