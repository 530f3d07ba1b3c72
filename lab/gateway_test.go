package lab

import (
	"testing"
	"time"

	"paramedic/lab/front"
	"paramedic/lab/metrics/metricstest"
)

// A gateway without endpoints fails every request while the engines are ready and idle.
func TestBlindGatewayFailsRequestsBeforeAnyEngine(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	requests := func() float64 { return metricstest.Sum(pages(f, "epp"), "llm_d_epp_request_total") }
	failed := func() float64 {
		return metricstest.Sum(pages(f, "epp"), "llm_d_epp_request_error_total", "error_code", front.NoEndpoint)
	}
	if err := f.Inject(Fault{Name: GatewayFailure, At: time.Minute, For: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	f.Advance(f.Start().Add(time.Minute - time.Second))
	if n := len(f.endpoints()); n != 4 || failed() != 0 || requests() < 50 {
		t.Fatalf("healthy: %d endpoints, %v requests, %v failed", n, requests(), failed())
	}
	f.Advance(f.Start().Add(time.Minute + time.Second))
	sent := requests()
	f.Advance(f.Start().Add(3*time.Minute - time.Second))
	before := requests()
	if before != sent {
		t.Errorf("%v requests are counted after %v: the picker counts those that it sends to a worker", before, sent)
	}
	if n := len(f.endpoints()); n != 0 || failed() < 100 {
		t.Errorf("blind: %d endpoints, %v failed", n, failed())
	}
	for _, p := range f.Pods() {
		if !p.Ready || p.Running > 1 {
			t.Errorf("%s: ready %v, %d running", p.Name, p.Ready, p.Running)
		}
	}
	lost := failed()
	f.Advance(f.Start().Add(4 * time.Minute))
	if len(f.endpoints()) != 4 || failed() > lost+20 || requests() < before+50 {
		t.Errorf("mended: %d endpoints, %v requests, %v failed", len(f.endpoints()), requests(), failed())
	}
}
