package prometheus

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/diagnose"
	"paramedic/rules/enrich"
	"paramedic/state"
)

// A world is a cluster as kube-prometheus scrapes it: a pool of three workers by a PodMonitor, and
// all exporters on their nodes.
type world struct {
	*store
	workers []string
}

func (w world) add(at time.Time, v float64, labels ...string) {
	l := map[string]string{}
	for i := 0; i+1 < len(labels); i += 2 {
		l[labels[i]] = labels[i+1]
	}
	w.store.add(l, at, v)
}

// aWorld returns a world in which the nodes' exporters have as many targets as the pool. If host is
// true, the workers use the host network. The pages of silent workers have not answered for ten
// minutes.
func aWorld(host bool, silent ...int) world {
	w := world{store: &store{}, workers: []string{"vllm-llama-7d9f8b6c5-aaaaa", "vllm-llama-7d9f8b6c5-bbbbb", "vllm-llama-7d9f8b6c5-ccccc"}}
	for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		for i, pod := range w.workers {
			node, machine := fmt.Sprintf("node-%d", i), fmt.Sprintf("10.10.0.1%d", i)
			ip := fmt.Sprintf("10.42.%d.7", i)
			if host {
				ip = machine
			}
			up := 1.0
			if slices.Contains(silent, i) && at.After(now.Add(-10*time.Minute)) {
				up = 0
			}
			engine := []string{"namespace", "llm", "pod", pod, "job", "llm/vllm", "instance", ip + ":8000", "container", "vllm",
				"endpoint", "http"}
			w.add(at, up, append([]string{"__name__", "up"}, engine...)...)
			if up == 1 {
				w.add(at, 5, append([]string{"__name__", "vllm:num_requests_running", "model_name", "llama-70b"}, engine...)...)
			}
			ksm := []string{"namespace", "llm", "pod", pod, "uid", "u" + pod, "job", "kube-state-metrics", "instance", "10.42.9.9:8080"}
			w.add(at, 1, append([]string{"__name__", "kube_pod_status_ready", "condition", "true"}, ksm...)...)
			w.add(at, 1, append([]string{"__name__", "kube_pod_info", "node", node, "pod_ip", ip, "host_ip", machine}, ksm...)...)
			for _, path := range []string{"/metrics", "/metrics/cadvisor", "/metrics/probes"} {
				w.add(at, 1, "__name__", "up", "namespace", "kube-system", "job", "kubelet", "service", "kps-kubelet", "endpoint",
					"https-metrics", "node", node,
					"instance", machine+":10250", "metrics_path", path)
			}
			w.add(at, 1, "__name__", "up", "namespace", "monitoring", "job", "node-exporter", "service", "node-exporter", "pod",
				fmt.Sprintf("node-exporter-x7k2%d", i), "instance", node)
			w.add(at, 1, "__name__", "up", "job", "static-node", "instance", machine+":9100", "node", node)
			w.add(at, 1, "__name__", "up", "namespace", "gpu-operator", "job", "nvidia-dcgm-exporter", "service", "nvidia-dcgm-exporter",
				"pod", fmt.Sprintf("nvidia-dcgm-exporter-4x7k%d", i), "instance", fmt.Sprintf("10.42.%d.3:9400", i))
			w.add(at, 91, "__name__", "DCGM_FI_DEV_GPU_UTIL", "namespace", "gpu-operator", "pod", fmt.Sprintf("nvidia-dcgm-exporter-4x7k%d",
				i), "exported_namespace", "llm",
				"exported_pod", pod, "exported_container", "vllm", "gpu", "0", "UUID", "GPU-"+node, "Hostname", node, "job",
				"nvidia-dcgm-exporter", "instance", fmt.Sprintf("10.42.%d.3:9400", i))
			w.add(at, 3e9, "__name__", "process_resident_memory_bytes", "namespace", "kube-system", "job", "kubelet", "node", node,
				"instance", machine+":10250")
		}
	}
	return w
}

// measured returns the entities with a sample of a signal.
func measured(ev state.Evidence, signal string) []string {
	out := map[string]bool{}
	for _, s := range ev.Samples {
		if s.Signal == signal {
			out[strings.Trim(s.Entity.Pod+" "+s.Entity.Instance+" "+s.Entity.GPU, " ")] = true
		}
	}
	return slices.Sorted(maps.Keys(out))
}

// Exporters on the workers' nodes are not workers, whether their labels have the node's name, its
// address or both.
func TestExportersAreNotWorkers(t *testing.T) {
	knowledge, _, err := catalog.Load("")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		host bool
		kube bool
	}{"by labels": {}, "in the machines' network": {host: true}, "by Kubernetes": {kube: true},
		"by Kubernetes, in the machines' network": {true, true}} {
		t.Run(name, func(t *testing.T) {
			w := aWorld(c.host, 2)
			client, err := New(Config{URL: (&fakeAPI{t: t, store: w.store}).serve().URL, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			cluster := enrich.Cluster{Prometheus: client}
			if c.kube {
				var known fixed
				for i, pod := range w.workers {
					ip := fmt.Sprintf("10.42.%d.7", i)
					if c.host {
						ip = fmt.Sprintf("10.10.0.1%d", i)
					}
					known = append(known, state.Worker{Namespace: "llm", Pod: pod, Pool: "vllm-llama", Model: "llama-70b",
						Node: fmt.Sprintf("node-%d", i), Instance: ip + ":8000", Ready: true})
				}
				cluster.Kubernetes = known
			}
			g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": cluster}, Signals: builtIn(t),
				Deadline: time.Minute})
			in := &state.Incident{ID: "INC-1", Cluster: "default", Status: state.StatusOpen, StartedAt: now.Add(-5 * time.Minute),
				OpenedAt: now}
			a := state.Alert{Labels: map[string]string{"alertname": "TargetDown", "namespace": "llm", "job": "llm/vllm"},
				StartsAt: in.StartedAt}
			in.Count(&state.AlertRecord{Alert: a, Sign: classify.Classify(knowledge, a, "default")}, false, now)
			for _, scope := range []state.Scope{{}, {Namespace: "llm"}, {Namespace: "llm", Pool: "vllm-llama"}, {Model: "llama-70b"},
				{Nodes: []string{"node-0", "node-1", "node-2"}}} {
				ev := g.Gather(t.Context(), enrich.Request{Incident: in.ID, Cluster: "default", Scope: scope, Onset: in.StartedAt, Now: now,
					Jobs: enrich.JobsOf(*in)})
				for _, signal := range []string{"up", "process_rss", "requests_running"} {
					want := w.workers
					switch signal {
					case "process_rss":
						want = nil
					case "requests_running":
						want = w.workers[:2]
					}
					if d := cmp.Diff(want, measured(ev, signal)); d != "" {
						t.Errorf("%+v: %s (-want +got):\n%s", scope, signal, d)
					}
				}
				if len(scope.Nodes) > 0 {
					continue
				}
				if d := diagnose.Diagnose(knowledge, in, &ev, now); d.Cause != "monitoring_gap" || !slices.Equal(d.Scope.Pods, w.workers[2:]) {
					t.Errorf("%+v: %s on %v\n%s", scope, d.Cause, d.Scope.Pods, d.Story.Why)
				}
			}
		})
	}
}

// The page of a worker is that of its engine. Other scraped ports of the pod do not count: a
// proxy's page, or a port without a page.
func TestUpIsReadFromTheEnginesPage(t *testing.T) {
	for name, c := range map[string]struct{ engine, proxy, want float64 }{
		"all answer": {1, 1, 1}, "the proxy does not": {1, 0, 1}, "the engine does not": {0, 1, 0}, "neither does": {0, 0, 0},
	} {
		w := aWorld(false)
		for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
			for port, up := range map[string]float64{":9000": c.engine, ":15020": c.proxy} {
				l := []string{"namespace", "llm", "pod", "vllm-qwen-5c8d7f6b9-mmmmm", "instance", "10.42.7.7" + port, "job",
					"kubernetes-pods"}
				w.add(at, up, append([]string{"__name__", "up"}, l...)...)
				if port == ":9000" && up == 1 {
					w.add(at, 5, append([]string{"__name__", "vllm:num_requests_running", "model_name", "qwen"}, l...)...)
				}
			}
		}
		r := read(t, &fakeAPI{t: t, store: w.store}, state.Scope{Namespace: "llm"}, Config{})
		if s := find(r, "up", "vllm-qwen-5c8d7f6b9-mmmmm"); s == nil || s.Value != c.want {
			t.Errorf("%s: %+v, want %g", name, s, c.want)
		}
	}
}

// Without Kubernetes, one host has the engine and all exporters, and labels differ only in their
// ports.
func TestExportersOfOneHostAreNotWorkers(t *testing.T) {
	w := world{store: &store{}}
	for at := now.Add(-70 * time.Minute); !at.After(now); at = at.Add(30 * time.Second) {
		w.add(at, 5, "__name__", "vllm:num_requests_running", "model_name", "llama", "instance", "gpu-host:8000", "job", "vllm")
		for port, job := range map[string]string{"8000": "vllm", "9100": "node", "9400": "dcgm", "8001": "cadvisor"} {
			w.add(at, 1, "__name__", "up", "instance", "gpu-host:"+port, "job", job)
			w.add(at, 1e8, "__name__", "process_resident_memory_bytes", "instance", "gpu-host:"+port, "job", job)
		}
		w.add(at, 90, "__name__", "DCGM_FI_DEV_GPU_UTIL", "gpu", "0", "Hostname", "gpu-host", "instance", "gpu-host:9400", "job", "dcgm")
	}
	client, err := New(Config{URL: (&fakeAPI{t: t, store: w.store}).serve().URL, Timeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client}}, Signals: builtIn(t),
		Deadline: time.Minute})
	ev := g.Gather(t.Context(), enrich.Request{Cluster: "default", Scope: state.Scope{Model: "llama"}, Onset: now.Add(-5 * time.Minute),
		Now: now})
	for _, signal := range []string{"up", "process_rss", "requests_running"} {
		if d := cmp.Diff([]string{"gpu-host:8000"}, measured(ev, signal)); d != "" {
			t.Errorf("%s: %s", signal, d)
		}
	}
	if len(ev.Workers) != 1 || len(measured(ev, "gpu_util")) != 1 {
		t.Errorf("workers %+v, GPUs %v", ev.Workers, measured(ev, "gpu_util"))
	}
}
