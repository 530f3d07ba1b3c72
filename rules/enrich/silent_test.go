package enrich

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
)

// When all engine metrics vanish, the workers are those that reported a model before and are still
// targets. Neither a target of another kind nor one that was removed is a worker.
func TestSilentWorkersAreFoundInThePast(t *testing.T) {
	at := func(n int) state.Entity { return state.Entity{Instance: fmt.Sprintf("10.0.0.%d:8000", n)} }
	ran := func(n int) state.Entity {
		e := at(n)
		e.Model = "llama"
		return e
	}
	chat, kubelet := state.ScrapeJob{Job: "llm/chat"}, state.ScrapeJob{Job: "kubelet"}
	all := []Scraped{{at(1), chat}, {at(2), chat}, {at(3), chat}, {at(7), kubelet}}
	up := func(n int, v float64) state.Sample { return sampleOf("up", at(n), v) }
	for name, c := range map[string]struct {
		reading Reading
		want    string
	}{
		"all are silent": {Reading{Samples: []state.Sample{up(1, 0), up(2, 0), up(7, 1)}, Scraped: all,
			Earlier: []state.Entity{ran(1), ran(2), ran(5)}}, "llm/chat 10.0.0.1:8000 llama false, llm/chat 10.0.0.2:8000 llama false"},
		"one never answered": {Reading{Samples: []state.Sample{sampleOf("kv_usage", ran(1), 0.2), up(1, 1), up(3, 0), up(7, 0)},
			Scraped: all}, "llm/chat 10.0.0.1:8000 llama true, llm/chat 10.0.0.3:8000 llama false"},
		"the job reads something else": {Reading{Samples: []state.Sample{sampleOf("kv_usage", ran(1), 0.2), up(1, 1), up(2, 1), up(3, 0)},
			Scraped: all}, "llm/chat 10.0.0.1:8000 llama true"},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("up", "kv_usage")
			r.Scope = state.Scope{}
			ev := gatherer(t, Cluster{Prometheus: &fixed{reading: c.reading}}).Gather(t.Context(), r)
			var got []string
			for _, w := range ev.Workers {
				got = append(got, fmt.Sprintf("%s/%s %s %s %v", w.Namespace, w.Pool, w.Instance, w.Model, w.Ready))
			}
			if d := cmp.Diff(c.want, strings.Join(got, ", ")); d != "" {
				t.Error(d)
			}
		})
	}
}

// A worker whose page never answered is still listed if Kubernetes counts it to its peers' pool, or
// if it holds GPUs. Samples of its page and its node are then evidence on the pool.
func TestUnreachableWorkerIsStillListed(t *testing.T) {
	alive, dead := state.Entity{Namespace: "llm", Pod: pod0}, state.Entity{Namespace: "llm", Pod: pod1}
	nodeOf := func(e state.Entity, ip, node string) state.Sample {
		e.Instance = ip
		s := sampleOf("pod_node", e, 1)
		s.Text = node
		return s
	}
	kube := []state.Sample{nodeOf(alive, "10.42.0.11", "node-a"), nodeOf(dead, "10.42.1.12", "node-b"), sampleOf("pod_ready", alive, 1),
		sampleOf("pod_ready", dead, 0),
		sampleOf("node_ready", state.Entity{Node: "node-a"}, 1), sampleOf("node_ready", state.Entity{Node: "node-b"}, 0),
		nodeOf(state.Entity{Namespace: "llm", Pod: "vllm-llama-router-7d9f8b6c5-ccccc"}, "10.42.0.13", "node-a"),
		nodeOf(state.Entity{Namespace: "x", Pod: pod0 + "x"}, "10.0.0.9", "node-a"), nodeOf(state.Entity{Namespace: "x", Pod: pod1 + "y"},
			"10.0.0.9", "node-a")}
	gpus := []state.Sample{sampleOf("gpu_util", state.Entity{Namespace: "llm", Pod: pod0, Node: "node-a", GPU: "0"}, 9),
		sampleOf("gpu_util", state.Entity{Namespace: "llm", Pod: pod1, Node: "node-b", GPU: "0"}, 9),
		sampleOf("gpu_util", state.Entity{Namespace: "ml", Pod: "train-0", Node: "node-c", GPU: "0"}, 9)}
	up := func(instance string, v float64) state.Sample {
		return sampleOf("up", state.Entity{Instance: instance}, v)
	}
	for name, c := range map[string]struct {
		samples []state.Sample
		workers []string
		ups     []string
	}{
		"by its address": {append(slices.Clone(kube), up("10.42.1.12:8000", 0), up("10.42.0.13:9000", 1), up("10.0.0.9:9400", 0),
			sampleOf("kv_usage", state.Entity{Instance: "10.42.0.11:8000", Model: "llama"}, 0.2),
			sampleOf("up", state.Entity{Instance: "10.42.0.11:8000", Model: "llama"}, 1)),
			[]string{pod0 + " llama node-a true", pod1 + " llama node-b false"}, []string{pod0 + " 1", pod1 + " 0"}},
		"by the path of a proxy": {append(slices.Clone(kube), up("127.0.0.1:8001/api/v1/namespaces/llm/pods/"+pod1+":8000/proxy", 0),
			up("127.0.0.1:8001/dcgm/node-b", 0),
			sampleOf("kv_usage", state.Entity{Namespace: "llm", Pod: pod0, Model: "llama"}, 0.2)),
			[]string{pod0 + " llama node-a true", pod1 + " llama node-b false"}, []string{pod1 + " 0"}},
		"all pages are down": {slices.Concat(kube, gpus, []state.Sample{up("10.42.0.11:8000", 0), up("10.42.1.12:8000", 0),
			sampleOf("gateway_error_ratio", state.Entity{Model: "llama"}, 0)}),
			[]string{pod0 + " llama node-a false", pod1 + " llama node-b false"}, []string{pod0 + " 0", pod1 + " 0"}},
		"no label names the page's pod": {[]state.Sample{up("10.42.1.12:8000", 0),
			sampleOf("kv_usage", state.Entity{Instance: "10.42.0.11:8000", Model: "llama"}, 0.2)}, []string{" llama  true"}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := request("up", "pod_ready", "pod_node", "node_ready", "kv_usage", "gpu_util", "gateway_error_ratio")
			r.Scope = state.Scope{}
			ev := gatherer(t, Cluster{Engines: &fixed{reading: Reading{Samples: c.samples}}}).Gather(t.Context(), r)
			var workers, ups []string
			pool := ""
			for _, w := range ev.Workers {
				workers = append(workers, fmt.Sprintf("%s %s %s %v", w.Pod, w.Model, w.Node, w.Ready))
				pool = w.Pool
			}
			r.Scope = state.Scope{Pool: pool, Model: "llama"}
			ev = gatherer(t, Cluster{Engines: &fixed{reading: Reading{Samples: c.samples}}}).Gather(t.Context(), r)
			sick := false
			for _, s := range ev.Samples {
				if s.Signal == "up" {
					ups = append(ups, fmt.Sprintf("%s %g", s.Entity.Pod, s.Value))
				}
				sick = sick || s.Signal == "node_ready" && s.Entity.Node == "node-b" && s.Value == 0
			}
			if d := cmp.Diff(c.workers, workers); d != "" {
				t.Error(d)
			}
			if d := cmp.Diff(c.ups, ups); d != "" {
				t.Error(d)
			}
			if sick != (len(c.ups) > 0) {
				t.Errorf("its node's condition is present: %v", sick)
			}
		})
	}
}
