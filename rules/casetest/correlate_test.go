package casetest

import (
	"fmt"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/correlate"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// correlated processes alerts one after another and returns the incident of each.
func correlated(c *catalog.Catalog, workers []state.Worker, alerts ...map[string]string) []string {
	var list []alertJSON
	for _, l := range alerts {
		list = append(list, alertJSON{Labels: l})
	}
	var out []string
	for i := range list {
		before := incidentsOf(c, list[:i], workers)
		for n, t := range incidentsOf(c, list[:i+1], workers) {
			if n >= len(before) || len(t.alerts) > len(before[n].alerts) {
				out = append(out, string(t.in.ID))
			}
		}
	}
	return out
}

func TestCorrelate(t *testing.T) {
	c := rulestest.MustLoad(t)
	workers := []state.Worker{
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", Model: "Llama-70B", Node: "node-1",
			Instance: "10.0.0.1:8000"},
		{Namespace: "llm", Pod: "vllm-llama-7d9f8b6c5-bbbbb", Pool: "vllm-llama", Model: "Llama-70B", Node: "node-2",
			Instance: "10.0.0.2:8000"},
		{Namespace: "llm", Pod: "vllm-qwen-5c8d7f6b9-mmmmm", Pool: "vllm-qwen", Model: "qwen-32b", Node: "node-2",
			Instance: "10.0.0.3:8000"},
		{Namespace: "llm", Pod: "odd-name", Pool: "vllm-llama", Model: "Llama-70B", Node: "node-3"},
	}
	type labels = map[string]string
	for name, tt := range map[string]struct {
		alerts []labels
		same   bool
	}{
		"one model, in two spellings": {
			[]labels{{"alertname": "VLLMHighTTFT", "model_name": "Llama-70B"}, {"alertname": "DynamoQueueDepthHigh", "model": "llama-70b"}},
			true},
		"a model and a pod of its pool": {
			[]labels{{"alertname": "VLLMHighTTFT", "model_name": "llama-70b"},
				{"alertname": "KVCacheNearFull", "pod": "vllm-llama-7d9f8b6c5-aaaaa", "namespace": "llm"}}, true},
		"a pod and the address of its peer": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "vllm-llama-7d9f8b6c5-aaaaa", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "instance": "10.0.0.2:8000"}}, true},
		"topology wins over the pod's name": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "odd-name", "namespace": "llm"},
				{"alertname": "QueueBuildUp", "pod": "vllm-llama-7d9f8b6c5-aaaaa", "namespace": "llm"}}, true},
		"two models": {
			[]labels{{"alertname": "KVCacheNearFull", "model_name": "llama-70b"},
				{"alertname": "KVCacheNearFull", "model_name": "qwen-32b"}}, false},
		"two addresses of one job, by two rules": {
			[]labels{{"alertname": "VLLMWorkerDown", "job": "llm/vllm-llama", "instance": "10.0.9.1:8000"},
				{"alertname": "InstanceDown", "job": "llm/vllm-llama", "instance": "10.0.9.2:8000"}}, true},
		"two addresses of two jobs": {
			[]labels{{"alertname": "InstanceDown", "job": "llm/vllm-llama", "instance": "10.0.9.1:8000"},
				{"alertname": "InstanceDown", "job": "db/postgres", "instance": "10.0.9.2:9187"}}, false},
		"two symptoms of one job": {
			[]labels{{"alertname": "InstanceDown", "job": "kubernetes-pods", "instance": "10.0.9.1:8000"},
				{"alertname": "CertExpiry", "job": "kubernetes-pods", "instance": "10.0.9.2:9187"}}, false},
		"two pools on one node": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "vllm-llama-7d9f8b6c5-bbbbb", "namespace": "llm"},
				{"alertname": "KVCacheNearFull", "pod": "vllm-qwen-5c8d7f6b9-mmmmm", "namespace": "llm"}}, false},
		"a GPU and a pool with a pod on it": {
			[]labels{{"alertname": "LLMHighErrorRate", "model_name": "qwen-32b", "namespace": "llm"},
				{"alertname": "DCGMXidErrors", "Hostname": "node-2", "gpu": "0"}}, true},
		"two nodes, told by one exporter": {
			[]labels{{"alertname": "KubeNodeNotReady", "node": "node-1", "job": "kube-state-metrics", "instance": "10.0.9.9:8080"},
				{"alertname": "KubeNodeNotReady", "node": "node-3", "job": "kube-state-metrics", "instance": "10.0.9.9:8080"}}, false},
		"a GPU and a pool that is elsewhere": {
			[]labels{{"alertname": "LLMHighErrorRate", "model_name": "qwen-32b", "namespace": "llm"},
				{"alertname": "DCGMXidErrors", "Hostname": "node-1", "gpu": "0"}}, false},
		"a GPU and its exported pod": {
			[]labels{{"alertname": "KubePodCrashLooping", "pod": "x-5c8d7f6b9-zzzzz", "namespace": "llm"},
				{"alertname": "DCGMXidErrors", "Hostname": "node-9", "gpu": "0", "exported_pod": "x-5c8d7f6b9-zzzzz",
					"exported_namespace": "llm"}}, true},
		"a rule that aggregates all away": {
			[]labels{{"alertname": "KVCacheNearFull", "model_name": "llama-70b"}, {"alertname": "LLMHighTTFT"}}, true},
		"the same, first": {
			[]labels{{"alertname": "LLMHighTTFT"}, {"alertname": "KVCacheNearFull", "model_name": "llama-70b"}}, true},
		"one rule and place, about nothing": {
			[]labels{{"alertname": "DiskFull", "namespace": "db", "instance": "a:1"},
				{"alertname": "DiskFull", "namespace": "db", "instance": "b:1"}}, true},
		"two places, about nothing": {
			[]labels{{"alertname": "DiskFull", "namespace": "db"}, {"alertname": "DiskFull", "namespace": "web"}}, false},
		"something else does not join a model": {
			[]labels{{"alertname": "KVCacheNearFull", "model_name": "llama-70b", "namespace": "llm"},
				{"alertname": "CertExpiry", "namespace": "llm"}}, false},
		"what nothing knows joins its pod": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "vllm-llama-7d9f8b6c5-aaaaa", "namespace": "llm"},
				{"alertname": "Odd", "pod": "vllm-llama-7d9f8b6c5-aaaaa", "namespace": "llm"}}, true},
		"one pod's name in two namespaces": {
			[]labels{{"alertname": "KVCacheNearFull", "pod": "vllm-0", "namespace": "a"},
				{"alertname": "QueueBuildUp", "pod": "vllm-0", "namespace": "b"}}, false},
		"DCGM's model is no model of ours": {
			[]labels{{"alertname": "GPUMemoryHighUtilization", "modelName": "NVIDIA H100", "Hostname": "node-7", "gpu": "0"},
				{"alertname": "GPUMemoryHighUtilization", "modelName": "NVIDIA H100", "Hostname": "node-8", "gpu": "0"}}, false},
		"all GPUs of one pool's workers as one": {
			[]labels{
				{"alertname": "GPUMemoryHighUtilization", "Hostname": "node-1", "gpu": "0", "exported_pod": "vllm-llama-7d9f8b6c5-aaaaa",
					"exported_namespace": "llm"}, {"alertname": "GPUMemoryHighUtilization", "Hostname": "node-2", "gpu": "1",
					"exported_pod": "vllm-llama-7d9f8b6c5-bbbbb", "exported_namespace": "llm"}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got := correlated(c, workers, tt.alerts...)
			if same := got[0] == got[len(got)-1]; same != tt.same {
				t.Errorf("incidents %v", got)
			}
		})
	}
}

// A worker that is missing after a restart or a rollout, by which a person fixes the pool, is no
// new problem.
func TestRemediationSideEffectsJoinTheIncident(t *testing.T) {
	c := rulestest.MustLoad(t)
	for name, tt := range map[string]struct {
		symptom state.Symptom
		touch   func(*state.Incident)
		same    bool
	}{
		"a worker is down, and nobody did anything": {"worker_down", func(*state.Incident) {}, false},
		"a worker is down after first aid":          {"worker_down", func(in *state.Incident) { in.Actions = []state.ActionID{"a"} }, true},
		"a rollout hangs that somebody began":       {"rollout_stuck", func(in *state.Incident) { in.AckedAt = rulestest.Now }, true},
		"a GPU breaks after first aid": {"gpu_hardware", func(in *state.Incident) { in.Actions = []state.ActionID{"a"} },
			false},
	} {
		in := &state.Incident{ID: "1", Status: state.StatusMonitoring, Scope: state.Scope{Namespace: "llm", Pool: "chat"},
			StartedAt: rulestest.Now, OpenedAt: rulestest.Now,
			Diagnosis: state.Diagnosis{Cause: "kv_leak", Explains: []state.Symptom{"kv_pressure"}},
			Symptoms:  []state.SymptomCount{{Symptom: "kv_pressure"}}}
		tt.touch(in)
		_, same := correlate.Correlate(c, state.Sign{Symptom: tt.symptom, Entity: state.Entity{Namespace: "llm", Pool: "chat"}}, nil,
			[]*state.Incident{in}, rulestest.Now)
		if same != tt.same {
			t.Errorf("%s: joins %v, want %v", name, same, tt.same)
		}
	}
}

func TestVagueAlertJoinsNoIncident(t *testing.T) {
	c := rulestest.MustLoad(t)
	got := correlated(c, nil, map[string]string{"alertname": "KVCacheNearFull", "model_name": "a"},
		map[string]string{"alertname": "KVCacheNearFull", "model_name": "b"},
		map[string]string{"alertname": "LLMHighTTFT"})
	if got[2] == got[0] || got[2] == got[1] {
		t.Errorf("an alert that could mean either of two incidents joined one: %v", got)
	}
}

func TestCorrelateIgnoresOrderOfIncidents(t *testing.T) {
	c := rulestest.MustLoad(t)
	var open []*state.Incident
	for i := range 6 {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%d", i)), Cluster: "c", Status: state.StatusOpen, OpenedAt: rulestest.Now}
		rulestest.Attach(in, classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "QueueBuildUp", "model_name": "m", "namespace": "llm"}},
			"c"), "QueueBuildUp", rulestest.Now)
		open = append(open, in)
	}
	s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "KVCacheNearFull", "model_name": "M"}}, "c")
	want, _ := correlate.Correlate(c, s, nil, open, rulestest.Now)
	for range open {
		open = append(open[1:], open[0])
		if got, _ := correlate.Correlate(c, s, nil, open, rulestest.Now); got != want {
			t.Fatalf("%s, then %s", want, got)
		}
	}
}

func TestOldIncidentTakesOnlyExplainedAlerts(t *testing.T) {
	c := rulestest.MustLoad(t)
	in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen, OpenedAt: rulestest.Now}
	rulestest.Attach(in, classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "KVCacheNearFull", "model_name": "m"}}, "c"),
		"KVCacheNearFull", rulestest.Now)
	in.Diagnosis = state.Diagnosis{Cause: "kv_exhaustion", Explains: []state.Symptom{"kv_pressure", "queue_buildup"}}
	at := rulestest.Now.Add(5 * time.Hour)
	for rule, want := range map[string]bool{"QueueBuildUp": true, "KVCacheNearFull": true, "DynamoPrefixCacheHitRateLow": false} {
		s := classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": rule, "model_name": "m"}}, "c")
		if _, ok := correlate.Correlate(c, s, nil, []*state.Incident{in}, at); ok != want {
			t.Errorf("%s joined: %t, want %t", rule, ok, want)
		}
	}
	in.Status = state.StatusResolved
	if _, ok := correlate.Correlate(c, classify.Classify(c, state.Alert{Labels: map[string]string{"alertname": "KVCacheNearFull", "model_name": "m"}}, "c"), nil,
		[]*state.Incident{in}, rulestest.Now); ok {
		t.Error("a resolved incident took an alert")
	}
}

func TestAbsorbs(t *testing.T) {
	c := rulestest.MustLoad(t)
	incident := func(id string, cause state.Cause, scope state.Scope, symptoms ...state.Symptom) *state.Incident {
		in := &state.Incident{ID: state.IncidentID(id), Cluster: "c", Status: state.StatusOpen, OpenedAt: rulestest.Now, Scope: scope}
		in.Diagnosis.Cause = cause
		if k, ok := c.Cause(cause); ok {
			in.Diagnosis.Scope = scope
			for s := range k.Explains {
				in.Diagnosis.Explains = append(in.Diagnosis.Explains, s)
			}
		}
		for _, s := range symptoms {
			in.Symptoms = append(in.Symptoms, state.SymptomCount{Symptom: s})
		}
		return in
	}
	llama := state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "llama-70b", Pods: []string{"p1"}}
	younger := func(by time.Duration) *state.Incident {
		in := incident("1", "kv_exhaustion", llama, "kv_pressure")
		in.StartedAt = in.StartedAt.Add(by)
		return in
	}
	qwen := state.Scope{Namespace: "llm", Pool: "vllm-qwen", Model: "qwen-32b", Pods: []string{"q1"}, Nodes: []string{"node-2"}}
	machine := state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "llama-70b", Pods: []string{"p1"}, Nodes: []string{"node-2"}}
	chat := state.Scope{Namespace: "chat", Pool: "vllm-qwen", Model: "qwen-32b", Pods: []string{"q1"}, Nodes: []string{"node-2"}}
	elsewhere := state.Scope{Namespace: "chat", Pool: "vllm-qwen", Model: "qwen-32b", Pods: []string{"q2"}, Nodes: []string{"node-3"}}
	gpu := state.Scope{Nodes: []string{"node-2"}, GPUs: []string{"0"}, Pods: []string{"q1"}, Namespace: "llm"}
	for name, tt := range map[string]struct {
		root, other *state.Incident
		want        bool
	}{
		"an undiagnosed consequence": {incident("1", "kv_exhaustion", llama, "kv_pressure"), incident("2", "", llama, "ttft_high"),
			true},
		"a symptom it does not explain": {incident("1", "kv_exhaustion", llama, "kv_pressure"), incident("2", "", llama, "gpu_hardware"),
			false},
		"another pool": {incident("1", "kv_exhaustion", llama, "kv_pressure"), incident("2", "", qwen, "ttft_high"),
			false},
		"a GPU under a pool's hang": {incident("1", "gpu_fault", gpu, "gpu_hardware"),
			incident("2", "engine_hang", qwen, "throughput_drop"), true},
		"a machine under another space": {incident("1", "node_failure", machine, "worker_down"), incident("2", "", chat, "target_down"),
			true},
		"another machine": {incident("1", "node_failure", machine, "worker_down"),
			incident("2", "", elsewhere, "target_down"), false},
		"a hang never absorbs its GPU": {incident("2", "engine_hang", qwen, "throughput_drop"),
			incident("1", "gpu_fault", gpu, "gpu_hardware"), false},
		"a cause of its own": {incident("1", "kv_exhaustion", llama, "kv_pressure"),
			incident("2", "engine_hang", llama, "throughput_drop"), false},
		"noise": {incident("1", "kv_exhaustion", llama, "kv_pressure"),
			incident("2", "benign_alert", llama, "gpu_memory_high"), true},
		"the same cause, older": {incident("1", "kv_exhaustion", llama, "kv_pressure"),
			incident("2", "kv_exhaustion", llama, "kv_pressure"), true},
		"the same cause, odd alert later": {incident("1", "kv_exhaustion", llama, "kv_pressure"),
			incident("2", "kv_exhaustion", llama, "gpu_hardware"), true},
		"the same cause, younger": {incident("2", "kv_exhaustion", llama, "kv_pressure"),
			incident("1", "kv_exhaustion", llama, "kv_pressure"), false},
		"no verdict absorbs nothing": {incident("1", "unknown", llama, "kv_pressure"), incident("2", "", llama, "ttft_high"), false},
		"one benign rule on two nodes": {incident("1", "benign_alert", state.Scope{Nodes: []string{"node-2"}}, "gpu_memory_high"),
			incident("2", "benign_alert", state.Scope{Nodes: []string{"node-3"}}, "gpu_memory_high"), true},
		"two benign rules": {incident("1", "benign_alert", state.Scope{Nodes: []string{"node-2"}}, "gpu_memory_high"),
			incident("2", "benign_alert", state.Scope{Nodes: []string{"node-3"}}, "kv_pressure"), false},
		"one benign rule on two pools": {incident("1", "benign_alert", llama, "kv_pressure"),
			incident("2", "benign_alert", qwen, "kv_pressure"), false},
		"itself": {incident("1", "kv_exhaustion", llama, "kv_pressure"), incident("1", "", llama, "kv_pressure"),
			false},
		"one that names no place": {incident("1", "kv_exhaustion", llama, "kv_pressure"),
			incident("2", "", state.Scope{}, "unclassified"), false},
		"a skew behind a full cache": {incident("1", "routing_skew", llama, "queue_buildup"),
			incident("2", "kv_exhaustion", llama, "kv_pressure"), true},
		"a full cache does not take skew": {incident("2", "kv_exhaustion", llama, "kv_pressure"),
			incident("1", "routing_skew", llama, "queue_buildup"), false},
		"one without a place that began with it":      {younger(time.Minute), incident("2", "", state.Scope{}, "ttft_high"), true},
		"one without a place that began hours before": {younger(8 * time.Hour), incident("2", "", state.Scope{}, "ttft_high"), false},
	} {
		if got := correlate.Absorbs(c, tt.root, tt.other); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

// Two incidents of one pool without a verdict are one, except for alerts that are not about
// inference. If a fleet has only one pool, the verdict on a full disk is about that pool, too.
func TestTwoUnknownIncidentsOfAPoolMerge(t *testing.T) {
	c := rulestest.MustLoad(t)
	incident := func(id string, s state.SymptomCount) *state.Incident {
		s.Last = rulestest.Now
		return &state.Incident{ID: state.IncidentID(id), Cluster: "c", Status: state.StatusOpen, OpenedAt: rulestest.Now,
			Symptoms:  []state.SymptomCount{s},
			Diagnosis: state.Diagnosis{Cause: state.Unknown, Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama"}}}
	}
	late, slow := state.SymptomCount{Symptom: "ttft_high"}, state.SymptomCount{Symptom: "itl_high"}
	disk := state.SymptomCount{Symptom: state.Unclassified, Hints: map[string]string{"group": "DiskFull"}}
	for name, tt := range map[string]struct {
		root, other state.SymptomCount
		want        bool
	}{"late, and late": {late, slow, true}, "late, and a full disk": {late, disk, false}, "a full disk, and late": {disk, late, false},
		"two full disks": {disk, disk, false}} {
		if got := correlate.Absorbs(c, incident("1", tt.root), incident("2", tt.other)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
	bare := func(id, model string) *state.Incident { // its workers have an address only
		in := incident(id, late)
		in.Diagnosis.Scope = state.Scope{Model: model}
		return in
	}
	if !correlate.Absorbs(c, bare("1", "llama"), bare("2", "Llama")) || correlate.Absorbs(c, bare("1", "llama"), bare("2", "qwen")) ||
		correlate.Absorbs(c, bare("1", ""), bare("2", "")) {
		t.Error("where no pool is known, incidents of one model merge and no others")
	}
}

// A worker that is lost to memory, a crash or a rollout leaves its load to the others and comes
// back with a cold cache. The chains are: pod loss or rollout → survivors hot, cold caches; host
// leak → OOM kill → cold start → pool overload; Xid → hang (engine.md §4.1).
func TestLostWorkerAbsorbsOverloadedPool(t *testing.T) {
	c := rulestest.MustLoad(t)
	pool := state.Scope{Namespace: "llm", Pool: "vllm-llama", Model: "llama-70b"}
	incident := func(id string, cause state.Cause, scope state.Scope, at time.Duration, symptoms ...state.Symptom) *state.Incident {
		in := &state.Incident{ID: state.IncidentID(id), Cluster: "c", Status: state.StatusOpen, StartedAt: rulestest.Now.Add(at),
			OpenedAt: rulestest.Now.Add(at), Scope: scope}
		k, ok := c.Cause(cause)
		if !ok {
			t.Fatalf("no cause %s", cause)
		}
		in.Diagnosis = state.Diagnosis{Cause: cause, Scope: scope}
		for s := range k.Explains {
			in.Diagnosis.Explains = append(in.Diagnosis.Explains, s)
		}
		for _, s := range symptoms {
			in.Symptoms = append(in.Symptoms, state.SymptomCount{Symptom: s})
		}
		return in
	}
	full := func(scope state.Scope, at time.Duration) *state.Incident {
		return incident("2", "kv_exhaustion", scope, at, "kv_pressure", "preemptions", "ttft_high")
	}
	const late = 6 * time.Minute // the root's alert is often the later one
	for root, symptom := range map[state.Cause]state.Symptom{"host_memory_leak": "oom", "oom_killed": "oom", "cold_start": "worker_down",
		"bad_rollout":        "rollout_stuck",
		"model_load_failure": "crash_loop", "engine_hang": "throughput_drop", "gpu_fault": "gpu_hardware", "node_failure": "worker_down",
		"cuda_oom": "crash_loop"} {
		r := incident("1", root, pool, late, symptom)
		if !correlate.Absorbs(c, r, full(pool, 0)) {
			t.Errorf("%s does not take the full caches of the workers that are left", root)
		}
		if !correlate.Absorbs(c, r, incident("2", "concurrency_cap", pool, 0, "queue_buildup", "ttft_high")) {
			t.Errorf("%s does not take the queues of the workers that are left", root)
		}
		if root != "engine_hang" && !correlate.Absorbs(c, r, incident("2", "prefix_cache_collapse", pool, 0, "prefix_hit_low")) {
			t.Errorf("%s does not take the cold caches", root)
		}
		if correlate.Absorbs(c, full(pool, 0), r) {
			t.Errorf("full caches take %s", root)
		}
		for name, other := range map[string]*state.Incident{
			"another pool":            full(state.Scope{Namespace: "llm", Pool: "vllm-qwen", Model: "qwen-32b"}, 0),
			"what began hours before": full(pool, late-2*time.Hour),
			"a surge of traffic":      incident("2", "traffic_surge", pool, 0, "queue_buildup"),
			"a change of the answers": incident("2", "quality_regression", pool, 0, "quality"),
			"a leak of KV blocks on other worker": incident("2", "kv_leak",
				state.Scope{Namespace: "llm", Pool: "vllm-llama", Pods: []string{"b"}}, 0, "kv_pressure"),
		} {
			if correlate.Absorbs(c, r, other) {
				t.Errorf("%s takes %s", root, name)
			}
		}
	}
	for _, edge := range [][2]state.Cause{{"host_memory_leak", "oom_killed"}, {"host_memory_leak", "cold_start"},
		{"oom_killed", "cold_start"}, {"bad_rollout", "cold_start"}, {"gpu_fault", "cold_start"},
		{"node_failure", "cold_start"}, {"cuda_oom", "cold_start"}, {"gpu_fault", "engine_hang"}} {
		symptoms := map[state.Cause]state.Symptom{"oom_killed": "oom", "cold_start": "worker_down", "engine_hang": "throughput_drop"}
		if !correlate.Absorbs(c, incident("1", edge[0], pool, late, "worker_down"), incident("2", edge[1], pool, 0, symptoms[edge[1]])) {
			t.Errorf("%s does not lead to %s", edge[0], edge[1])
		}
	}
	// Growing memory alone has not overloaded another worker yet.
	if correlate.Absorbs(c, incident("1", "host_memory_leak", pool, 0, "memory_growth"), full(pool, late)) {
		t.Error("a leak that has cost no worker takes the pool's full caches")
	}
}

// A verdict that names broken workers keeps another worker's own problem out, and does not absorb
// it later. The load on the neighbours of a broken worker is still a part of the incident, and so
// is the same leak on one more worker.
func TestTwoBrokenWorkersOfOnePoolAreTwoIncidents(t *testing.T) {
	c := rulestest.MustLoad(t)
	now := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	workers := []state.Worker{
		{Namespace: "llm", Pod: "vllm-a", Pool: "vllm", Model: "m", Node: "node-1"},
		{Namespace: "llm", Pod: "vllm-b", Pool: "vllm", Model: "m", Node: "node-2"},
	}
	found := func(cause state.Cause, pod, node string, symptoms ...state.Symptom) *state.Incident {
		in := &state.Incident{ID: state.IncidentID("INC-" + string(cause) + pod), Status: state.StatusOpen, OpenedAt: now, DiagnosedAt: now,
			Scope:     state.Scope{Namespace: "llm", Pool: "vllm", Model: "m"},
			Diagnosis: state.Diagnosis{Cause: cause, Scope: state.Scope{Pods: []string{pod}}}}
		if node != "" {
			in.Diagnosis.Scope.Nodes = []string{node}
		}
		if known, ok := c.Cause(cause); ok {
			for s := range known.Explains {
				in.Diagnosis.Explains = append(in.Diagnosis.Explains, s)
			}
		}
		for _, s := range symptoms {
			in.Symptoms = append(in.Symptoms,
				state.SymptomCount{Symptom: s, Last: now, Entities: []state.Entity{{Namespace: "llm", Pod: pod}}})
		}
		return in
	}
	fault := found("gpu_fault", "vllm-b", "node-2", "gpu_hardware")
	hang := found("engine_hang", "vllm-a", "", "throughput_drop")
	leak := found("host_memory_leak", "vllm-a", "", "memory_growth")
	for name, tt := range map[string]struct {
		in      *state.Incident
		symptom state.Symptom
		pod     string
		joins   bool
	}{
		"GPU memory grows beside a hang":         {hang, "gpu_memory_high", "vllm-b", false},
		"an engine stops beside a failed GPU":    {fault, "throughput_drop", "vllm-a", false},
		"an engine stops on the failed GPU":      {fault, "throughput_drop", "vllm-b", true},
		"the neighbours of a failed GPU queue":   {fault, "queue_buildup", "vllm-a", true},
		"memory grows beside a hang":             {hang, "memory_growth", "vllm-b", false},
		"memory grows on one more worker":        {leak, "memory_growth", "vllm-b", true},
		"the neighbours of a hang queue":         {hang, "queue_buildup", "vllm-b", true},
		"a hung worker's container ends, by OOM": {leak, "oom", "vllm-a", true},
	} {
		s := state.Sign{Symptom: tt.symptom, Entity: state.Entity{Namespace: "llm", Pod: tt.pod}}
		if _, joins := correlate.Correlate(c, s, workers, []*state.Incident{tt.in}, now); joins != tt.joins {
			t.Errorf("%s: joins %v, want %v", name, joins, tt.joins)
		}
	}
	held := state.Sign{Symptom: "kv_pressure", Entity: state.Entity{Namespace: "llm", Pod: "vllm-b"},
		Hints: map[string]string{"idle_kv": "true"}}
	if _, joins := correlate.Correlate(c, held, workers, []*state.Incident{hang}, now); joins {
		t.Error("a hang has taken the KV cache that another worker holds while it runs nothing")
	}
	// Both are about the pool that has a worker on the node; the younger is about the node.
	killed, failed := found("oom_killed", "vllm-a", "", "oom"), found("node_failure", "vllm-b", "node-2", "worker_down")
	failed.OpenedAt = now.Add(time.Minute)
	down := state.Sign{Symptom: "worker_down", Entity: state.Entity{Node: "node-2"}}
	if id, _ := correlate.Correlate(c, down, workers, []*state.Incident{killed, failed}, now); id != failed.ID {
		t.Errorf("what is said of a failed machine joins %s", id)
	}
	for name, tt := range map[string]struct {
		symptom state.Symptom
		pod     string
		takes   bool
	}{
		"what grows on another worker":   {"gpu_memory_high", "vllm-a", false},
		"what grows on the same":         {"gpu_memory_high", "vllm-b", true},
		"the queues of the other worker": {"queue_buildup", "vllm-a", true},
	} {
		other := found(state.Unknown, tt.pod, "", tt.symptom)
		other.Scope.Pods = []string{tt.pod}
		if got := correlate.Absorbs(c, fault, other); got != tt.takes {
			t.Errorf("a GPU's fault takes %s, which has no name yet: %v", name, got)
		}
	}
	if correlate.Absorbs(c, fault, hang) {
		t.Error("a GPU's fault swallowed the hang of another worker")
	}
	if same := found("engine_hang", "vllm-b", "", "throughput_drop"); !correlate.Absorbs(c, fault, same) {
		t.Error("a GPU's fault does not take the hang that it made")
	}
}

// An unclassified alert gets a verdict from the evidence, and joins the incident with the same
// verdict on the same pool.
func TestUnclassifiedWithSameVerdictIsAbsorbed(t *testing.T) {
	c := rulestest.MustLoad(t)
	incident := func(id string, cause state.Cause, pool string, s state.SymptomCount) *state.Incident {
		scope := state.Scope{Namespace: "llm", Pool: pool}
		return &state.Incident{ID: state.IncidentID(id), Cluster: "c", Status: state.StatusOpen, OpenedAt: rulestest.Now, Scope: scope,
			Symptoms:  []state.SymptomCount{s},
			Diagnosis: state.Diagnosis{Cause: cause, Scope: scope, Explains: []state.Symptom{"kv_pressure"}}}
	}
	full := incident("2", "kv_exhaustion", "vllm-llama", state.SymptomCount{Symptom: "kv_pressure"})
	odd := state.SymptomCount{Symptom: state.Unclassified, Hints: map[string]string{"group": "Odd"}}
	for name, tt := range map[string]struct {
		id, pool string
		cause    state.Cause
		want     bool
	}{
		"the same, younger":    {"3", "vllm-llama", "kv_exhaustion", true},
		"the same, older":      {"1", "vllm-llama", "kv_exhaustion", false},
		"of another pool":      {"3", "vllm-qwen", "kv_exhaustion", false},
		"without a verdict":    {"3", "vllm-llama", state.Unknown, false},
		"with another verdict": {"3", "vllm-llama", "gpu_fault", false},
	} {
		if got := correlate.Absorbs(c, full, incident(tt.id, tt.cause, tt.pool, odd)); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
