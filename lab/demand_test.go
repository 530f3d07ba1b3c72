package lab

import (
	"testing"
	"time"

	"paramedic/lab/metrics/metricstest"
	"paramedic/lab/traffic"
)

// The workers of a retry storm are healthy: soon after the retries end they answer as before.
func TestRetryStormEndsWithItsRepeats(t *testing.T) {
	whole := func(f *Fleet) float64 {
		p := pages(f, "vllm")
		return metricstest.Sum(p, "vllm:request_success_total", "finished_reason", "stop") +
			metricstest.Sum(p, "vllm:request_success_total", "finished_reason", "length")
	}
	f := broken(t, Config{Seed: 7, Workload: traffic.Workload{Rate: 3.4}}, Fault{Name: RetryStorm}, 13*time.Minute)
	before := whole(f)
	f.Advance(f.Start().Add(15 * time.Minute))
	during := whole(f)
	f.faults = nil // the clients' release is rolled back
	f.Advance(f.Start().Add(20 * time.Minute))
	mended := whole(f)
	f.Advance(f.Start().Add(22 * time.Minute))
	after := whole(f)
	if storm, calm := during-before, after-mended; calm < 3*storm+100 {
		t.Errorf("%.0f answers in two minutes of the storm, %.0f after it", storm, calm)
	}
}
