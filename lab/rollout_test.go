package lab

import (
	"testing"
	"time"

	"paramedic/lab/engine"
	"paramedic/lab/metrics/metricstest"
)

// A rollout of an image that does not exist stops at its first worker and replaces no old one.
func TestMissingImageStopsTheRollout(t *testing.T) {
	f := broken(t, Config{Seed: 2}, Fault{Name: ModelLoadFailure}, 14*time.Minute)
	pods := f.Pods()
	if d := f.Deployment(); len(pods) != 5 || d.Ready != 4 || d.Updated != 1 || d.Complete {
		t.Fatalf("%d pods, deployment %+v", len(pods), d)
	}
	if p := pods[4]; p.Waiting != "ImagePullBackOff" || p.Ready || p.Restarts != 0 || p.TemplateHash == pods[0].TemplateHash {
		t.Errorf("the new worker: %+v", p)
	}
}

// Without the hub a new worker dies while it loads. Workers that have loaded still serve.
func TestDeniedDownloadCrashLoops(t *testing.T) {
	f := broken(t, Config{Seed: 1}, Fault{Name: ModelLoadFailure}, 14*time.Minute)
	pods := f.Pods()
	if d := f.Deployment(); len(pods) != 4 || d.Ready != 3 {
		t.Fatalf("%d pods, %d ready", len(pods), d.Ready)
	}
	if p := pods[3]; p.Ready || p.Restarts < 3 || p.LastExitCode != 1 || p.LastTermination != "Error" {
		t.Errorf("the new worker: %+v", p)
	}
}

// Only workers of the flawed revision fail requests. Each is ready for minReadySeconds before the
// next old one is replaced.
func TestFlawedRevisionFailsWhereItRuns(t *testing.T) {
	f := broken(t, Config{Seed: 1, MinReady: 4 * time.Minute}, Fault{Name: BadRollout}, 9*time.Minute)
	old, flawed := 0, 0
	for _, w := range f.workers {
		if w.eng == nil {
			t.Errorf("%s does not run", w.name)
			continue
		}
		p := f.enginePage(w).Families()
		bad, all := metricstest.Sum(p, "http_requests_total", "status", "5xx"), metricstest.Sum(p, "http_requests_total")
		switch share := bad / all; {
		case w.image == engine.VLLM.Defaults().Good && share == 0:
			old++
		case w.image == engine.VLLM.Defaults().Flawed && share > 0.3 && share < 0.6:
			flawed++
		default:
			t.Errorf("%s of %s fails %.2f of %.0f", w.name, w.image, share, all)
		}
	}
	if old < 3 || flawed != 1 {
		t.Errorf("%d old and %d flawed workers after four minutes", old, flawed)
	}
}
