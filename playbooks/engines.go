package playbooks

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// A dialect holds the names of one engine. Playbooks are written with vLLM's settings and metrics,
// and a dialect translates them for the people who run another engine. Sources: each engine's
// server arguments, and the metrics that the catalogue of signals reads.
type dialect struct {
	engine   string            // the name in state.Worker
	title    string            // the name that people read
	port     string            // port of its metrics page
	page     string            // pattern of the important metrics on that page
	settings map[string]string // vLLM's setting → this engine's; empty if it has none
	metrics  map[string]string // vLLM's metric → this engine's, if a query may exchange them
	answers  map[string]string // a check's signal → the PromQL that answers it
}

// dialects lists the engines other than vLLM. Dynamo has no settings of its own, because its
// workers take those of the engine that they run.
var dialects = []*dialect{
	{
		engine: "sglang", title: "SGLang", port: "30000",
		page: `^sglang:(num_running_reqs|num_queue_reqs|token_usage|num_retracted_requests|generation_tokens)`,
		settings: map[string]string{
			"max_num_seqs": "max_running_requests", "max_num_batched_tokens": "chunked_prefill_size",
			"max_model_len":          "context_length",
			"gpu_memory_utilization": "mem_fraction_static", "--no-enable-prefix-caching": "--disable-radix-cache",
		},
		metrics: map[string]string{
			"vllm:num_requests_running":        "sglang:num_running_reqs",
			"vllm:num_requests_waiting":        "sglang:num_queue_reqs",
			"vllm:kv_cache_usage_perc":         "sglang:token_usage",
			"vllm:request_success_total":       "sglang:num_requests_total",
			"vllm:e2e_request_latency_seconds": "sglang:e2e_request_latency_seconds",
			"vllm:request_queue_time_seconds":  "sglang:queue_time_seconds",
		},
		answers: map[string]string{
			"requests_running": `sum by (pod) (sglang:num_running_reqs{model_name="{model}",tp_rank=~"0|",pp_rank=~"0|"})`,
			"requests_waiting": `sum by (pod) (sglang:num_queue_reqs{model_name="{model}",tp_rank=~"0|",pp_rank=~"0|"})`,
			"kv_usage":         `max by (pod) (sglang:token_usage{model_name="{model}"})`,
			"kv_idle_usage":    `min_over_time(sglang:token_usage{model_name="{model}"}[10m]) > 0.1 and on (pod) max by (pod) (max_over_time(sglang:num_running_reqs[10m])) == 0`,
			"preemption_rate":  `sum by (pod) (rate(sglang:num_retracted_requests_total{model_name="{model}"}[5m]))`,
			"abort_rate":       `sum(rate(sglang:num_aborted_requests_total{model_name="{model}"}[5m]))`,
			"arrival_rate":     `sum(rate(sglang:num_requests_total{model_name="{model}"}[5m])) + sum(deriv(sglang:num_running_reqs{model_name="{model}",tp_rank=~"0|"}[5m])) + sum(deriv(sglang:num_queue_reqs{model_name="{model}",tp_rank=~"0|"}[5m]))`,
			"finish_rate":      `sum(rate(sglang:num_requests_total{model_name="{model}"}[5m])) - (sum(rate(sglang:num_aborted_requests_total{model_name="{model}"}[5m])) or vector(0))`,
			"e2e_p95":          `histogram_quantile(0.95, sum by (le) (rate(sglang:e2e_request_latency_seconds_bucket{model_name="{model}"}[5m])))`,
			"ttft_p50":         `histogram_quantile(0.5, sum by (le) (rate(sglang:time_to_first_token_seconds_bucket{model_name="{model}"}[5m])))`,
			"ttft_p95":         `histogram_quantile(0.95, sum by (le) (rate(sglang:time_to_first_token_seconds_bucket{model_name="{model}"}[5m])))`,
			"itl_p50":          `histogram_quantile(0.5, sum by (le) (rate(sglang:inter_token_latency_seconds_bucket{model_name="{model}"}[5m])))`,
			"itl_p95":          `histogram_quantile(0.95, sum by (le, pod) (rate(sglang:inter_token_latency_seconds_bucket{model_name="{model}"}[5m])))`,
			// The counter of generated tokens moves when a request ends. This one moves while the
			// request runs.
			"generation_tokens_rate": `sum by (pod) (rate(sglang:realtime_tokens_total{model_name="{model}",mode="decode"}[5m]))`,
			"output_length_mean":     `sum(rate(sglang:generation_tokens_total{model_name="{model}"}[10m])) / sum(rate(sglang:num_requests_total{model_name="{model}"}[10m]))`,
			"prompt_length_mean":     `sum(rate(sglang:prompt_tokens_total{model_name="{model}"}[10m])) / sum(rate(sglang:num_requests_total{model_name="{model}"}[10m]))`,
			"prompt_length_p95":      `histogram_quantile(0.95, sum by (le) (rate(sglang:prompt_tokens_histogram_bucket{model_name="{model}"}[10m])))  # where it is switched on`,
			"prefix_hit_ratio":       `sum(rate(sglang:cached_tokens_total{model_name="{model}"}[10m])) / clamp_min(sum(rate(sglang:prompt_tokens_total{model_name="{model}"}[10m])), 1)`,
			"prefix_query_rate":      `sum(rate(sglang:prompt_tokens_total{model_name="{model}"}[5m]))`,
		},
	},
	{
		engine: "trtllm", title: "TensorRT-LLM", port: "8000",
		page: `^trtllm_(num_requests|kv_cache_utilization|num_scheduled_requests|generation_tokens)`,
		settings: map[string]string{
			"max_num_seqs": "max_batch_size", "max_num_batched_tokens": "max_num_tokens", "max_model_len": "max_seq_len",
			"gpu_memory_utilization":     "kv_cache_config.free_gpu_memory_fraction",
			"--no-enable-prefix-caching": "kv_cache_config.enable_block_reuse: false",
		},
		metrics: map[string]string{
			"vllm:num_requests_running": "trtllm_num_requests_running", "vllm:num_requests_waiting": "trtllm_num_requests_waiting",
			"vllm:kv_cache_usage_perc": "trtllm_kv_cache_utilization", "vllm:request_success_total": "trtllm_request_success_total",
			"vllm:e2e_request_latency_seconds":  "trtllm_e2e_request_latency_seconds",
			"vllm:request_queue_time_seconds":   "trtllm_request_queue_time_seconds",
			"vllm:request_prefill_time_seconds": "trtllm_request_prefill_time_seconds",
		},
		answers: map[string]string{
			"requests_running":       `sum by (pod) (trtllm_num_requests_running{model_name="{model}"})`,
			"requests_waiting":       `sum by (pod) (trtllm_num_requests_waiting{model_name="{model}"})`,
			"kv_usage":               `max by (pod) (trtllm_kv_cache_utilization{model_name="{model}"})  # needs enable_iter_perf_stats`,
			"kv_idle_usage":          `min_over_time(trtllm_kv_cache_utilization{model_name="{model}"}[10m]) > 0.1 and on (pod) max_over_time(trtllm_num_requests_running[10m]) == 0`,
			"preemption_rate":        `max by (pod) (trtllm_num_paused_requests{model_name="{model}"})  # a gauge: how many are paused now`,
			"abort_rate":             `sum(rate(trtllm_request_success_total{model_name="{model}",finished_reason="cancelled"}[5m]))`,
			"arrival_rate":           `sum(rate(trtllm_request_success_total{model_name="{model}"}[5m])) + sum(deriv(trtllm_num_requests_running{model_name="{model}"}[5m])) + sum(deriv(trtllm_num_requests_waiting{model_name="{model}"}[5m]))`,
			"finish_rate":            `sum(rate(trtllm_request_success_total{model_name="{model}",finished_reason!~"cancelled|timeout"}[5m]))`,
			"e2e_p95":                `histogram_quantile(0.95, sum by (le) (rate(trtllm_e2e_request_latency_seconds_bucket{model_name="{model}"}[5m])))`,
			"ttft_p50":               `histogram_quantile(0.5, sum by (le) (rate(trtllm_time_to_first_token_seconds_bucket{model_name="{model}"}[5m])))  # needs return_perf_metrics`,
			"ttft_p95":               `histogram_quantile(0.95, sum by (le) (rate(trtllm_time_to_first_token_seconds_bucket{model_name="{model}"}[5m])))  # needs return_perf_metrics`,
			"itl_p50":                `histogram_quantile(0.5, sum by (le) (rate(trtllm_time_per_output_token_seconds_bucket{model_name="{model}"}[5m])))  # the mean of each request, when it ends`,
			"itl_p95":                `histogram_quantile(0.95, sum by (le, pod) (rate(trtllm_time_per_output_token_seconds_bucket{model_name="{model}"}[5m])))  # the mean of each request, when it ends`,
			"generation_tokens_rate": `sum by (pod) (rate(trtllm_generation_tokens_total{model_name="{model}"}[5m]))  # counted when a request ends`,
			"output_length_mean":     `sum(rate(trtllm_generation_tokens_total{model_name="{model}"}[10m])) / sum(rate(trtllm_request_success_total{model_name="{model}"}[10m]))`,
			"prompt_length_mean":     `sum(rate(trtllm_prompt_tokens_total{model_name="{model}"}[10m])) / sum(rate(trtllm_request_success_total{model_name="{model}"}[10m]))`,
			"prompt_length_p95":      `sum(rate(trtllm_prompt_tokens_total{model_name="{model}"}[10m])) / sum(rate(trtllm_request_success_total{model_name="{model}"}[10m]))  # the mean: it has no histogram of lengths`,
			"prefill_time_p95":       `histogram_quantile(0.95, sum by (le) (rate(trtllm_request_prefill_time_seconds_bucket{model_name="{model}"}[5m])))  # from 1.3`,
			"prefix_hit_ratio":       `sum(rate(trtllm_prompt_cached_tokens_total{model_name="{model}"}[10m])) / clamp_min(sum(rate(trtllm_prompt_tokens_total{model_name="{model}"}[10m])), 1)`,
			"prefix_query_rate":      `sum(rate(trtllm_prompt_tokens_total{model_name="{model}"}[5m]))`,
			"truncated_ratio":        `sum by (pod) (rate(trtllm_request_success_total{model_name="{model}",finished_reason="length"}[10m])) / sum by (pod) (rate(trtllm_request_success_total{model_name="{model}"}[10m]))`,
		},
	},
	{
		engine: "dynamo", title: "Dynamo", port: "9090",
		page: `^(dynamo_component_|vllm:|sglang:|trtllm_)(.*)(running|waiting|queue|cache_usage|token_usage|utilization)`,
		answers: map[string]string{ // its frontend exports models' names in lower case
			"requests_running":       `sum(dynamo_frontend_active_requests{model=~"(?i){model}"})`,
			"requests_waiting":       `sum(dynamo_frontend_queued_requests{model=~"(?i){model}"})`,
			"kv_usage":               `max by (pod) (dynamo_component_gpu_cache_usage_percent{namespace="{namespace}"})  # 0 to 1 in spite of its name`,
			"abort_rate":             `sum(rate(dynamo_frontend_model_cancellation_total{model=~"(?i){model}"}[5m]))`,
			"arrival_rate":           `sum(rate(dynamo_frontend_requests_total{model=~"(?i){model}"}[5m])) + sum(deriv(dynamo_frontend_active_requests{model=~"(?i){model}"}[5m]))`,
			"finish_rate":            `sum(rate(dynamo_frontend_requests_total{model=~"(?i){model}",status="success"}[5m]))`,
			"e2e_p95":                `histogram_quantile(0.95, sum by (le) (rate(dynamo_frontend_request_duration_seconds_bucket{model=~"(?i){model}"}[5m])))`,
			"ttft_p50":               `histogram_quantile(0.5, sum by (le) (rate(dynamo_frontend_time_to_first_token_seconds_bucket{model=~"(?i){model}"}[5m])))`,
			"ttft_p95":               `histogram_quantile(0.95, sum by (le) (rate(dynamo_frontend_time_to_first_token_seconds_bucket{model=~"(?i){model}"}[5m])))`,
			"itl_p50":                `histogram_quantile(0.5, sum by (le) (rate(dynamo_frontend_inter_token_latency_seconds_bucket{model=~"(?i){model}"}[5m])))`,
			"itl_p95":                `histogram_quantile(0.95, sum by (le) (rate(dynamo_frontend_inter_token_latency_seconds_bucket{model=~"(?i){model}"}[5m])))`,
			"generation_tokens_rate": `sum(rate(dynamo_frontend_output_tokens_total{model=~"(?i){model}"}[5m]))`,
			"output_length_mean":     `sum(rate(dynamo_frontend_output_sequence_tokens_sum{model=~"(?i){model}"}[10m])) / sum(rate(dynamo_frontend_output_sequence_tokens_count{model=~"(?i){model}"}[10m]))`,
			"prompt_length_mean":     `sum(rate(dynamo_frontend_input_sequence_tokens_sum{model=~"(?i){model}"}[10m])) / sum(rate(dynamo_frontend_input_sequence_tokens_count{model=~"(?i){model}"}[10m]))`,
			"prompt_length_p95":      `histogram_quantile(0.95, sum by (le) (rate(dynamo_frontend_input_sequence_tokens_bucket{model=~"(?i){model}"}[10m])))`,
			"prefix_hit_ratio":       `sum(rate(dynamo_component_router_kv_hit_rate_sum[10m])) / sum(rate(dynamo_component_router_kv_hit_rate_count[10m]))  # as its router estimates it`,
		},
	},
}

// dialectOf returns the dialect of an engine, or nil for vLLM and for an unknown engine.
func dialectOf(engine string) *dialect {
	for _, d := range dialects {
		if d.engine == engine {
			return d
		}
	}
	return nil
}

// vllmByName marks a text about vLLM itself. Other names would not make it true of another engine.
const vllmByName = "vLLM"

// adapt returns a short text with the engine's names, unless it is about vLLM by name.
func (d *dialect) adapt(s string) string {
	if d == nil || strings.Contains(s, vllmByName) {
		return s
	}
	return d.translate(s)
}

var (
	settingWord = regexp.MustCompile(`(--)?[a-z][a-z_-]*[a-z]`)
	metricWord  = regexp.MustCompile(`vllm:[a-z0-9_]+`)
	pageGrep    = regexp.MustCompile(`grep -E '\^vllm:[^']*'`)
)

// translate replaces vLLM's names with the engine's. A flag is a setting with dashes.
func (d *dialect) translate(s string) string {
	s = pageGrep.ReplaceAllLiteralString(s, "grep -E '"+d.page+"'")
	s = strings.ReplaceAll(s, ":8000/proxy", ":"+d.port+"/proxy")
	s = metricWord.ReplaceAllStringFunc(s, func(w string) string {
		for _, suffix := range []string{"", "_bucket", "_sum", "_count"} {
			if base, ok := strings.CutSuffix(w, suffix); ok && d.metrics[base] != "" {
				return d.metrics[base] + suffix
			}
		}
		return w
	})
	return settingWord.ReplaceAllStringFunc(s, func(w string) string {
		name, flag := strings.CutPrefix(w, "--")
		switch {
		case d.settings[w] != "":
			return d.settings[w]
		case !flag:
			return w
		}
		own := d.settings[strings.ReplaceAll(name, "-", "_")]
		switch {
		case own == "":
			return w
		case d.engine == "sglang": // its flags have dashes, TensorRT-LLM's have underscores
			own = strings.ReplaceAll(own, "_", "-")
		case strings.Contains(own, "."): // a key of its configuration file, not a flag
			return own
		}
		return "--" + own
	})
}

// byHand returns how to answer a check without Paramedic, with the names of the engine that runs.
// If the engine is unknown, it returns the queries of all engines.
func byHand(c Check, engine string) string {
	d := dialectOf(engine)
	switch {
	case engine == "vllm", !strings.Contains(c.ByHand, "vllm:"):
		return c.ByHand
	case d != nil && d.answers[c.Signal] != "":
		return "# PromQL\n" + d.answers[c.Signal]
	case d != nil && d.settings == nil:
		return "# " + d.title + " exports nothing for this. Where its workers run vLLM and export its metrics:\n" +
			c.ByHand
	case d != nil:
		return "# " + d.title + " exports nothing that answers this."
	}
	out := "# vLLM\n" + c.ByHand
	for _, d := range dialects {
		if q := d.answers[c.Signal]; q != "" {
			out += "\n# " + d.title + ", PromQL\n" + q
		}
	}
	return out
}

// settingsIn returns vLLM's settings that a text names.
func settingsIn(s string) []string {
	var out []string
	for _, w := range settingWord.FindAllString(s, -1) {
		w = strings.ReplaceAll(strings.TrimPrefix(w, "--"), "-", "_")
		if w == "no_enable_prefix_caching" {
			w = "--no-enable-prefix-caching"
		}
		if dialects[0].settings[w] != "" && !slices.Contains(out, w) {
			out = append(out, w)
		}
	}
	return out
}

// renderBody returns a body with the engine's names. Text about vLLM by name stays as it is, so its
// names are explained at the end: in one engine's names, or in all if the engine is unknown. rest
// is the playbook's other texts, whose names are explained too.
func renderBody(body, rest, engine string) string {
	d := dialectOf(engine)
	switch {
	case engine == "vllm":
		return body
	case d != nil:
		body, rest = d.adaptBody(body), ""
	}
	left := settingsIn(body + "\n" + rest)
	switch {
	case len(left) == 0:
		return body
	case d != nil && d.settings == nil:
		return body + fmt.Sprintf("\n## In Dynamo\n\nA worker takes the settings of the engine that it runs. "+
			"%s above are vLLM's names.\n%s", codes(left), table(left))
	case d != nil:
		body += "\n## In " + d.title + "\n\n"
		for _, name := range left {
			body += fmt.Sprintf("- `%s` is `%s`\n", name, d.settings[name])
		}
		return body
	}
	return body + "\n## On other engines\n\nSettings above have vLLM's names; " +
		"Dynamo's workers take those of the engine that they run.\n" + table(left)
}

// codes returns the names as Markdown code.
func codes(names []string) string { return "`" + strings.Join(names, "`, `") + "`" }

// table returns a Markdown table of settings in each engine's names.
func table(settings []string) string {
	var b strings.Builder
	b.WriteString("\n| vLLM |")
	for _, d := range dialects {
		if d.settings != nil {
			b.WriteString(" " + d.title + " |")
		}
	}
	b.WriteString("\n|---|---|---|\n")
	for _, name := range settings {
		fmt.Fprintf(&b, "| `%s` |", name)
		for _, d := range dialects {
			if d.settings != nil {
				fmt.Fprintf(&b, " `%s` |", d.settings[name])
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

// adaptBody adapts Markdown by paragraph, list item, row and line of code. Each of them may be
// about vLLM by name.
func (d *dialect) adaptBody(md string) string {
	var out, unit []string
	flush := func() {
		text := strings.Join(unit, "\n")
		if len(unit) > 0 {
			out = append(out, d.adapt(text))
		}
		unit = nil
	}
	code := false
	for line := range strings.SplitSeq(md, "\n") {
		fence := strings.HasPrefix(line, "```")
		if fence || code || line == "" || strings.HasPrefix(line, "|") || strings.HasPrefix(line, "- ") ||
			strings.HasPrefix(line, "#") {
			flush()
		}
		unit = append(unit, line)
		if fence {
			code = !code
		}
		if fence || code || line == "" {
			flush()
		}
	}
	flush()
	return strings.Join(out, "\n")
}
