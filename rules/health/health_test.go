package health

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

func TestHealthCountsGroupsAndSeparatesPhases(t *testing.T) {
	high, low := 0.97, 0.4
	ev := state.Evidence{Workers: rulestest.Ring(), Samples: []state.Sample{
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "llm", Pod: "ring-1"}, Value: high},
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "llm", Pod: "fill-6c7d8f9b5-xxxx2"}, Value: low},
	}}
	got := map[string]Pool{}
	for _, p := range Of("default", ev) {
		got[p.Pool] = p
	}
	if p := got["ring"]; p.Workers != 2 || p.Pods != 4 || p.Role != "decode" || p.Owner != "LLMInferenceService/llama-svc" ||
		len(p.Routes) != 2 || p.Overall != HealthWarning {
		t.Errorf("ring: %+v", p)
	}
	if p := got["fill"]; p.Workers != 1 || p.Pods != 1 || p.Role != "prefill" || p.Overall != Healthy {
		t.Errorf("fill: %+v", p)
	}
}

// Pods with the same name in two namespaces are two. An engine that is known only by its address is
// not one of them.
func TestHealthSeparatesPools(t *testing.T) {
	ev := state.Evidence{Workers: []state.Worker{
		{Namespace: "a", Pool: "vllm", Pod: "vllm-0", Model: "m"}, {Namespace: "b", Pool: "vllm", Pod: "vllm-0", Model: "n"},
		{Model: "bare", Instance: "10.0.0.7:8000"},
	}, Samples: []state.Sample{
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "a", Pod: "vllm-0"}, Value: 0.97},
		{Signal: "kv_usage", Entity: state.Entity{Namespace: "b", Pod: "vllm-0"}, Value: 0.4},
		{Signal: "ttft_p99", Entity: state.Entity{Namespace: "b", Pool: "vllm", Model: "n"}, Value: 9},
	}}
	for _, p := range Of("default", ev) {
		if want := map[string]Status{"a": HealthWarning, "b": HealthCritical, "": Unknown}[p.Namespace]; p.Overall != want {
			t.Errorf("%s/%s %s: %s, want %s", p.Namespace, p.Pool, p.Model, p.Overall, want)
		}
		if p.Namespace == "b" && *p.Checks["kv_cache"].Value != 0.4 {
			t.Errorf("the cache of b: %+v", p.Checks["kv_cache"])
		}
	}
}

// Latency and errors decide whether a full cache, a busy GPU or an idle one is a problem. A value
// equal to a threshold is healthy.
func TestHealthDependsOnLatencyAndErrors(t *testing.T) {
	type values map[string][]float64
	well := values{"ttft_p99": {.4}, "itl_p95": {.03}, "error_rate": {0}, "requests_waiting": {0}, "kv_usage": {.6}, "preemption_rate": {0},
		"gpu_util": {70, 80}}
	for _, tc := range []struct {
		name   string
		with   values // nil: not measured
		check  string
		status Status
		note   string
		signal string
		all    Status
	}{
		{"a usual hour", nil, "gpu", Healthy, "", "gpu_util", Healthy},
		{"late first tokens", values{"ttft_p99": {2.1}}, "latency", HealthWarning, "", "ttft_p99", HealthWarning},
		{"at the border", values{"ttft_p99": {2}, "itl_p95": {.15}, "error_rate": {.01}, "requests_waiting": {50}}, "latency", Healthy, "",
			"ttft_p99", Healthy},
		{"very late first tokens", values{"ttft_p99": {5.1}, "itl_p95": {.16}}, "latency", HealthCritical, "", "ttft_p99", HealthCritical},
		{"tokens that stutter", values{"itl_p95": {.16}}, "latency", HealthWarning, "", "itl_p95", HealthWarning},
		{"only the gaps between tokens are known", values{"ttft_p99": nil}, "latency", Healthy, "", "itl_p95", Healthy},
		{"a p95 is no p99", values{"ttft_p99": nil, "itl_p95": nil, "ttft_p95": {9}}, "latency", Unknown, "", "ttft_p99", Healthy},
		{"a long queue", values{"requests_waiting": {3, 201}}, "queue", HealthCritical, "", "requests_waiting", HealthCritical},
		{"errors", values{"error_rate": {.02}}, "errors", HealthWarning, "", "error_rate", HealthWarning},

		{"a full cache that nobody waits behind", values{"kv_usage": {.99}}, "kv_cache", Healthy, "full, but no request waits",
			"kv_usage", Healthy},
		{"a full cache and a queue", values{"kv_usage": {.99}, "requests_waiting": {3}}, "kv_cache", HealthWarning,
			"full, and requests wait", "kv_usage", HealthWarning},
		{"a full cache behind an unknown queue", values{"kv_usage": {.99}, "requests_waiting": nil}, "kv_cache", HealthWarning,
			"full; the queue was not measured", "kv_usage", HealthWarning},
		{"a full cache and preemptions", values{"kv_usage": {.99}, "preemption_rate": {.2}}, "kv_cache", HealthWarning,
			"full, and requests are preempted", "kv_usage", HealthWarning},
		{"a full cache and late users", values{"kv_usage": {.5, .96}, "ttft_p99": {3}}, "kv_cache", HealthCritical,
			"full, and users feel it", "kv_usage", HealthCritical},
		{"a full cache and errors", values{"kv_usage": {.96}, "error_rate": {.02}}, "kv_cache", HealthCritical, "full, and users feel it",
			"kv_usage", HealthCritical},
		{"errors are enough where latency is unknown", values{"kv_usage": {.96}, "error_rate": {.02}, "ttft_p99": nil, "itl_p95": nil},
			"kv_cache", HealthCritical, "full, and users feel it", "kv_usage", HealthCritical},
		{"a nearly full cache and late users", values{"kv_usage": {.86}, "ttft_p99": {3}}, "kv_cache", HealthWarning,
			"nearly full while users wait or fail", "kv_usage", HealthWarning},
		{"a nearly full cache", values{"kv_usage": {.95}, "requests_waiting": {3}}, "kv_cache", Healthy, "", "kv_usage", Healthy},
		{"a full cache, and nobody knows", values{"kv_usage": {.96}, "ttft_p99": nil, "itl_p95": nil}, "kv_cache", HealthWarning,
			"full; latency and errors were not measured", "kv_usage", HealthWarning},

		{"busy GPUs", values{"gpu_util": {60, 100}}, "gpu", Healthy, "busy, but no request is late", "gpu_util", Healthy},
		{"busy GPUs and late users", values{"gpu_util": {60, 100}, "itl_p95": {.2}}, "gpu", HealthWarning, "busy, and users feel it",
			"gpu_util", HealthWarning},
		{"busy GPUs, and nobody knows", values{"gpu_util": {100}, "ttft_p99": nil, "itl_p95": nil}, "gpu", HealthWarning,
			"busy; latency and errors were not measured", "gpu_util", HealthWarning},
		{"idle GPUs", values{"gpu_util": {2, 5}}, "gpu", Healthy, "", "gpu_util", Healthy},
		{"an idle GPU while requests wait", values{"gpu_util": {2, 90}, "requests_waiting": {9}}, "gpu", HealthWarning,
			"mostly idle while requests wait", "gpu_util", HealthWarning},
		{"at the border of idle", values{"gpu_util": {30}, "requests_waiting": {9}}, "gpu", Healthy, "", "gpu_util", Healthy},
		{"two wait for the next step", values{"gpu_util": {2}, "requests_waiting": {2}}, "gpu", Healthy, "", "gpu_util", Healthy},
	} {
		ev := state.Evidence{}
		add := func(signal string, vs []float64) {
			for i, v := range vs {
				ev.Samples = append(ev.Samples,
					state.Sample{Signal: signal, Entity: state.Entity{Namespace: "llm", Pool: "p", Pod: string(rune('a' + i))}, Value: v})
			}
		}
		for signal, vs := range well {
			if other, changed := tc.with[signal]; changed {
				vs = other
			}
			add(signal, vs)
		}
		add("ttft_p95", tc.with["ttft_p95"])
		pools := Of("default", ev)
		if len(pools) != 1 {
			t.Fatalf("%s: %+v", tc.name, pools)
		}
		c := pools[0].Checks[tc.check]
		if c.Status != tc.status || c.Note != tc.note || c.Signal != tc.signal || pools[0].Overall != tc.all {
			t.Errorf("%s: %+v, over all %s", tc.name, c, pools[0].Overall)
		}
		if len(pools[0].Checks) != 5 {
			t.Errorf("%s: the checks are %v", tc.name, pools[0].Checks)
		}
	}
}

// A pool with objectives shows the error budget with the least left; others have no such check.
func TestHealthShowsErrorBudget(t *testing.T) {
	pool := state.Entity{Namespace: "llm", Pool: "p", Model: "m"}
	left := func(of map[string]float64) Check {
		ev := state.Evidence{}
		for sli, v := range of {
			ev.Samples = append(ev.Samples, state.Sample{Signal: "slo_budget_left", Entity: pool, Value: v, Text: sli, Unit: "ratio"})
		}
		ev.Samples = append(ev.Samples, state.Sample{Signal: "ttft_p99", Entity: pool, Value: .4})
		return Of("default", ev)[0].Checks["error_budget"]
	}
	if c := left(map[string]float64{"ttft": .8, "errors": .3}); c.Status != Healthy || *c.Value != .3 ||
		c.Note != "30-day budget for requests without error" {
		t.Errorf("some of it: %+v", c)
	}
	if c := left(map[string]float64{"ttft": .8, "e2e": -1.5}); c.Status != HealthWarning || *c.Value != -1.5 ||
		c.Note != "the 30-day error budget for whole requests in time is spent" {
		t.Errorf("nothing of it: %+v", c)
	}
	if c := left(nil); c.Status != "" {
		t.Errorf("nobody promised anything: %+v", c)
	}
}

// HealthSignals lists exactly the signals that Health reads. Running requests are counted over the
// workers, or else at the frontend, never both.
func TestHealthCountsRunningRequests(t *testing.T) {
	of := func(pod, instance string, v float64) state.Sample {
		return state.Sample{Signal: "requests_running",
			Entity: state.Entity{Namespace: "llm", Pool: "p", Model: "m", Pod: pod, Instance: instance}, Value: v}
	}
	for name, tc := range map[string]struct {
		samples []state.Sample
		want    float64
	}{
		"two workers":               {[]state.Sample{of("a", "", 40), of("b", "", 2)}, 42},
		"workers known by address":  {[]state.Sample{of("", "10.0.0.1:8000", 3), of("", "10.0.0.2:8000", 4)}, 7},
		"a frontend, then a worker": {[]state.Sample{of("", "", 50), of("a", "", 40), of("b", "", 2)}, 42},
		"a worker, then a frontend": {[]state.Sample{of("a", "", 40), of("", "", 50), of("b", "", 2)}, 42},
		"a frontend alone":          {[]state.Sample{of("", "", 50)}, 50},
		"an idle pool":              {[]state.Sample{of("a", "", 0)}, 0},
	} {
		p := Of("default", state.Evidence{Samples: tc.samples})[0]
		if p.Running == nil || *p.Running != tc.want {
			t.Errorf("%s: %v, want %g", name, p.Running, tc.want)
		}
		if raw, err := json.Marshal(p); err != nil || !strings.Contains(string(raw), fmt.Sprintf(`"requests_running":%g`, tc.want)) {
			t.Errorf("%s: %s (%v)", name, raw, err)
		}
	}
	if p := Of("default", state.Evidence{
		Samples: []state.Sample{{Signal: "kv_usage", Entity: state.Entity{Namespace: "llm", Pool: "p"}, Value: .4}}})[0]; p.Running != nil {
		t.Errorf("nobody tells: %g", *p.Running)
	}
}

func TestHealthSignalsExist(t *testing.T) {
	c := rulestest.MustLoad(t)
	read := Signals()
	for _, signal := range read {
		if _, known := c.Units()[signal]; !known {
			t.Errorf("%s is no signal", signal)
		}
	}
	for _, r := range healthRules {
		if !slices.Contains(read, r.signal) {
			t.Errorf("%s is not read", r.signal)
		}
	}
}

// A pool that lacks workers is not healthy: fewer ready than wanted if Kubernetes reports both,
// else pods that are not ready or do not answer. More than wanted are a rollout.
func TestHealthReportsMissingWorkers(t *testing.T) {
	pool := state.Entity{Namespace: "llm", Pool: "p", Model: "m"}
	pod := func(name string) state.Entity {
		return state.Entity{Namespace: "llm", Pool: "p", Pod: name, Model: "m"}
	}
	replicas := func(want, ready float64) []state.Sample {
		return []state.Sample{{Signal: "replicas_desired", Entity: pool, Value: want},
			{Signal: "replicas_ready", Entity: pool, Value: ready}}
	}
	starting := state.Sample{Signal: "pod_ready", Entity: pod("c")}
	for name, tc := range map[string]struct {
		samples []state.Sample
		status  Status
		note    string
	}{
		"all are there":             {replicas(4, 4), Healthy, ""},
		"two of four":               {replicas(4, 2), HealthWarning, "2 of 4 replicas are ready"},
		"none":                      {replicas(4, 0), HealthCritical, "0 of 4 replicas are ready"},
		"a rollout that starts one": {append(replicas(2, 2), starting), Healthy, ""},
		"scaled to nothing":         {replicas(0, 0), "", ""},
		"nobody says how many":      {[]state.Sample{{Signal: "kv_usage", Entity: pod("a"), Value: .2}}, "", ""},
		"a pod that is not ready": {[]state.Sample{starting, {Signal: "pod_ready", Entity: pod("a"), Value: 1}}, HealthWarning,
			"1 of 2 workers are ready"},
		"a page that does not answer": {[]state.Sample{{Signal: "up", Entity: pod("a"), Value: 1}, {Signal: "up", Entity: pod("b")}},
			HealthWarning, "1 of 2 workers are ready or answer a scrape"},
		"ready, and not scraped": {[]state.Sample{{Signal: "up", Entity: pod("a")}, {Signal: "pod_ready", Entity: pod("a"), Value: 1}},
			Healthy, ""},
	} {
		c := Of("default", state.Evidence{Samples: tc.samples})[0]
		if got := c.Checks["workers"]; got.Status != tc.status || got.Note != tc.note || healthRank[c.Overall] < healthRank[tc.status] {
			t.Errorf("%s: %+v, over all %s", name, got, c.Overall)
		}
	}
}
