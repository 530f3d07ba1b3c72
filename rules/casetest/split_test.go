package casetest

import (
	"strings"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/correlate"
	"paramedic/rules/diagnose"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/rules/topology"
	"paramedic/state"
)

// gathered returns the evidence of a case's lines of workers and evidence.
func gathered(t *testing.T, c *catalog.Catalog, workers, evidenceLines string) *state.Evidence {
	t.Helper()
	k := caseRun{cat: c, dir: "testdata/cases", result: &CaseResult{}, short: map[string]state.Worker{}}
	k.ev.At = rulestest.Now
	k.workers(workers)
	k.evidence("base ../healthy.evidence\n"+evidenceLines, "", 0)
	if len(k.result.Failures) > 0 {
		t.Fatal(strings.Join(k.result.Failures, "\n"))
	}
	return &k.ev
}

// firing returns the incident of a case's alerts.
func firing(c *catalog.Catalog, workers []state.Worker, alerts ...map[string]string) *caseIncident {
	var list []alertJSON
	for _, labels := range alerts {
		list = append(list, alertJSON{Labels: labels})
	}
	return incidentsOf(c, list, workers)[0]
}

const hangs = "requests_running b 44 was=60\nrequests_waiting b 35 was=0\ngeneration_tokens_rate b 0 was=2350\nprompt_tokens_rate b 0 " +
	"was=4200\nfinish_rate b 0 was=3.0\n" +
	"gpu_util b/* 100 was=91\ngpu_tensor_active b/* 0.01 was=0.37\nttft_p95 b -\n"

// StatefulSets of two namespaces, production and staging of a model, have pods with the same names.
// A verdict on one pod must not affect the other.
func TestBrokenPodIsMatchedByNamespace(t *testing.T) {
	c := rulestest.MustLoad(t)
	ev := gathered(t, c, "a llm vllm-0 vllm llama-70b node-1 0,1\nb llm vllm-1 vllm llama-70b node-2 0,1\nc llm vllm-2 vllm llama-70b "+
		"node-3 0,1\n", hangs)
	in := firing(c, ev.Workers, map[string]string{"alertname": "VLLMThroughputDrop", "severity": "warning", "model_name": "llama-70b",
		"namespace": "llm"},
		map[string]string{"alertname": "VLLMRequestQueueBackup", "severity": "warning", "model_name": "llama-70b", "namespace": "llm",
			"pod": "vllm-0"}).in
	for space, want := range map[string]state.Cause{"staging": "engine_hang", "llm": state.Unknown} {
		ev.Beside = []state.Beside{
			{Incident: "INC-9", Cause: "engine_hang", Scope: state.Scope{Namespace: space, Pool: "vllm", Pods: []string{"vllm-1"}}}}
		if got := diagnose.Diagnose(c, in, ev, rulestest.Now).Cause; got != want {
			t.Errorf("beside a hang of vllm-1 in %s: %s, want %s", space, got, want)
		}
	}
}

// An incident reports a failed node. Another incident's GPU fault on that node must not make the
// failure a new problem.
func TestFailedNodeStaysReportedDespiteGPUFaultOnIt(t *testing.T) {
	c := rulestest.MustLoad(t)
	ev := gathered(t, c, "a llm vllm-llama-7d9f8b6c5-aaaaa vllm-llama llama-70b node-1 0,1\nb llm vllm-llama-7d9f8b6c5-bbbbb vllm-llama "+
		"llama-70b node-2 0,1\n", "")
	failed := state.Beside{Incident: "INC-1", Cause: "node_failure",
		Scope: state.Scope{Namespace: "llm", Nodes: []string{"node-2"}, Pods: []string{ev.Workers[1].Pod}}}
	fault := state.Beside{Incident: "INC-2", Cause: "gpu_fault",
		Scope: state.Scope{Namespace: "llm", Nodes: []string{"node-2"}, Pods: []string{ev.Workers[1].Pod}, GPUs: []string{"1"}}}
	top := topology.NewTopology(ev.Workers)
	for _, by := range [][]state.Beside{{failed, fault}, {fault, failed}} {
		if !evidence.Broken(c, top, by).Node("node-2") {
			t.Errorf("beside %s and %s, node-2 is not told", by[0].Cause, by[1].Cause)
		}
	}
}

// A GPU of one of two workers on a node fell off the bus, then the node failed. The failure may be
// the root of the GPU fault, so it is no second problem. If it were split off, it would be merged
// and split off again at every gathering.
func TestNodeOfBrokenWorkerIsNotASecondCause(t *testing.T) {
	c := rulestest.MustLoad(t)
	ev := gathered(t, c, `a llm vllm-llama-7d9f8b6c5-aaaaa vllm-llama llama-70b node-1 0,1
b llm vllm-llama-7d9f8b6c5-bbbbb vllm-llama llama-70b node-1 2,3
c llm vllm-llama-7d9f8b6c5-ccccc vllm-llama llama-70b node-3 0,1
d llm vllm-llama-7d9f8b6c5-ddddd vllm-llama llama-70b node-3 2,3
`, "gpu_xid a/1 79\ngpu_xid_changes a/1 1\npod_last_terminated a 1 text=Error\nnode_ready node:node-1 0 was=1\npod_ready a 0\npod_ready b 0\nup a 0\nup b 0\n")
	down := func(pod string) map[string]string {
		return map[string]string{"alertname": "WorkerDown", "severity": "critical", "namespace": "llm", "pod": pod}
	}
	tr := firing(c, ev.Workers, down(ev.Workers[0].Pod),
		map[string]string{"alertname": "VLLMHighTTFT", "severity": "warning", "model_name": "llama-70b", "namespace": "llm"},
		down(ev.Workers[1].Pod))
	tr.in.Diagnosis = state.Diagnosis{Cause: "gpu_fault",
		Scope: state.Scope{Namespace: "llm", Pool: "vllm-llama", Pods: []string{ev.Workers[0].Pod}, Nodes: []string{"node-1"},
			GPUs: []string{"1"}}}
	for _, a := range diagnose.SplitOff(c, tr.in, tr.firing, ev) {
		t.Errorf("%s of %s is split off", a.Alert.Name(), a.Sign.Entity.Pod)
	}
}

// A node's alert names no pool, and the pool's alert no node, so each opens an incident. The pool's
// verdict is the same node failure, so the incident is merged. Otherwise it would stay open without
// a name.
func TestPoolAlertUsesNodeOfAnotherIncident(t *testing.T) {
	c := rulestest.MustLoad(t)
	ev := gathered(t, c, `a llm vllm-llama-7d9f8b6c5-aaaaa vllm-llama llama-70b node-1 0,1
b llm vllm-llama-7d9f8b6c5-bbbbb vllm-llama llama-70b node-2 0,1
c llm vllm-llama-7d9f8b6c5-ccccc vllm-llama llama-70b node-3 0,1
`, "node_ready node:node-1 0 was=1\npod_ready a 0\nup a 0\nengine_health a 0\nrequests_running a -\ngeneration_tokens_rate a -\n")
	machine := firing(c, ev.Workers, map[string]string{"alertname": "KubeNodeNotReady", "severity": "critical", "node": "node-1"}).in
	pool := firing(c, ev.Workers, map[string]string{"alertname": "LLMQueueBuildup", "severity": "warning", "model_name": "llama-70b",
		"namespace": "llm"}).in
	pool.ID, pool.OpenedAt = "INC-2", pool.OpenedAt.Add(45*time.Second)
	machine.Diagnosis = diagnose.Diagnose(c, machine, ev, rulestest.Now)
	ev.Beside = []state.Beside{{Incident: machine.ID, Cause: machine.Cause(), Scope: machine.Diagnosis.Scope}}
	pool.Diagnosis = diagnose.Diagnose(c, pool, ev, rulestest.Now)
	pool.Scope = pool.Diagnosis.Scope
	if !correlate.Absorbs(c, machine, pool) {
		t.Errorf("%s does not absorb %s", machine.Cause(), pool.Cause())
	}
}
