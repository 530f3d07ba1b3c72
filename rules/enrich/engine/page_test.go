package engine

import (
	"bytes"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// The reader and Prometheus' client library must read the same from recorded pages.
func TestRecordedPagesMatchTheClientLibrary(t *testing.T) {
	pages := recordedPages(t)
	for _, path := range pages {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		want, err := viaClientLibrary(page)
		if err != nil {
			continue // other tests cover invalid pages
		}
		wanted := map[string]bool{}
		for _, p := range want {
			wanted[p.metric] = true
		}
		r := newReader(wanted)
		for _, round := range []string{"first", "second"} {
			got, err := r.read(bytes.NewReader(page))
			if err != nil {
				t.Errorf("%s, %s time: %v", filepath.Base(path), round, err)
				continue
			}
			if g, w := byKey(got), byKey(want); !maps.EqualFunc(g, w, func(a, b float64) bool {
				return a == b || math.IsNaN(a) &&
					math.IsNaN(b)
			}) {
				t.Errorf("%s, %s time: %d series, want %d", filepath.Base(path), round, len(g), len(w))
			}
		}
	}
	t.Logf("%d pages", len(pages))
}

func recordedPages(t *testing.T) []string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; dir != filepath.Dir(dir); dir = filepath.Dir(dir) {
		pages, err := filepath.Glob(filepath.Join(dir, "shared", "data", "metrics", "*"))
		if err != nil {
			t.Fatal(err)
		}
		if pages = slices.DeleteFunc(pages, func(p string) bool {
			ext := filepath.Ext(p)
			return ext != ".txt" &&
				ext != ".prom"
		}); len(pages) > 0 {
			return pages
		}
	}
	t.Skip("SKIPPED: no ../shared/data/metrics beside the checkout; recorded pages were not read")
	return nil
}

func byKey(points []point) map[string]float64 {
	out := map[string]float64{}
	for _, p := range points {
		out[p.key] = p.value
	}
	return out
}

func viaClientLibrary(page []byte) ([]point, error) {
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(page))
	if err != nil {
		return nil, err
	}
	var out []point
	for name, f := range families {
		for _, m := range f.GetMetric() {
			labels := map[string]string{}
			for _, l := range m.GetLabel() {
				labels[l.GetName()] = l.GetValue()
			}
			add := func(metric string, le, v float64) { out = append(out, point{newLine(metric, labels, le), v}) }
			none := math.NaN()
			switch {
			case m.Histogram != nil:
				add(name+"_sum", none, m.GetHistogram().GetSampleSum())
				add(name+"_count", none, float64(m.GetHistogram().GetSampleCount()))
				for _, b := range m.GetHistogram().GetBucket() {
					add(name+"_bucket", b.GetUpperBound(), float64(b.GetCumulativeCount()))
				}
			case m.Summary != nil:
				add(name+"_sum", none, m.GetSummary().GetSampleSum())
				add(name+"_count", none, float64(m.GetSummary().GetSampleCount()))
			case m.Counter != nil:
				add(name, none, m.GetCounter().GetValue())
			case m.Gauge != nil:
				add(name, none, m.GetGauge().GetValue())
			case m.Untyped != nil:
				add(name, none, m.GetUntyped().GetValue())
			}
		}
	}
	return out, nil
}
