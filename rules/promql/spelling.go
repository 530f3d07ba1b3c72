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

// A Spelling is a form in which a store holds the metrics of an engine.
type Spelling struct {
	before string // in front of the name
	colon  string // in place of the colon
}

// Spellings are the forms in which stores hold an engine's metrics: the engine's own first, then
// that of KServe's PodMonitors, of OpenMetrics without UTF-8 names and OpenTelemetry's collector,
// and those of Ray, which had the colon in earlier releases.
var Spellings = []Spelling{{"", ":"}, {"kserve_", ":"}, {"", "_"}, {"ray_", "_"}, {"ray_", ":"}}

// SpellingsOf returns the forms of an engine's metric. Only names with a colon have several.
func SpellingsOf(metric string) []Spelling {
	if strings.Contains(metric, ":") {
		return Spellings
	}
	return Spellings[:1]
}

// Of returns the name of an engine's metric in this spelling.
func (s Spelling) Of(metric string) string {
	return s.before + strings.ReplaceAll(metric, ":", s.colon)
}

// IsOfPages reports whether all metrics of a page have this form, not only those of the engine.
func (s Spelling) IsOfPages() bool { return s.before == "kserve_" }

// VLLMName returns the metric in vLLM's spelling. Many articles and exporters replace the colon by
// an underscore.
func VLLMName(metric string) string {
	for _, prefix := range []string{"vllm_", "ray_vllm_", "ray_vllm:"} {
		if name, ok := strings.CutPrefix(metric, prefix); ok {
			return "vllm:" + name
		}
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
