package engine

import (
	"fmt"
	"math"
	"strings"
	"testing"
)

// trtllmBehindDynamo returns the page that ai-dynamo/dynamo recorded of a TensorRT-LLM worker
// (docs/observability/metrics_examples/trtllm.log). It has the names, labels, edges and sums of the
// recorded series, after two requests. Each latency was within one of the edges.
func trtllmBehindDynamo() []byte {
	var b strings.Builder
	const model = `engine_type="trtllm",model_name="Qwen/Qwen3-0.6B"`
	for _, name := range []string{"active_blocks", "gpu_cache_usage_percent", "gpu_prefix_cache_hit_rate", "total_blocks"} {
		name = "dynamo_component_kvstats_" + name
		fmt.Fprintf(&b, "# TYPE %s gauge\n%s{dynamo_component=\"tensorrt_llm\",dynamo_namespace=\"dynamo\"} 0\n", name, name)
	}
	fmt.Fprintf(&b, "# TYPE trtllm_request_success_total counter\ntrtllm_request_success_total{finished_reason=\"length\",%s} 2.0\n", model)
	long := "0.3 0.5 0.8 1.0 1.5 2.0 2.5 5.0 10.0 15.0 20.0 30.0 40.0 50.0 60.0 120.0 240.0 480.0 960.0 1920.0 7680.0"
	for _, h := range []struct {
		name, edges string
		within      []string // the lowest edge above each observation
		sum         float64
	}{
		{"e2e_request_latency", long, []string{"1.0", "1.0"}, 1.7300310004502535},
		{"time_to_first_token",
			"0.001 0.005 0.01 0.02 0.04 0.06 0.08 0.1 0.25 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0 160.0 640.0 2560.0",
			[]string{"0.04", "0.06"}, 0.06795299984514713},
		{"time_per_output_token", "0.01 0.025 0.05 0.075 0.1 0.15 0.2 0.3 0.4 0.5 0.75 1.0 2.5 5.0 7.5 10.0 20.0 40.0 80.0",
			[]string{"0.01", "0.01"}, 0.005558789299682629},
		{"request_queue_time", long, []string{"0.3", "0.3"}, 0.01181500032544136},
	} {
		name, n := "trtllm_"+h.name+"_seconds", 0
		fmt.Fprintf(&b, "# TYPE %s histogram\n", name)
		for _, le := range append(strings.Fields(h.edges), "+Inf") {
			for _, edge := range h.within {
				if edge == le {
					n++
				}
			}
			fmt.Fprintf(&b, "%s_bucket{le=%q,%s} %d.0\n", name, le, model, n)
		}
		fmt.Fprintf(&b, "%s_count{%s} %d.0\n%s_sum{%s} %g\n", name, model, n, name, model, h.sum)
	}
	return []byte(b.String())
}

// Dynamo's gauges are zero for a worker that reports nothing to it. Such a zero is not an empty
// cache.
func TestDynamoZerosAreNotValues(t *testing.T) {
	page := trtllmBehindDynamo()
	client, clk := pages(t, grow(page, 1), grow(page, 2), grow(page, 3), grow(page, 4))
	got := readAll(t, client, clk.Now())
	for id, want := range map[string]float64{"ttft_p95": math.NaN(), "ttft_p95 pool": math.NaN(), "itl_p95 pool": math.NaN(),
		"e2e_p95 pool": math.NaN(), "queue_time_mean pool": 0.01181500032544136 / 2,
		"finish_rate": math.NaN(), "up": 1} {
		switch s, ok := got[id]; {
		case !ok:
			t.Errorf("no %s", id)
		case math.IsNaN(want) && s.Value <= 0, !math.IsNaN(want) && math.Abs(s.Value-want) > 1e-6:
			t.Errorf("%s is %g, want %g", id, s.Value, want)
		case s.Entity.Model != "Qwen/Qwen3-0.6B":
			t.Errorf("%s is of model %q", id, s.Entity.Model)
		}
	}
	for _, id := range []string{"kv_usage", "kv_blocks_total", "prefix_hit_ratio", "requests_running"} {
		if s, ok := got[id]; ok {
			t.Errorf("%s is %g, but the engine does not report it", id, s.Value)
		}
	}
	// Failed requests are counted separately from completed ones, as Dynamo's worker counts aborted
	// ones.
	failed := string(page) + `# TYPE trtllm_request_error_total counter
trtllm_request_error_total{engine_type="trtllm",http_code="500",model_name="Qwen/Qwen3-0.6B"} 1.0
trtllm_request_error_total{engine_type="trtllm",http_code="400",model_name="Qwen/Qwen3-0.6B"} 1.0
# TYPE trtllm_num_aborted_requests_total counter
trtllm_num_aborted_requests_total{engine_type="trtllm",disaggregation_mode="none",model_name="Qwen/Qwen3-0.6B"} 3.0
`
	client, clk = pages(t, grow([]byte(failed), 1), grow([]byte(failed), 2), grow([]byte(failed), 3), grow([]byte(failed), 4))
	got = readAll(t, client, clk.Now())
	if got["error_rate"].Value != 0.25 || got["abort_rate"].Value <= 0 {
		t.Errorf("error_rate is %g, want 1 of 4; abort_rate %g", got["error_rate"].Value, got["abort_rate"].Value)
	}
	// The engine's own gauge wins.
	exported := string(page) +
		"# TYPE trtllm_kv_cache_utilization gauge\ntrtllm_kv_cache_utilization{model_name=\"Qwen/Qwen3-0.6B\",engine_type=\"trtllm\"} 0.97\n"
	client, clk = pages(t, exported, exported)
	if s := readAll(t, client, clk.Now())["kv_usage"]; s.Value != 0.97 {
		t.Errorf("kv_usage is %g, want the engine's own", s.Value)
	}
}
