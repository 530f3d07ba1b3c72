package lint

import (
	"strings"
	"testing"

	"paramedic/rules/promql"
	"paramedic/rules/signals"
)

// Every metric in the articles is known: an engine exports it and a signal or a rule uses it, or it
// has a replacement. Metrics that only callers of an engine can count are exempt.
func TestMetricsOfArticlesAreKnown(t *testing.T) {
	all, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	read := map[string]bool{}
	for _, s := range all {
		for _, src := range s.Sources {
			for _, name := range append([]string{src.Metric, src.Over}, src.With...) {
				read[name], read[promql.BaseName(name)] = true, true
			}
		}
	}
	for group, names := range map[string]string{
		"real": `vllm:num_requests_running vllm:num_requests_waiting vllm:e2e_request_latency_seconds vllm:request_prompt_tokens vllm:request_generation_tokens
			vllm:time_to_first_token_seconds vllm:prompt_tokens_total vllm:generation_tokens_total vllm:request_success_total DCGM_FI_DEV_FB_USED DCGM_FI_DEV_FB_FREE
			vllm:inter_token_latency_seconds vllm:request_time_per_output_token_seconds vllm:request_queue_time_seconds vllm:request_prefill_time_seconds
			vllm:request_decode_time_seconds vllm:num_requests_waiting_by_reason vllm:num_preemptions_total vllm:kv_cache_usage_perc vllm:prefix_cache_hits_total
			vllm:prefix_cache_queries_total vllm:request_params_max_tokens vllm:request_prefill_kv_computed_tokens llm_refusals_total llm_empty_responses_total llm_requests_total`,
		"former": `vllm:num_requests_swapped vllm:gpu_cache_usage_perc vllm:cpu_cache_usage_perc vllm:time_per_output_token_seconds
			llm_ttft_seconds llm_tbt_seconds llm_request_duration_seconds llm_tokens_per_second llm_error_total llm_gpu_utilization llm_gpu_memory_used_bytes
			llm_output_length_ratio llm_kv_cache_utilization llm_queue_depth llm_batch_size llm_preemption_total llm_itl_seconds llm_e2e_latency_seconds llm_input_tokens llm_output_tokens
			dynamo_ttft_milliseconds dynamo_tbt_milliseconds dynamo_prefill_milliseconds dynamo_queue_wait_milliseconds dynamo_routing_milliseconds
			dynamo_request_duration_milliseconds dynamo_tokens_generated_total dynamo_tokens_prefilled_total dynamo_requests_completed_total dynamo_output_tokens_per_request
			dynamo_scheduler_queue_depth dynamo_current_batch_size dynamo_kv_cache_utilization dynamo_gpu_memory_used_bytes dynamo_active_lora_adapters
			dynamo_prefix_cache_hit_rate dynamo_prefix_cache_evictions_total dynamo_adapter_cache_loads_total dynamo_adapter_cache_evictions_total
			dynamo_request_errors_total dynamo_preemptions_total dynamo_oom_events_total
			vllm_gpu_utilization vllm_gpu_memory_usage_bytes vllm_ttft_seconds vllm_tbt_seconds vllm_e2e_seconds vllm_output_tokens_total vllm_requests_completed_total
			vllm_queue_depth vllm_kv_cache_utilization vllm_kv_cache_evictions_total vllm_decode_batch_size vllm_prefix_cache_hit_rate
			vllm_num_requests_swapped vllm_gpu_cache_usage_perc vllm_cpu_cache_usage_perc vllm_time_per_output_token_seconds`,
		"misspelt": `vllm_num_requests_running vllm_num_requests_waiting vllm_prompt_tokens_total vllm_generation_tokens_total vllm_request_success_total
			vllm_time_to_first_token_seconds vllm_e2e_request_latency_seconds`,
	} {
		for name := range strings.FieldsSeq(names) {
			f, gone := formerly(name)
			switch {
			case group == "former" && (!gone || f.why == "" || f.instead(name) == ""):
				t.Errorf("%s: what to use instead is not known", name)
			case group == "misspelt" && (!read[promql.VLLMName(name)] || gone):
				t.Errorf("%s is not known to be %s", name, promql.VLLMName(name))
			case group == "real" && !read[name] && knownBuckets[name] == nil:
				t.Errorf("%s is read by no signal", name)
			}
		}
	}
	// V0's name is also known with an underscore.
	if f, ok := formerly("vllm_gpu_cache_usage_perc"); !ok || f.use != kvUsage {
		t.Errorf("%+v", f)
	}
}

// The replacement measures the same quantity and is exported by the named component. A time does
// not replace a number of requests, nor do preemptions replace evicted prefixes.
func TestReplacementMetricsMeasureTheSame(t *testing.T) {
	for name, want := range map[string]string{
		"dynamo_routing_milliseconds_bucket":          "use `dynamo_router_overhead_total_ms_bucket`",
		"dynamo_routing_milliseconds":                 "(rate(dynamo_router_overhead_total_ms_bucket[5m])))`",
		"dynamo_output_tokens_per_request_bucket":     "use `dynamo_frontend_output_sequence_tokens_bucket`",
		"dynamo_prefix_cache_evictions_total":         "`rate(sglang:evicted_tokens_total[5m])`",
		"dynamo_active_lora_adapters":                 "`vllm:lora_requests_info{",
		"dynamo_adapter_cache_loads_total":            `dynamo_endpoint="load_lora"`,
		"dynamo_adapter_cache_evictions_total":        `dynamo_endpoint="unload_lora"`,
		"vllm_requests_completed_total":               `failed requests are in ` + "`http_requests_total{",
		"dynamo_queue_wait_milliseconds_bucket":       "use `vllm:request_queue_time_seconds_bucket`",
		"dynamo_prefill_milliseconds_bucket":          "use `vllm:request_prefill_time_seconds_bucket`",
		"dynamo_request_duration_milliseconds_bucket": "use `dynamo_frontend_request_duration_seconds_bucket`",
	} {
		f, ok := formerly(name)
		if got := f.instead(name); !ok || !strings.Contains(got, want) || strings.Contains(got, "num_preemptions") {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
