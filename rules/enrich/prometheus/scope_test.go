package prometheus

import (
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/signals"
	"paramedic/state"
)

// GPUs of the nodes that an incident names are evidence, for all pods on them.
func TestGPUsOfANodeAreReadForAllItsPods(t *testing.T) {
	s := fleet()
	for at := now.Add(-10 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		s.add(map[string]string{"__name__": "DCGM_FI_DEV_GPU_TEMP", "exported_namespace": "llm",
			"exported_pod": "vllm-qwen-5c6f7d8b9-bbbb1", "gpu": "3", "Hostname": "gpu-node-1"}, at, 91)
	}
	for _, nodes := range [][]string{nil, {"gpu-node-1"}} {
		r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama", Nodes: nodes}, Config{})
		if x := find(r, "gpu_temp", "vllm-qwen-5c6f7d8b9-bbbb1"); (x != nil) != (nodes != nil) {
			t.Errorf("nodes %v: %+v", nodes, x)
		}
	}
}

// Without honor_labels, cAdvisor's namespace of a container is exported_namespace, and the
// kubelet's target has the label namespace.
func TestContainersAreReadWithoutHonorLabels(t *testing.T) {
	s := fleet()
	for at := now.Add(-10 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		for pod, namespace := range map[string]string{"vllm-llama-7d9f8b6c5-aaaaa": "llm", "web-5c6f7d8b9-bbbbb": "shop"} {
			s.add(map[string]string{"__name__": "container_memory_working_set_bytes", "namespace": "kube-system", "service": "kubelet",
				"exported_namespace": namespace, "pod": pod, "container": "main"}, at, 7e9)
		}
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
	if x := find(r, "container_memory", "vllm-llama-7d9f8b6c5-aaaaa"); x == nil || x.Entity.Namespace != "llm" {
		t.Errorf("the worker's memory: %+v", x)
	}
	if x := find(r, "container_memory", "web-5c6f7d8b9-bbbbb"); x != nil {
		t.Errorf("memory of another namespace: %+v", x)
	}
}

// A canary's name begins with the name of the stable pool, and both serve one model. The slow first
// tokens of the canary are not those of the stable pool.
func TestPoolWithALongerNameIsNotRead(t *testing.T) {
	s := fleet()
	for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		s.add(map[string]string{"__name__": "vllm:num_requests_running", "namespace": "llm", "pod": "vllm-llama-canary-6c8f7d5b9-zzzzz",
			"model_name": "llama-70b"}, at, 99)
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
	if x := find(r, "requests_running", "vllm-llama-7d9f8b6c5-aaaa0"); x == nil {
		t.Error("the pool's own worker is not read")
	}
	if x := find(r, "requests_running", "vllm-llama-canary-6c8f7d5b9-zzzzz"); x != nil {
		t.Errorf("a worker of the canary: %+v", x)
	}
}

// One store holds two clusters with the same names. Only series with the configured labels count.
func TestOnlySeriesOfTheClusterAreRead(t *testing.T) {
	s := &store{}
	for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		for cluster, v := range map[string]float64{"eu": 5, "us": 70} {
			s.add(map[string]string{"__name__": "vllm:num_requests_running", "namespace": "llm", "pod": "vllm-llama-0", "cluster": cluster,
				"model_name": "llama-70b"}, at, v)
		}
	}
	for cluster, want := range map[string]float64{"eu": 5, "us": 70} {
		r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{Match: map[string]string{"cluster": cluster}})
		if x := find(r, "requests_running", "vllm-llama-0"); x == nil || x.Value != want {
			t.Errorf("%s: %+v, want %v running", cluster, x, want)
		}
	}
}

// The label node of a pod is exported_node where the target of kube-state-metrics has a node.
func TestNodeIsReadWithoutHonorLabels(t *testing.T) {
	s := fleet()
	for at := now.Add(-10 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		s.add(map[string]string{"__name__": "kube_pod_info", "namespace": "monitoring", "node": "infra-1", "exported_namespace": "llm",
			"exported_pod": "vllm-llama-7d9f8b6c5-zzzzz", "exported_node": "gpu-node-7"}, at, 1)
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
	if x := find(r, "pod_node", "vllm-llama-7d9f8b6c5-zzzzz"); x == nil || x.Text != "gpu-node-7" {
		t.Errorf("the pod's node: %+v", x)
	}
}

// OpenMetrics writes underscores for colons if names are escaped.
func TestEscapedNamesOfSGLangAreRead(t *testing.T) {
	for _, name := range []string{"sglang:num_running_reqs", "sglang_num_running_reqs"} {
		s := &store{}
		for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
			s.add(map[string]string{"__name__": name, "namespace": "llm", "pod": "sglang-7d9f8b6c5-x7k2q", "model_name": "m", "tp_rank": "0",
				"pp_rank": "0", "instance": "10.0.0.7:30000"}, at, 7)
		}
		r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm"}, Config{})
		if x := find(r, "requests_running", "sglang-7d9f8b6c5-x7k2q"); x == nil || x.Value != 7 {
			t.Errorf("%s: %+v", name, x)
		}
	}
}

// Conditions such as AcceleratedHardwareReady of EKS are good if they are true, unlike
// GpuUnhealthy.
func TestReadyConditionsAreGood(t *testing.T) {
	s := &store{}
	for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		for node, condition := range map[string]string{"node-0": "AcceleratedHardwareReady", "node-1": "GpuUnhealthy"} {
			for _, status := range []string{"true", "false", "unknown"} {
				v := 0.0
				if status == "false" {
					v = 1
				}
				s.add(map[string]string{"__name__": "kube_node_status_condition", "node": node, "condition": condition, "status": status,
					"job": "kube-state-metrics"}, at, v)
			}
		}
	}
	var got []string
	for _, sm := range read(t, &fakeAPI{t: t, store: s}, state.Scope{Nodes: []string{"node-0", "node-1"}}, Config{}).Samples {
		if sm.Signal == "node_bad_condition" {
			got = append(got, sm.Entity.Node+" "+sm.Text)
		}
	}
	if want := []string{"node-0 AcceleratedHardwareReady=False"}; !slices.Equal(got, want) {
		t.Errorf("bad: %q, want %q", got, want)
	}
}

// The namespace of a proxy is not the one that it serves. Its codes count for the namespace of the
// backend only.
func TestGatewayCodesBelongToTheBackend(t *testing.T) {
	s := fleet()
	count := func(labels map[string]string, rate float64) {
		for at := now.Add(-2 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
			s.add(labels, at, rate*at.Sub(now.Add(-2*time.Hour)).Seconds())
		}
	}
	for to, denied := range map[string]float64{"llm": 3, "shop": 9} {
		istio := func(code string) map[string]string {
			return map[string]string{"__name__": "istio_requests_total", "namespace": "istio-system", "pod": "gateway-0",
				"reporter": "source", "destination_service_namespace": to, "destination_service_name": "vllm-llama", "response_code": code}
		}
		count(istio("200"), 10-denied)
		count(istio("403"), denied/3)
		count(istio("401"), denied*2/3)
	}
	for _, code := range []string{"200", "504"} { // half and half
		count(map[string]string{"__name__": "nginx_ingress_controller_requests", "namespace": "ingress-nginx", "exported_namespace": "llm",
			"pod": "nginx-0", "ingress": "llm", "exported_service": "vllm-llama", "status": code}, 5)
		count(map[string]string{"__name__": "envoy_cluster_upstream_rq", "namespace": "envoy-gateway-system", "pod": "envoy-0",
			"envoy_cluster_name": "httproute/llm/other/rule/0", "envoy_response_code": code}, 5)
		count(map[string]string{"__name__": "envoy_cluster_upstream_rq", "namespace": "envoy-gateway-system", "pod": "envoy-0",
			"envoy_cluster_name": "httproute/shop/other/rule/0", "envoy_response_code": code}, 5)
	}
	r := read(t, &fakeAPI{t: t, store: s}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
	got, envoy := map[string][]float64{}, false
	for _, x := range r.Samples {
		if strings.HasPrefix(x.Signal, "gateway_") && x.Entity.Namespace == "llm" && x.Entity.Pool != "other" {
			got[x.Signal] = append(got[x.Signal], math.Round(x.Value*100)/100)
		}
		if strings.HasPrefix(x.Signal, "gateway_") && x.Entity.Namespace == "shop" {
			t.Errorf("%s of another namespace: %v", x.Signal, x.Value)
		}
	}
	for _, x := range r.Samples {
		if x.Signal == "gateway_timeout_ratio" && x.Entity.Pool == "other" && x.Value == 0.5 {
			envoy = true
		}
	}
	if !envoy {
		t.Error("Envoy's 504 for a route are missing")
	}
	if !slices.Equal(got["gateway_denied_ratio"], []float64{0.3}) || !slices.Equal(got["gateway_timeout_ratio"], []float64{0}) {
		t.Errorf("Istio's: %v; where it has no 504, nginx before the same namespace does not count twice", got)
	}
}

// First aid watches a few signals of one pool. This must not cost as much as the whole namespace.
func TestFewSignalsAreReadForThePoolOnly(t *testing.T) {
	f := &fakeAPI{t: t, store: fleet()}
	q := queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now.Add(-10*time.Minute), now)
	q.Signals = slices.DeleteFunc(q.Signals, func(s signals.Signal) bool { return s.ID != "kv_usage" })
	r := fresh(t, f).Read(t.Context(), q)
	if find(r, "kv_usage", "vllm-llama-7d9f8b6c5-aaaa1") == nil || len(f.queries) < 2 {
		t.Fatalf("%d queries gave %+v", len(f.queries), r.Samples)
	}
	for _, query := range f.queries[1:] {
		if strings.Count(query, "(vllm:") != strings.Count(query, `,pod=~"vllm-llama-.*"}`) {
			t.Errorf("the whole namespace is read: %s", query)
		}
	}
}

// The queries for a pool cost in proportion to the pool, not to its namespace. If names do not
// identify the pool's pods, no pod is left out.
func TestPoolIsReadAloneIfNamesIdentifyIt(t *testing.T) {
	const own, other = "vllm-llama-7d9f8b6c5-aaaa1", "vllm-qwen-5c6f7d8b9-bbbb1"
	also := func(labels map[string]string) *store {
		s := fleet()
		labels["__name__"], labels["namespace"] = "vllm:num_requests_running", "llm"
		for at := now.Add(-2 * time.Hour); !at.After(now); at = at.Add(30 * time.Second) {
			s.add(labels, at, 7)
		}
		return s
	}
	beside := func() *store {
		return also(map[string]string{"pod": other, "instance": "10.0.9.9:8000", "model_name": "qwen"})
	}
	for _, c := range []struct {
		name   string
		store  *store
		scope  state.Scope
		alone  bool
		absent string // from the samples
	}{
		{"a pool", beside(), state.Scope{Namespace: "llm", Pool: "vllm-llama"}, true, other},
		{"a pool and its pod", beside(), state.Scope{Namespace: "llm", Pool: "vllm-llama", Pods: []string{own}}, true, other},
		{"a pod of another name", beside(), state.Scope{Namespace: "llm", Pool: "vllm-llama", Pods: []string{"router-0"}}, false, ""},
		{"a pool that no pod is named after", beside(), state.Scope{Namespace: "llm", Pool: "graph"}, false, ""},
		{"an engine without a pod's label", also(map[string]string{"instance": "10.0.9.9:8000"}), state.Scope{Namespace: "llm",
			Pool: "vllm-llama"}, false, ""},
		{"a model alone", beside(), state.Scope{Namespace: "llm", Model: "llama-70b"}, false, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := &fakeAPI{t: t, store: c.store}
			r := read(t, f, c.scope, Config{})
			if x := find(r, "requests_running", own); x == nil || x.Value != 15 {
				t.Errorf("the pool's own worker: %+v", x)
			}
			if x := find(r, "requests_running", other); c.absent != "" && x != nil {
				t.Errorf("read of another pool: %+v", x.Entity)
			}
			narrowed := 0
			for _, q := range f.queries {
				if strings.Contains(q, `pod=~"vllm-llama-.*"`) && !strings.Contains(q, "timestamp(") { // a query of the discovery is not restricted
					narrowed++
				}
			}
			if (narrowed > 0) != c.alone {
				t.Errorf("%d of %d queries are for the pool alone", narrowed, len(f.queries))
			}
			if len(f.queries) > queriesUncached {
				t.Errorf("%d queries", len(f.queries))
			}
		})
	}
}
