package lab

import (
	"testing"
	"time"
)

// A gateway without endpoints fails every request while the engines are ready and idle.
func TestBlindGatewayFailsRequestsBeforeAnyEngine(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	if err := f.Inject(Fault{Name: GatewayFailure, At: time.Minute, For: 2 * time.Minute}); err != nil {
		t.Fatal(err)
	}
	f.Advance(f.Start().Add(time.Minute - time.Second))
	if n := len(f.endpoints()); n != 4 || f.gateway.errors[GatewayNoEndpoint] != 0 || f.gateway.requests < 50 {
		t.Fatalf("healthy: %d endpoints, %v requests, errors %v", n, f.gateway.requests, f.gateway.errors)
	}
	f.Advance(f.Start().Add(time.Minute + time.Second))
	sent := f.gateway.requests
	f.Advance(f.Start().Add(3*time.Minute - time.Second))
	before := f.gateway.requests
	if before != sent {
		t.Errorf("%v requests are counted after %v: the picker counts those that it sends to a worker", before, sent)
	}
	if n := len(f.endpoints()); n != 0 || f.gateway.errors[GatewayNoEndpoint] < 100 {
		t.Errorf("blind: %d endpoints, errors %v", n, f.gateway.errors)
	}
	for _, p := range f.Pods() {
		if !p.Ready || p.Running > 1 {
			t.Errorf("%s: ready %v, %d running", p.Name, p.Ready, p.Running)
		}
	}
	failed := f.gateway.errors[GatewayNoEndpoint]
	f.Advance(f.Start().Add(4 * time.Minute))
	if len(f.endpoints()) != 4 || f.gateway.errors[GatewayNoEndpoint] > failed+20 || f.gateway.requests < before+50 {
		t.Errorf("mended: %d endpoints, %v requests, errors %v", len(f.endpoints()), f.gateway.requests, f.gateway.errors)
	}
}
