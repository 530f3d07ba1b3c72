package engine

import (
	"fmt"
	"testing"
)

// A worker that is busy now shows a leak by what it held in idle moments hours apart. GPU memory is
// compared with its lowest value of the same hours.
func TestRiseLooksBackOverIdleMoments(t *testing.T) {
	var list []string
	for n := range 4 * 120 { // two hours
		running, kv, memory := 8, 0.9, 70000+100*(n/40)
		switch n {
		case 20:
			running, kv = 0, 0.05
		case 300:
			running, kv = 0, 0.4
		}
		list = append(list, fmt.Sprintf("vllm:kv_cache_usage_perc{model_name=\"m\"} %g\nvllm:num_requests_running{model_name=\"m\"} %d\n"+
			"vllm:num_requests_waiting{model_name=\"m\"} 0\nDCGM_FI_DEV_FB_USED{gpu=\"0\",UUID=\"GPU-1\"} %d\n", kv, running, memory))
	}
	client, clk := pages(t, list...)
	got := readAll(t, client, clk.Now())
	if s, ok := got["kv_idle_rise"]; !ok || s.Value < 0.3499 || s.Value > 0.3501 {
		t.Errorf("the cache held while idle rose by %g (%v), want 0.35", s.Value, ok)
	}
	if s, ok := got["kv_idle_usage"]; ok {
		t.Errorf("a worker that was busy for five minutes held %g while idle", s.Value)
	}
	for id, want := range map[string]float64{"gpu_fb_low_6h pool": 70000, "gpu_fb_low_3h pool": 70000, "gpu_fb_low pool": 70600,
		"gpu_fb_changes_6h pool": 11} {
		if s, ok := got[id]; !ok || s.Value != want {
			t.Errorf("%s is %g (%v), want %g", id, s.Value, ok, want)
		}
	}
}
