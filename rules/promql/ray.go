package promql

import "strings"

// BaseName returns a metric's name without the suffixes of histograms and counters.
func BaseName(metric string) string {
	for _, suffix := range []string{"_bucket", "_sum", "_count", "_created"} {
		if s, ok := strings.CutSuffix(metric, suffix); ok {
			return s
		}
	}
	return metric
}

// OnRay are the prefixes that Ray gives to vLLM's metrics: its own name before vLLM's, and in later
// releases an underscore in place of the colon.
var OnRay = []string{"ray_vllm_", "ray_vllm:"}

// WithoutRay returns vLLM's own name of a metric that Ray exports. Other metrics keep their names.
func WithoutRay(metric string) string {
	for _, prefix := range OnRay {
		if name, ok := strings.CutPrefix(metric, prefix); ok {
			return "vllm:" + name
		}
	}
	return metric
}

// VLLMName returns the metric in vLLM's spelling. Many articles and exporters replace the colon by
// an underscore.
func VLLMName(metric string) string {
	metric = WithoutRay(metric)
	if name, ok := strings.CutPrefix(metric, "vllm_"); ok {
		return "vllm:" + name
	}
	return metric
}

// EngineName returns the metric in its engine's spelling. Besides VLLMName, it knows SGLang's
// metrics with an underscore in place of the colon, as OpenMetrics escapes them, also on Ray, and
// vLLM's with KServe's prefix.
func EngineName(metric string) string {
	metric = strings.TrimPrefix(metric, "kserve_")
	for _, prefix := range []string{"sglang_", "ray_sglang_", "ray_sglang:"} {
		if name, ok := strings.CutPrefix(metric, prefix); ok {
			return "sglang:" + name
		}
	}
	return VLLMName(metric)
}
