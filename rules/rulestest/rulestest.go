package rulestest

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/signals"
	"paramedic/state"
)

// Now is the time at which cases and tests play.
var Now = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

// MustLoad returns the built-in catalogue. A problem in it fails the test.
func MustLoad(tb testing.TB) *catalog.Catalog {
	tb.Helper()
	c, problems, err := catalog.Load("")
	if err != nil {
		tb.Fatal(err)
	}
	for _, p := range problems {
		tb.Errorf("built-in catalogue: %s", p)
	}
	return c
}

// Write writes a file into a test's folder.
func Write(t *testing.T, dir, name, data string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
}

// Attach adds an alert of a rule with a sign to an incident.
func Attach(in *state.Incident, s state.Sign, rule string, at time.Time) {
	in.Count(&state.AlertRecord{Alert: state.Alert{Labels: map[string]string{"alertname": rule}, StartsAt: at},
		Sign: s}, false, at)
}

// Fleet returns an incident of a pool of n workers whose KV caches are full, and its evidence.
func Fleet(c *catalog.Catalog, n int) (*state.Incident, *state.Evidence) {
	sigs, err := signals.LoadSignals()
	if err != nil {
		panic(err)
	}
	in := &state.Incident{ID: "INC-1", Cluster: "test", Status: state.StatusOpen, OpenedAt: Now,
		Scope: state.Scope{Cluster: "test", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama"}}
	for _, name := range []string{"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "LLMPreemptionStorm",
		"VLLMHighTTFT"} {
		s := classify.Classify(c, state.Alert{
			Labels: map[string]string{"alertname": name, "model_name": "llama-70b", "namespace": "llm"}}, "test")
		Attach(in, s, name, Now)
	}
	ev := &state.Evidence{Incident: in.ID, At: Now}
	base := 0.5
	for i := range n {
		w := state.Worker{
			Namespace: "llm", Pod: fmt.Sprintf("vllm-llama-7d9f8b6c5-%05d", i), Pool: "vllm-llama", Model: "llama-70b",
			Node: fmt.Sprintf("node-%d", i/4),
			GPUs: []string{fmt.Sprint(i % 4)}, Ready: true,
		}
		ev.Workers = append(ev.Workers, w)
		for _, s := range sigs {
			e := state.Entity{Namespace: w.Namespace, Pod: w.Pod, Pool: w.Pool, Model: w.Model, Node: w.Node}
			switch s.Per {
			case signals.PerGPU:
				e.GPU = w.GPUs[0]
			case signals.PerNode:
				e = state.Entity{Node: w.Node}
			case signals.PerPool:
				e = state.Entity{Namespace: w.Namespace, Pool: w.Pool, Model: w.Model}
			}
			value := 0.97 + float64(i)/1000
			if strings.HasPrefix(s.ID, "gpu_xid") || s.ID == "gpu_recovery_action" {
				value = 0 // or else every GPU of the pool would be broken
			}
			ev.Samples = append(ev.Samples,
				state.Sample{Signal: s.ID, Entity: e, Value: value, Baseline: &base, At: Now})
		}
	}
	// As it is gathered: signal by signal.
	slices.SortStableFunc(ev.Samples, func(a, b state.Sample) int { return cmp.Compare(a.Signal, b.Signal) })
	return in, ev
}

// Ring returns the workers of pools whose engines span several pods, and of pools beside them.
func Ring() []state.Worker {
	routes := []string{"InferencePool/llama-pool", "Gateway/public"}
	var out []state.Worker
	for _, w := range []state.Worker{
		{Pod: "ring-0", Node: "node-1", Group: "0"}, {Pod: "ring-0-1", Node: "node-2", Group: "0"},
		{Pod: "ring-1", Node: "node-3", Group: "1"}, {Pod: "ring-1-1", Node: "node-4", Group: "1"},
	} {
		w.Namespace, w.Pool, w.PoolKind, w.Model, w.Role, w.Routes = "llm", "ring", "LeaderWorkerSet", "llama-405b",
			"decode", routes
		w.OwnerKind, w.Owner = "LLMInferenceService", "llama-svc"
		out = append(out, w)
	}
	return append(out,
		state.Worker{Namespace: "llm", Pod: "fill-6c7d8f9b5-xxxx2", Pool: "fill", Node: "node-5", Model: "llama-405b",
			Role: "prefill", Routes: routes, OwnerKind: "LLMInferenceService", Owner: "llama-svc"},
		state.Worker{Namespace: "llm", Pod: "big-predictor-6c7d8f9b5-xxxx2", Pool: "big-predictor", Node: "node-7",
			Model: "deepseek", Group: "3"},
		state.Worker{Namespace: "llm", Pod: "big-predictor-worker-5b8d7c6f4-xxxx4", Pool: "big-predictor",
			Node: "node-8", Model: "deepseek", Group: "3"},
		state.Worker{Namespace: "llm", Pod: "solo-0", Pool: "solo", Node: "node-6", Model: "qwen-32b",
			Routes: []string{"InferencePool/qwen-pool"}})
}
