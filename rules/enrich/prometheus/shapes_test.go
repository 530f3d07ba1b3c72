package prometheus

import (
	"strconv"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/diagnose"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// These fleets have shapes that the lab does not have. Something changes in each at this time.
var changed = now.Add(-8 * time.Minute)

// each calls do at every scrape of two and a half hours.
func each(do func(at time.Time)) {
	for at := now.Add(-150 * time.Minute); !at.After(now); at = at.Add(15 * time.Second) {
		do(at)
	}
}

// busyPair adds two workers of a pool, which finish a rate of requests.
func busyPair(rate func(at time.Time) float64) world {
	w := world{store: &store{}}
	for _, pod := range []string{"vllm-llama-7d9f8b6c5-aaaaa", "vllm-llama-7d9f8b6c5-bbbbb"} {
		done := 0.0
		of := []string{"namespace", "llm", "pod", pod, "job", "llm/vllm", "instance", pod + ":8000"}
		engine := append(of[:len(of):len(of)], "model_name", "llama-70b", "engine", "0")
		each(func(at time.Time) {
			done += rate(at) * 15
			w.add(at, 1, append([]string{"__name__", "up"}, of...)...)
			w.add(at, done, append([]string{"__name__", "vllm:request_success_total", "finished_reason", "stop"}, engine...)...)
			w.add(at, done*300, append([]string{"__name__", "vllm:generation_tokens_total"}, engine...)...)
			w.add(at, rate(at)*15, append([]string{"__name__", "vllm:num_requests_running"}, engine...)...)
			w.add(at, 0, append([]string{"__name__", "vllm:num_requests_waiting"}, engine...)...)
			w.add(at, 1, "__name__", "kube_pod_status_ready", "condition", "true", "namespace", "llm", "pod", pod, "job", "kube-state-metrics")
		})
	}
	return w
}

// starved is the rate of a worker that gets a tenth of its requests after the change.
func starved(at time.Time) float64 {
	if at.After(changed) {
		return 0.4
	}
	return 4
}

func steady(time.Time) float64 { return 4 }

// twoWorkers returns the workers of busyPair as the API server describes them. With split, a second
// workload behind the same routes does the prefill.
func twoWorkers(split bool) fixed {
	routes := []string{"InferencePool/llama-pool", "Service/vllm-llama", "HTTPRoute/llama"}
	out := fixed{
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", Model: "llama-70b", Node: "node-0", Ready: true, Routes: routes},
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-bbbbb", Pool: "vllm-llama", Model: "llama-70b", Node: "node-1", Ready: true, Routes: routes},
	}
	if split {
		out[0].Role, out[1].Role = "decode", "decode"
		out = append(out, state.Worker{Namespace: "llm", Pod: "llama-prefill-7d9f8b6c5-ccccc", Pool: "llama-prefill", Model: "llama-70b",
			Node: "node-2", Ready: true, Routes: routes, Role: "prefill"})
	}
	return out
}

// diagnosed returns the verdict about the pair's pool after an alert, and its evidence.
func diagnosed(t *testing.T, w world, workers fixed, alert ...string) (state.Diagnosis, state.Evidence) {
	t.Helper()
	if testing.Short() {
		t.Skip("SKIPPED with -short (the race detector makes it ten times as long): run by make test")
	}
	knowledge, _, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	client, err := New(Config{URL: (&fakeAPI{t: t, store: w.store}).serve().URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client, Kubernetes: workers}}, Signals: builtIn(t),
		Deadline: time.Minute})
	scope := state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "llama-70b"}
	in := &state.Incident{ID: "INC-1", Cluster: "default", Status: state.StatusOpen, StartedAt: now.Add(-2 * time.Minute), OpenedAt: now, Scope: scope}
	a := state.Alert{Labels: map[string]string{}, StartsAt: in.StartedAt}
	for i := 0; i+1 < len(alert); i += 2 {
		a.Labels[alert[i]] = alert[i+1]
	}
	in.Count(&state.AlertRecord{Alert: a, Sign: classify.Classify(knowledge, a, "default")}, false, now)
	ev := g.Gather(t.Context(), enrich.Request{Incident: in.ID, Cluster: "default", Scope: scope, Onset: in.StartedAt, Now: now, Jobs: enrich.JobsOf(*in)})
	return diagnose.Diagnose(knowledge, in, &ev, now), ev
}

// valueOf returns the value of a signal's first sample, or a negative number if there is none.
func valueOf(ev state.Evidence, signal string) float64 {
	for _, s := range ev.Samples {
		if s.Signal == signal {
			return s.Value
		}
	}
	return -1
}

// The gateway fails most requests. Its count is found under the name of an adapter, in ambient
// mode, and where prefill and decode are two workloads behind one route.
func TestGatewayFailureIsFoundBehindAnyName(t *testing.T) {
	picker := []string{"namespace", "llm", "pod", "llama-pool-epp-5c8d7f6b9-mmmmm", "job", "llm/epp", "container", "epp"}
	adapter := append(picker[:len(picker):len(picker)], "model_name", "sql-lora")
	waypoint := []string{"reporter", "waypoint", "namespace", "llm", "pod", "llm-waypoint-5c8d7f6b9-mmmmm",
		"destination_service_name", "vllm-llama", "destination_service_namespace", "llm"}
	envoy := []string{"namespace", "envoy", "pod", "envoy-gw-5c8d7f6b9-mmmmm", "envoy_cluster_name", "httproute/llm/llama/rule/0"}
	for name, c := range map[string]struct {
		count func(w world, at time.Time, good, bad float64)
		split bool
	}{
		"an adapter": {count: func(w world, at time.Time, good, bad float64) {
			w.add(at, good+bad, append([]string{"__name__", "llm_d_epp_request_total"}, adapter...)...)
			w.add(at, bad, append([]string{"__name__", "llm_d_epp_request_error_total", "error_code", "ServiceUnavailable"}, adapter...)...)
		}},
		"a waypoint": {count: func(w world, at time.Time, good, bad float64) {
			w.add(at, good, append([]string{"__name__", "istio_requests_total", "response_code", "200"}, waypoint...)...)
			w.add(at, bad, append([]string{"__name__", "istio_requests_total", "response_code", "503"}, waypoint...)...)
		}},
		"a route to prefill and decode": {split: true, count: func(w world, at time.Time, good, bad float64) {
			w.add(at, good, append([]string{"__name__", "envoy_cluster_upstream_rq", "envoy_response_code", "200"}, envoy...)...)
			w.add(at, bad, append([]string{"__name__", "envoy_cluster_upstream_rq", "envoy_response_code", "503"}, envoy...)...)
		}},
		"an InferencePool of prefill and decode": {split: true, count: func(w world, at time.Time, _, bad float64) {
			ready := 2.0
			if bad > 0 {
				ready = 0
			}
			w.add(at, ready, append([]string{"__name__", "llm_d_epp_ready_endpoints", "name", "llama-pool"}, picker...)...)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			w := busyPair(starved)
			good, bad := 0.0, 0.0
			each(func(at time.Time) {
				if at.After(changed) {
					good, bad = good+0.8*15, bad+7.2*15
				} else {
					good += 8 * 15
				}
				c.count(w, at, good, bad)
			})
			if d, ev := diagnosed(t, w, twoWorkers(c.split), "alertname", "EPPNoReadyEndpoints", "namespace", "llm", "name", "llama-pool"); d.Cause != "gateway_failure" {
				t.Errorf("%s (%.2f): %s; %d samples", d.Cause, d.Confidence, d.Story.Why, len(ev.Samples))
			}
		})
	}
}

// A gateway's count of a model is the same requests as its workers', also if two pools serve it.
func TestGatewayCountIsNoWorkers(t *testing.T) {
	w := busyPair(steady)
	total := 0.0
	each(func(at time.Time) {
		total += 8 * 15
		w.add(at, total, "__name__", "llm_d_epp_request_total", "namespace", "llm", "pod", "llama-pool-epp-5c8d7f6b9-mmmmm", "model_name", "llama-70b")
	})
	_, ev := diagnosed(t, w, twoWorkers(true), "alertname", "Slow", "namespace", "llm")
	for _, s := range ev.Samples {
		if s.Signal == "arrival_rate" && s.Entity.Pod == "" {
			t.Errorf("%s %v has %g requests a second beside its workers", s.Signal, s.Entity, s.Value)
		}
	}
}

// Each stage of a pipeline has the queue of its engine.
func TestPipelineStagesCountOnce(t *testing.T) {
	for _, stages := range []int{1, 4} {
		w := world{store: &store{}}
		done, queue := 0.0, 0.0
		each(func(at time.Time) {
			rate := 4.0
			if at.After(changed) {
				rate, queue = 2, queue+2*15
			}
			done += rate * 15
			of := []string{"namespace", "llm", "pod", "vllm-llama-7d9f8b6c5-aaaaa", "instance", "10.1.1.1:30000", "model_name", "llama-70b"}
			w.add(at, done, append([]string{"__name__", "sglang:num_requests_total"}, of...)...)
			for stage := range stages {
				rank := append(of[:len(of):len(of)], "tp_rank", "0", "pp_rank", strconv.Itoa(stage))
				w.add(at, 60, append([]string{"__name__", "sglang:num_running_reqs"}, rank...)...)
				w.add(at, queue, append([]string{"__name__", "sglang:num_queue_reqs"}, rank...)...)
			}
		})
		_, ev := diagnosed(t, w, twoWorkers(false)[:1], "alertname", "Queue", "namespace", "llm")
		if got := valueOf(ev, "arrival_rate"); got < 3.9 || got > 4.1 {
			t.Errorf("%d stages: %g requests arrive a second, want 4", stages, got)
		}
	}
}

// The series of a container's last run can remain beside that of the present one.
func TestRestartedContainerCountsOnce(t *testing.T) {
	w := busyPair(steady)
	each(func(at time.Time) {
		id, used := "/old", 60e9
		if at.After(now.Add(-2 * time.Minute)) {
			id, used = "/new", 20e9
		}
		w.add(at, used, "__name__", "container_memory_working_set_bytes", "namespace", "llm", "pod", "vllm-llama-7d9f8b6c5-aaaaa", "container", "vllm", "id", id)
		w.add(at, 64e9, "__name__", "kube_pod_container_resource_limits", "resource", "memory", "namespace", "llm", "pod", "vllm-llama-7d9f8b6c5-aaaaa",
			"container", "vllm", "job", "kube-state-metrics")
	})
	_, ev := diagnosed(t, w, twoWorkers(false), "alertname", "PodOOMKilled", "namespace", "llm", "pod", "vllm-llama-7d9f8b6c5-aaaaa")
	if used, limit := valueOf(ev, "container_memory"), valueOf(ev, "container_memory_limit"); used > 60e9 || limit != 64e9 {
		t.Errorf("%g bytes of %g", used, limit)
	}
}

// The exporter has no utilization of a divided GPU (MIG), but that of its graphics engine.
func TestDividedGPUHasUtilization(t *testing.T) {
	w := busyPair(steady)
	each(func(at time.Time) {
		w.add(at, 0.04, "__name__", "DCGM_FI_PROF_GR_ENGINE_ACTIVE", "namespace", "gpu-operator", "pod", "nvidia-dcgm-exporter-4x7k2",
			"exported_namespace", "llm", "exported_pod", "vllm-llama-7d9f8b6c5-aaaaa", "gpu", "0", "UUID", "GPU-0", "Hostname", "node-0", "GPU_I_ID", "1")
	})
	_, ev := diagnosed(t, w, twoWorkers(false), "alertname", "GPUIdle", "namespace", "llm")
	if got := valueOf(ev, "gpu_util"); got != 4 {
		t.Errorf("utilization %g %%, want 4", got)
	}
}

// An exporter that was not told its node has its pod's name as Hostname, and one with a remote host
// engine the engine's address. Neither is the node of the broken GPU.
func TestHostnameOfExporterIsNoNode(t *testing.T) {
	for _, hostname := range []string{"nvidia-dcgm-exporter-4x7k2", "localhost", "nvidia-dcgm", "node-0"} {
		w := busyPair(steady)
		gpu := []string{"namespace", "gpu-operator", "pod", "nvidia-dcgm-exporter-4x7k2", "exported_namespace", "llm",
			"exported_pod", "vllm-llama-7d9f8b6c5-aaaaa", "gpu", "0", "UUID", "GPU-0", "Hostname", hostname}
		each(func(at time.Time) {
			xid := 0.0
			if at.After(changed) {
				xid = 79
			}
			w.add(at, xid, append([]string{"__name__", "DCGM_FI_DEV_XID_ERRORS"}, gpu...)...)
			for i, worker := range twoWorkers(false) {
				w.add(at, 1, "__name__", "kube_pod_info", "namespace", "llm", "pod", worker.Pod, "node", "node-"+strconv.Itoa(i),
					"job", "kube-state-metrics")
			}
		})
		d, ev := diagnosed(t, w, nil, append([]string{"alertname", "DCGMXidErrors"}, gpu...)...)
		if d.Cause != "gpu_fault" || len(d.Scope.Nodes) != 1 || d.Scope.Nodes[0] != "node-0" || ev.Workers[0].Node != "node-0" {
			t.Errorf("%s: %s on %v of %+v", hostname, d.Cause, d.Scope.Nodes, ev.Workers)
		}
	}
}

// Scrape configurations for annotated pods give the pods' labels to all series, and charts label
// pods with a short name of their model. The engine's own name counts.
func TestPodLabelIsNoModelsName(t *testing.T) {
	for _, known := range []fixed{twoWorkers(false), nil} {
		w := hungWorker(func(l map[string]string) { l["model"] = "llama3" })
		d, ev := diagnosed(t, w, known, "alertname", "VLLMRequestQueueBackup", "namespace", "llm", "model", "llama3", "model_name", "llama-70b")
		for _, worker := range ev.Workers {
			if worker.Model != "llama-70b" || d.Scope.Model != worker.Model || d.Cause != "engine_hang" {
				t.Errorf("%s of %q, worker %+v", d.Cause, d.Scope.Model, worker)
			}
		}
	}
}
