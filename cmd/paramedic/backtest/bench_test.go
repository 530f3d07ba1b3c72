package backtest

import (
	"fmt"
	"testing"
	"time"

	"paramedic/cmd/paramedic/config"
	"paramedic/rules/enrich"
)

// BenchmarkOpenIncidents measures the time an alert takes while many incidents are open: each alert
// has a pool of its own. The alerts start a second apart and fire until the end.
func BenchmarkOpenIncidents(b *testing.B) {
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				run, err := newBacktest(Options{Config: config.Default(), URL: "http://prometheus", Since: time.Hour, Rate: 1e9, End: end,
					Transport: flapping{map[time.Time]bool{}}})
				if err != nil {
					b.Fatal(err)
				}
				run.gather = enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{run.cluster: {Prometheus: silent{}}}})
				run.now = end.Add(-24 * time.Hour)
				run.from = run.now
				var events []event
				for i := range n {
					at := run.now.Add(time.Duration(i) * time.Second)
					events = append(events, event{at: at, print: fmt.Sprintf("%016x", i), alert: alert{StartsAt: at, Step: time.Minute,
						Labels: map[string]string{"alertname": "VLLMWorkerDown", "severity": "warning", "namespace": fmt.Sprint("team-", i),
							"pod": fmt.Sprintf("vllm-%d-7d9f8b6c5-aaaaa", i)}}})
				}
				if err := run.play(b.Context(), events, run.now.Add(20*time.Minute)); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/alert")
		})
	}
}
