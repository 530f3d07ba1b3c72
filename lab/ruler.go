package lab

import (
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// ScrapeInterval is how often, in simulated time, the Ruler wants to be called.
const ScrapeInterval = 5 * time.Second

// An Alert is a firing alert, or one that has just resolved.
type Alert struct {
	Labels       map[string]string
	Annotations  map[string]string
	StartsAt     time.Time
	EndsAt       time.Time // zero while it fires
	GeneratorURL string
}

// Fingerprint is Alertmanager's: FNV-1a of the sorted labels.
func (a Alert) Fingerprint() string {
	set := model.LabelSet{}
	for k, v := range a.Labels {
		set[model.LabelName(k)] = model.LabelValue(v)
	}
	return set.Fingerprint().String()
}

// A Ruler scrapes a fleet's pages and evaluates the rules on them, as Prometheus would.
type Ruler struct {
	fleet   *Fleet
	rules   []Rule
	url     string
	history *history
	want    map[string]bool
	pending map[string]time.Time // since when a rule holds for labels
	firing  map[string]Alert
	seen    map[string]time.Time // when a firing alert was last true
}

// NewRuler watches a fleet. The URL is the Prometheus that alerts claim to come from; it may be empty.
func NewRuler(f *Fleet, prometheusURL string) *Ruler {
	if prometheusURL == "" {
		prometheusURL = "http://prometheus:9090"
	}
	r := &Ruler{fleet: f, rules: Rules(), url: prometheusURL, history: newHistory(1200), want: map[string]bool{}, pending: map[string]time.Time{}, firing: map[string]Alert{}, seen: map[string]time.Time{}}
	r.history.epoch = float64(f.cfg.Start.Unix())
	for _, name := range []string{
		"vllm:request_success_total", "vllm:kv_cache_usage_perc", "vllm:num_requests_waiting", "vllm:num_requests_running", "vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds",
		"vllm:request_queue_time_seconds", "vllm:num_preemptions_total", "vllm:generation_tokens_total", "vllm:prefix_cache_hits_total", "vllm:prefix_cache_queries_total",
		"http_requests_total", "DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_FB_USED", "DCGM_FI_DEV_FB_FREE", "DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT", "DCGM_EXP_CLOCK_EVENTS_COUNT", "container_memory_working_set_bytes",
		"kube_pod_start_time", "llm_requests_total", "llm_refusals_total", "llm_empty_responses_total", "kube_pod_container_resource_limits", "kube_pod_container_status_last_terminated_reason", "kube_pod_container_status_restarts_total", "kube_pod_container_status_waiting_reason",
		"llm_d_epp_ready_endpoints", "llm_d_epp_request_total", "llm_d_epp_request_error_total",
	} {
		r.want[name] = true
	}
	for _, name := range machineMetrics {
		r.want[name] = true
	}
	return r
}

// Evaluate scrapes every target at the fleet's present and evaluates every rule. It returns what fires, and each alert
// that has resolved since the last call once.
func (r *Ruler) Evaluate() []Alert {
	now := r.scrape()
	held := map[string]bool{}
	for _, rule := range r.rules {
		for _, s := range rule.eval(r.history) {
			labels := maps.Clone(s.labels)
			labels["alertname"], labels["severity"], labels["cluster"] = rule.Name, rule.Severity, r.fleet.cfg.Cluster
			key := labelKey(labels)
			if held[key] {
				continue
			}
			held[key] = true
			since, known := r.pending[key]
			if !known {
				since, r.pending[key] = now, now
			}
			if _, fires := r.firing[key]; !fires && now.Sub(since) >= rule.For {
				r.firing[key] = Alert{
					Labels: labels, Annotations: map[string]string{"summary": expand(rule.Summary, labels)}, StartsAt: now,
					GeneratorURL: r.url + "/graph?g0.expr=" + url.QueryEscape(rule.Expr) + "&g0.tab=1",
				}
			}
		}
	}
	var out []Alert
	for _, key := range sortedKeys(r.firing) {
		a := r.firing[key]
		if held[key] {
			r.seen[key] = now
		}
		if !held[key] && now.Sub(r.seen[key]) >= keepFiring(a.Labels["alertname"]) {
			a.EndsAt = now
			delete(r.seen, key)
			delete(r.firing, key)
		}
		out = append(out, a)
	}
	maps.DeleteFunc(r.pending, func(key string, _ time.Time) bool { return !held[key] })
	return out
}

func (r *Ruler) scrape() time.Time {
	f := r.fleet
	f.mu.Lock()
	defer f.mu.Unlock()
	r.history.last = f.now
	for _, t := range f.targets() {
		families := f.page(t, true)
		up := 0.0
		if families != nil {
			up = 1
			r.history.scrape(f.now, families, r.want)
		}
		r.history.add("up", labelKey(t.Labels), f.now, up, func() map[string]string { return t.Labels })
	}
	r.history.forget(f.now)
	return f.at(f.now)
}

// expand fills in the one template form that the summaries use.
func expand(text string, labels map[string]string) string {
	for _, k := range slices.Backward(sortedKeys(labels)) {
		text = strings.ReplaceAll(text, "{{ $labels."+k+" }}", labels[k])
	}
	return text
}
