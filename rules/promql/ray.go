package promql

import "strings"

// Bare returns a metric's name without the suffixes of histograms and counters.
func Bare(metric string) string {
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

// OffRay returns vLLM's own name of a metric that Ray exports. Other metrics keep their names.
func OffRay(metric string) string {
	for _, prefix := range OnRay {
		if name, ok := strings.CutPrefix(metric, prefix); ok {
			return "vllm:" + name
		}
	}
	return metric
}

// Colon returns the metric in vLLM's spelling. Many articles and exporters replace the colon by an
// underscore.
func Colon(metric string) string {
	metric = OffRay(metric)
	if name, ok := strings.CutPrefix(metric, "vllm_"); ok {
		return "vllm:" + name
	}
	return metric
}
