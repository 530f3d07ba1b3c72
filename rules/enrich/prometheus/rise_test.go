package prometheus

import (
	"testing"
	"time"

	"paramedic/state"
)

// A worker that is busy now shows a leak by what it held in idle moments hours apart. GPU memory is
// compared with its lowest value of the same hours. A worker that is gone rises no more.
func TestRiseLooksBackOverIdleMoments(t *testing.T) {
	const pod, gone = "vllm-llama-7d9f8b6c5-aaaa1", "vllm-llama-7d9f8b6c5-zzzz9"
	s := &store{}
	page := func(pod string, at time.Time, kv, running, memory float64) {
		for metric, v := range map[string]float64{"vllm:kv_cache_usage_perc": kv, "vllm:num_requests_running": running,
			"vllm:num_requests_waiting": 0} {
			s.add(map[string]string{"__name__": metric, "pod": pod, "namespace": "llm", "model_name": "llama-70b",
				"instance": pod + ":8000", "job": "vllm"}, at, v)
		}
		s.add(map[string]string{"__name__": "DCGM_FI_DEV_FB_USED", "exported_pod": pod, "exported_namespace": "llm", "gpu": "0",
			"UUID": "GPU-" + pod, "Hostname": "node-1", "job": "dcgm"}, at, memory)
	}
	for n := range 5 * 120 {
		at := now.Add(time.Duration(n-5*120+1) * 30 * time.Second)
		running, kv := 8.0, 0.9
		switch n / 4 { // two minutes
		case 20:
			running, kv = 0, 0.05
		case 140:
			running, kv = 0, 0.4
		}
		page(pod, at, kv, running, float64(70000+100*(n/60)))
		if n < 400 {
			page(gone, at, kv, running, float64(70000+100*(n/60)))
		}
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
	if got := find(r, "kv_idle_rise", pod); got == nil || !near(got.Value, 0.35, 1e-9) {
		t.Errorf("the cache held while idle rose by %+v, want 0.35", got)
	}
	if got := find(r, "kv_idle_usage", pod); got != nil {
		t.Errorf("a worker that was busy for five minutes held %g while idle", got.Value)
	}
	for id, want := range map[string]float64{"gpu_fb_low_6h": 70000, "gpu_fb_low_3h": 70400, "gpu_fb_low": 70800, "gpu_fb_changes_6h": 9} {
		if got := find(r, id, pod); got == nil || got.Value != want {
			t.Errorf("%s is %+v, want %g", id, got, want)
		}
	}
	for _, id := range []string{"kv_idle_rise", "gpu_fb_low_6h"} {
		if got := find(r, id, gone); got != nil {
			t.Errorf("%s of a worker that is gone is %g", id, got.Value)
		}
	}
}
