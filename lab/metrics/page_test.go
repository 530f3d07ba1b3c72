package metrics_test

import (
	"testing"

	"paramedic/lab/metrics"
	"paramedic/lab/metrics/metricstest"
)

// A scrape renames a label of the page that the target has, too, or keeps it with honor_labels.
func TestPageIsReadAsItWasWritten(t *testing.T) {
	h := metrics.NewHistogram([]float64{1, 10})
	for _, v := range []float64{0, 1, 2, 100} {
		h.Observe(v)
	}
	for _, honor := range []bool{false, true} {
		p := metrics.NewPage(func(metric string) bool { return metric == "hidden" })
		p.Gauge("hidden", "No scrape sees it.", 1)
		p.Common("pod", "a")
		p.Created(1e9)
		p.Counter("requests_total", "Requests.", 7)
		p.Histogram("seconds", "Times.", h)
		metrics.Relabel(p.Families(), map[string]string{"pod": "exporter", "node": "n"}, honor)
		body, err := metrics.Encode(p.Families())
		if err != nil {
			t.Fatal(err)
		}
		page := metricstest.Parse(t, body)
		if len(page) != 4 || page["requests_created"].GetMetric()[0].GetGauge().GetValue() != 1e9 {
			t.Errorf("the page is\n%s", body)
		}
		got := metricstest.Labels(page["requests_total"].GetMetric()[0])
		if want := map[bool]string{false: "exporter", true: "a"}[honor]; got["pod"] != want || got["node"] != "n" || honor == (got["exported_pod"] == "a") {
			t.Errorf("with honor %v the labels are %v", honor, got)
		}
	}
	if h.Count() != 4 || h.Sum() != 103 {
		t.Errorf("%d observations of %g together", h.Count(), h.Sum())
	}
}

func TestPageDoesNotFollowItsCounters(t *testing.T) {
	h := metrics.NewHistogram([]float64{1, 10})
	h.Observe(1)
	p := metrics.NewPage(func(string) bool { return false })
	p.Histogram("seconds", "Times.", h)
	h.Observe(20)
	if count, sum := metricstest.Observed(p.Families(), "seconds"); count != 1 || sum != 1 {
		t.Errorf("the page has %g observations of %g together, which came later", count, sum)
	}
	m := p.Families()[0].Metric[0].Histogram
	if m.Bucket[0].GetCumulativeCount() != 1 || m.Bucket[1].GetCumulativeCount() != 1 {
		t.Errorf("the buckets are %v", m.Bucket)
	}
}
