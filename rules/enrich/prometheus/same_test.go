package prometheus

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/enrich/engine"
	"paramedic/state"
)

// tickClock is a clock that the test sets.
type tickClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *tickClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *tickClock) set(t time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = t
}

func (c *tickClock) After(time.Duration) <-chan time.Time { return nil }

// workerPage returns a worker's page after n scrapes of 15 seconds. Worker 1 restarts at n=150 and
// is idle on every eighth page.
func workerPage(worker, n int) string {
	age := n
	if worker == 1 && n >= 150 {
		age = n - 150
	}
	done := float64(age * (30 + 10*worker))
	running := float64(8 + n%5)
	if n%8 == 0 {
		running = 0
	}
	var b strings.Builder
	l := `{engine="0",model_name="llama-70b"}`
	fmt.Fprintf(&b, "# TYPE vllm:kv_cache_usage_perc gauge\nvllm:kv_cache_usage_perc%s %g\n", l, 0.3+0.01*float64(n%40))
	fmt.Fprintf(&b, "# TYPE vllm:num_requests_running gauge\nvllm:num_requests_running%s %g\n", l, running)
	fmt.Fprintf(&b, "# TYPE vllm:num_requests_waiting gauge\nvllm:num_requests_waiting%s %g\n", l, float64((n/3)%4)*min(running, 1))
	fmt.Fprintf(&b, "# TYPE vllm:num_preemptions_total counter\nvllm:num_preemptions_total%s %d\n", l, age*age/10)
	fmt.Fprintf(&b, "# TYPE vllm:generation_tokens_total counter\nvllm:generation_tokens_total%s %g\n", l, done*200)
	fmt.Fprintf(&b, "# TYPE vllm:prefix_cache_hits_total counter\nvllm:prefix_cache_hits_total%s %g\n", l, done*300)
	fmt.Fprintf(&b, "# TYPE vllm:prefix_cache_queries_total counter\nvllm:prefix_cache_queries_total%s %g\n", l, done*1000)
	fmt.Fprintf(&b, "# TYPE vllm:request_success_total counter\n")
	for i, reason := range []string{"stop", "length", "abort"} {
		fmt.Fprintf(&b, "vllm:request_success_total{engine=\"0\",finished_reason=%q,model_name=\"llama-70b\"} %g\n", reason,
			done/float64(i+2))
	}
	fmt.Fprintf(&b, "# TYPE http_requests_total counter\nhttp_requests_total{handler=\"/v1/completions\",status=\"2xx\"} %g\n", done)
	if worker == 1 {
		fmt.Fprintf(&b, "http_requests_total{handler=\"/v1/completions\",status=\"5xx\"} %g\n", done/20)
	}
	for i, m := range []string{"vllm:time_to_first_token_seconds", "vllm:inter_token_latency_seconds", "vllm:request_prompt_tokens"} {
		fmt.Fprintf(&b, "# TYPE %s histogram\n", m)
		sum := 0.0
		for j, le := range []string{"0.5", "1.0", "2.5", "5.0", "+Inf"} {
			sum = math.Floor(done * float64(j+1) / 5 * (1 + 0.1*float64(i)))
			fmt.Fprintf(&b, "%s_bucket{engine=\"0\",le=%q,model_name=\"llama-70b\"} %g\n", m, le, sum)
		}
		fmt.Fprintf(&b, "%s_sum%s %g\n%s_count%s %g\n", m, l, sum*1.7, m, l, sum)
	}
	fmt.Fprintf(&b, "# TYPE vllm:cache_config_info gauge\nvllm:cache_config_info{block_size=\"16\",num_gpu_blocks=\"5943\"} 1\n")
	fmt.Fprintf(&b, "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes %g\n", 1e9+1e6*float64(age)+1e5*float64(n%7))
	return b.String()
}

// trtllmPage returns the page of a TensorRT-LLM worker. Some of its requests wait for KV blocks at
// times.
func trtllmPage(n int) string {
	var b strings.Builder
	l := `{engine_type="trtllm",model_name="llama-70b"}`
	for i, gauge := range []string{"trtllm_num_requests_waiting", "trtllm_num_requests_running", "trtllm_num_scheduled_requests"} {
		fmt.Fprintf(&b, "# TYPE %s gauge\n%s%s %d\n", gauge, gauge, l, []int{0, 7, 5}[i]+n%(i+3))
	}
	fmt.Fprintf(&b, "# TYPE trtllm_request_success_total counter\n")
	for i, reason := range []string{"stop", "cancelled"} {
		fmt.Fprintf(&b, "trtllm_request_success_total{engine_type=\"trtllm\",finished_reason=%q,model_name=\"llama-70b\"} %d\n",
			reason, n*(9-5*i))
	}
	return b.String()
}

// sglangPage returns the page of a decode worker of SGLang with two ranks of data-parallel
// attention, which counts priorities separately.
func sglangPage(n int) string {
	var b strings.Builder
	for i, gauge := range []string{"num_queue_reqs", "num_running_reqs", "num_decode_prealloc_queue_reqs", "num_decode_transfer_queue_reqs",
		"num_prefill_bootstrap_queue_reqs", "num_prefill_inflight_queue_reqs", "token_usage"} {
		fmt.Fprintf(&b, "# TYPE sglang:%s gauge\n", gauge)
		for rank := range 2 {
			ranks := fmt.Sprintf(`dp_rank="%d",engine_type="decode",model_name="llama-70b",pp_rank="0",tp_rank="%d"`, rank, 2*rank)
			v := float64((n / 4 % (i + 2)) * (1 + rank) * min(n/4%3, 1)) // idle a third of the time
			if gauge == "token_usage" {
				v = 0.2 + 0.01*float64(n%30)
			}
			if i < 2 {
				fmt.Fprintf(&b, "sglang:%s{%s,priority=\"\"} %g\nsglang:%s{%s,priority=\"7\"} %g\n", gauge, ranks, v, gauge, ranks, v)
				continue
			}
			fmt.Fprintf(&b, "sglang:%s{%s} %g\n", gauge, ranks, v)
		}
	}
	for rank := range 4 {
		fmt.Fprintf(&b,
			"sglang:max_total_num_tokens{dp_rank=\"%d\",engine_type=\"decode\",model_name=\"llama-70b\",tp_rank=\"%d\"} 92962\n",
			rank/2, rank)
	}
	return b.String()
}

// pickerPage returns the page of an endpoint picker that no longer finds a worker. Its request
// counter stops, and its error counter starts. Some clients send invalid requests, some of them
// without a model.
func pickerPage(n int) string {
	var b strings.Builder
	fmt.Fprintf(&b, "# TYPE llm_d_epp_request_total counter\nllm_d_epp_request_total{model_name=\"llama-70b\",priority=\"0\"} %d\n",
		20*min(n, 450))
	fmt.Fprintf(&b, "# TYPE llm_d_epp_request_error_total counter\n")
	for _, model := range []string{"llama-70b", ""} {
		fmt.Fprintf(&b, "llm_d_epp_request_error_total{error_code=\"BadRequest\",model_name=%q} %d\n", model, 5*n)
	}
	fmt.Fprintf(&b, "llm_d_epp_request_error_total{error_code=\"ModelServerError\",model_name=\"llama-70b\"} %d\n", min(n, 450))
	if n > 450 {
		fmt.Fprintf(&b, "llm_d_epp_request_error_total{error_code=\"ServiceUnavailable\",model_name=\"llama-70b\"} %d\n", 15*(n-450))
	}
	return b.String()
}

// gpuPage returns the page of a newer DCGM exporter: a new Xid is another value and another series.
func gpuPage(n int) string {
	xid := 0
	if n > 450 {
		xid = 79
	}
	var b strings.Builder
	for gpu := range 2 {
		l := fmt.Sprintf(`{gpu="%d",UUID="GPU-%d",Hostname="node-a",pod="vllm-llama-7d9f8b6c5-aaaa%d",namespace="llm"`, gpu, gpu, gpu)
		fmt.Fprintf(&b, "DCGM_FI_DEV_XID_ERRORS%s,err_code=\"%d\"} %d\nDCGM_FI_DEV_FB_USED%s} 70000\nDCGM_FI_DEV_FB_FREE%s} %d\n", l,
			xid*gpu, xid*gpu, l, l, 10000+n)
		fmt.Fprintf(&b,
			"DCGM_EXP_CLOCK_EVENTS_COUNT%s,clock_event=\"hw_thermal\"} %d\nDCGM_EXP_CLOCK_EVENTS_COUNT%s,clock_event=\"power_cap\"} 3\n", l,
			0, l)
	}
	return b.String()
}

// The same pages, scraped by Prometheus and scraped directly, must give the same values of every
// signal. Rates agree exactly if the history is dense, because package engine extrapolates as
// Prometheus does. An hour ago, the history has one page a minute, and the edges of a window
// differ. So baselines of rates may differ by a few percent.
func TestDirectScrapeAgreesWithPromQL(t *testing.T) {
	clock := &tickClock{}
	var n int
	pages := []func() string{func() string { return workerPage(0, n) }, func() string { return workerPage(1, n) },
		func() string { return trtllmPage(n) },
		func() string { return sglangPage(n) }, func() string { return pickerPage(n) }, func() string { return gpuPage(n) }}
	db := &store{}
	var targets []engine.Target
	var labels []map[string]string
	for i, page := range pages {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics" {
				http.NotFound(w, r)
				return
			}
			fmt.Fprint(w, page())
		}))
		t.Cleanup(srv.Close)
		own := map[string]string{}
		if i < 5 {
			own = map[string]string{"pod": fmt.Sprintf("vllm-llama-7d9f8b6c5-aaaa%d", i), "namespace": "llm"}
		}
		targets = append(targets, engine.Target{URL: srv.URL + "/metrics", Labels: own})
		labels = append(labels, map[string]string{"instance": strings.TrimPrefix(srv.URL, "http://")})
		for k, v := range own {
			labels[i][k] = v
		}
	}
	direct := engine.New(engine.Config{Targets: targets, Signals: builtIn(t), Clock: clock})
	const scrapes = 480 // two hours
	for n = 0; n <= scrapes; n++ {
		at := now.Add(time.Duration(n-scrapes) * 15 * time.Second)
		clock.set(at)
		direct.Scrape(t.Context())
		for i, page := range pages {
			ingest(t, db, page(), labels[i], at)
		}
	}
	n = scrapes
	for _, pool := range []string{"", "vllm-llama"} {
		t.Run("pool "+pool, func(t *testing.T) {
			agree(t, db, direct, state.Scope{Namespace: "llm", Pool: pool, Model: "llama-70b"})
		})
	}
}

func agree(t *testing.T, db *store, direct *engine.Client, scope state.Scope) {
	t.Helper()
	viaAPI := read(t, &fakeAPI{t: t, store: db}, scope, Config{})
	viaPages := direct.Read(t.Context(), enrich.Query{Cluster: "default", Scope: scope, Signals: builtIn(t), Now: now,
		Onset: now.Add(-10 * time.Minute)})
	key := func(s state.Sample) string {
		return strings.Join([]string{s.Signal, s.Entity.Namespace, s.Entity.Pod, s.Entity.Model, s.Entity.GPU, s.Text}, "|")
	}
	want := map[string]state.Sample{}
	for _, s := range viaAPI.Samples {
		want[key(s)] = s
	}
	seen := map[string]bool{}
	for _, s := range viaPages.Samples {
		if s.Signal == "up" {
			continue // Prometheus creates it; no page has it
		}
		tolerance := 1e-9
		if s.Signal == "container_memory_slope" {
			tolerance = 0.15 // the history of six hours is thin, so a restart has another weight
		}
		seen[s.Signal], seen[s.Signal+" on "+s.Entity.Pod] = true, true
		if s.Signal == "gpu_xid_changes" && s.Value != map[string]float64{"0": 0, "1": 1}[s.Entity.GPU] {
			t.Errorf("GPU %s has %g new Xids", s.Entity.GPU, s.Value)
		}
		if s.Signal == "gateway_error_ratio" && (s.Entity.Model != "llama-70b" || !near(s.Value, 0.75, 1e-9)) {
			t.Errorf("%s fails %g of the requests for %q, want three quarters for llama-70b", s.Entity.Pod, s.Value, s.Entity.Model)
		}
		if s.Signal == "gateway_upstream_error_ratio" || s.Signal == "gateway_timeout_ratio" {
			t.Errorf("%s is %g: a picker without a count does not prove that there were none", s.Signal, s.Value)
		}
		w, ok := want[key(s)]
		delete(want, key(s))
		switch {
		case !ok:
			t.Errorf("only the direct scrape has %s = %g", key(s), s.Value)
		case !near(s.Value, w.Value, tolerance):
			t.Errorf("%s: direct %g, PromQL %g", key(s), s.Value, w.Value)
		case (s.Baseline == nil) != (w.Baseline == nil):
			t.Errorf("%s: baseline direct %v, PromQL %v", key(s), s.Baseline, w.Baseline)
		case s.Baseline != nil && !near(*s.Baseline, *w.Baseline, 0.25):
			t.Errorf("%s: baseline direct %g, PromQL %g", key(s), *s.Baseline, *w.Baseline)
		}
	}
	for k, w := range want {
		t.Errorf("only PromQL has %s = %g", k, w.Value)
	}
	for id := range strings.FieldsSeq(`kv_usage requests_running preemption_rate kv_idle_usage ttft_p95 itl_p50 arrival_rate finish_rate abort_rate
		error_rate generation_tokens_rate prompt_length_p95 prompt_length_mean prefix_hit_ratio kv_blocks_total kv_block_size process_rss
		container_memory_slope gpu_xid gpu_xid_changes gpu_fb_used_ratio gpu_clock_event gateway_error_ratio`) {
		if !seen[id] {
			t.Errorf("%s was compared with nothing", id)
		}
	}
	for _, id := range []string{"requests_waiting", "abort_rate"} {
		if !seen[id+" on vllm-llama-7d9f8b6c5-aaaa2"] {
			t.Errorf("%s of TensorRT-LLM was compared with nothing", id)
		}
	}
	for _, id := range []string{"requests_waiting", "requests_running", "kv_idle_usage", "kv_blocks_total"} {
		if !seen[id+" on vllm-llama-7d9f8b6c5-aaaa3"] {
			t.Errorf("%s of SGLang was compared with nothing", id)
		}
	}
}

func near(a, b, tolerance float64) bool {
	return math.Abs(a-b) <= tolerance*math.Max(1e-9, math.Max(math.Abs(a), math.Abs(b)))
}

// ingest adds a page to the store line by line, with a parser of its own.
func ingest(t *testing.T, db *store, page string, target map[string]string, at time.Time) {
	t.Helper()
	if err := ingestPage(db, page, target, at); err != nil {
		t.Fatal(err)
	}
}

func ingestPage(db *store, page string, target map[string]string, at time.Time) error {
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		cut := strings.LastIndex(line, " ")
		v, err := strconv.ParseFloat(line[cut+1:], 64)
		if err != nil {
			return err
		}
		labels := map[string]string{}
		for k, v := range target {
			labels[k] = v
		}
		name, rest, _ := strings.Cut(strings.TrimSuffix(line[:cut], "}"), "{")
		labels["__name__"] = name
		for pair := range strings.SplitSeq(rest, ",") {
			if k, v, ok := strings.Cut(pair, "="); ok {
				labels[k] = strings.Trim(v, `"`)
			}
		}
		db.add(labels, at, v)
	}
	return nil
}
