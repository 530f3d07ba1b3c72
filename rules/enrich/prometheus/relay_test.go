package prometheus

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// hungWorker returns two workers of a pool, of which the first hangs after the change. relabel
// gives the labels of each series.
func hungWorker(relabel func(l map[string]string)) world {
	w := world{store: &store{}}
	for i, worker := range twoWorkers(false) {
		done, queue := 0.0, 0.0
		each(func(at time.Time) {
			running := 20.0
			if i == 0 && at.After(changed) {
				queue += 4 * 15
			} else {
				done += 4 * 15
			}
			for name, v := range map[string]float64{"up": 1, "vllm:request_success_total": done, "vllm:generation_tokens_total": done * 300,
				"vllm:num_requests_running": running, "vllm:num_requests_waiting": queue, "vllm:kv_cache_usage_perc": 0.4,
				"process_resident_memory_bytes": 2e9} {
				l := map[string]string{"__name__": name, "namespace": "llm", "pod": worker.Pod, "job": "llm/vllm",
					"instance": fmt.Sprintf("10.42.0.%d:8000", i)}
				if name != "up" && name != "process_resident_memory_bytes" {
					l["model_name"] = worker.Model
				}
				relabel(l)
				w.store.add(l, at, v)
			}
			w.add(at, 0, "__name__", "DCGM_FI_DEV_XID_ERRORS", "namespace", "observability", "pod", "otel-collector-6f8d9c7b5-x2v4k", "gpu", "0",
				"exported_namespace", "llm", "exported_pod", worker.Pod, "Hostname", worker.Node)
		})
	}
	return w
}

// ofCollector gives a series the labels of the collector whose page it is on.
func ofCollector(l map[string]string) {
	l["exported_job"], l["exported_instance"] = l["job"], l["instance"]
	l["namespace"], l["pod"], l["job"], l["instance"] = "observability", "otel-collector-6f8d9c7b5-x2v4k", "otel-collector", "10.42.7.7:8889"
}

// collectors are the forms of the labels of series that Prometheus reads from a collector's page.
var collectors = map[string]func(l map[string]string){
	"renamed": func(l map[string]string) {
		l["exported_namespace"], l["exported_pod"] = l["namespace"], l["pod"]
		ofCollector(l)
	},
	"described": func(l map[string]string) {
		l["k8s_namespace_name"], l["k8s_pod_name"] = l["namespace"], l["pod"]
		ofCollector(l)
	},
	"described, in the namespace of the workers": func(l map[string]string) {
		l["k8s_namespace_name"], l["k8s_pod_name"] = l["namespace"], l["pod"]
		ofCollector(l)
		l["namespace"] = "llm"
	},
	"pushed": func(l map[string]string) {
		l["k8s_namespace_name"], l["k8s_pod_name"] = l["namespace"], l["pod"]
		delete(l, "namespace")
		delete(l, "pod")
	},
	"both": func(l map[string]string) { l["k8s_namespace_name"], l["k8s_pod_name"] = l["namespace"], l["pod"] },
}

// A collector reads the workers' pages, and Prometheus reads the collector's. The labels pod and
// namespace are then the collector's own.
func TestRelayedWorkersAreDiagnosed(t *testing.T) {
	hung := twoWorkers(false)[0]
	for name, relabel := range collectors {
		for _, known := range []fixed{twoWorkers(false), nil} {
			alert := map[string]string{"alertname": "VLLMRequestQueueBackup", "namespace": "llm", "pod": hung.Pod, "job": "llm/vllm",
				"model_name": hung.Model}
			relabel(alert)
			var labels []string
			for k, v := range alert {
				labels = append(labels, k, v)
			}
			d, ev := diagnosed(t, hungWorker(relabel), known, labels...)
			if d.Cause != "engine_hang" || !slices.Equal(d.Scope.Pods, []string{hung.Pod}) || d.Scope.Namespace != "llm" {
				t.Errorf("%s: %s (%.2f) of %+v", name, d.Cause, d.Confidence, d.Scope)
			}
			if got := measured(ev, "process_rss"); len(got) != 2 || len(ev.Workers) != 2 {
				t.Errorf("%s: memory of %v, workers %+v", name, got, ev.Workers)
			}
		}
	}
}

// A survey of the whole fleet tells the workers of a collector's page from each other.
func TestSurveySeesRelayedWorkers(t *testing.T) {
	for name, relabel := range collectors {
		client, err := New(Config{URL: (&fakeAPI{t: t, store: hungWorker(relabel).store}).serve().URL, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		g := enrich.New(enrich.Config{Clusters: map[string]enrich.Cluster{"default": {Prometheus: client}}, Signals: builtIn(t),
			Deadline: time.Minute})
		ev := g.Gather(t.Context(), enrich.Request{Cluster: "default", Onset: now, Now: now})
		if got := measured(ev, "requests_running"); len(got) != 2 || ev.Workers[0].Namespace != "llm" || ev.Workers[0].Pool != "vllm-llama" {
			t.Errorf("%s: %v, workers %+v", name, got, ev.Workers)
		}
	}
}

// Series that come directly count, even if a collector sends them a second time.
func TestDirectSeriesGoBeforeRelayed(t *testing.T) {
	w := hungWorker(func(map[string]string) {})
	for k, s := range hungWorker(collectors["renamed"]).series {
		w.series[k] = s
		w.keys = append(w.keys, k)
	}
	slices.Sort(w.keys)
	for _, scope := range []state.Scope{{Namespace: "llm", Pool: "vllm-llama"}, {Namespace: "llm"}} {
		r := read(t, &fakeAPI{t: t, store: w.store}, scope, Config{})
		if x := find(r, "requests_running", twoWorkers(false)[0].Pod); x == nil || x.Value != 20 || x.Entity.Instance == "" {
			t.Errorf("%+v: %+v, want 20 running at an address", scope, x)
		}
	}
}
