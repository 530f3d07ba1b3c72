package prometheus

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/promql"
	"paramedic/state"
)

// respelled gives the metrics of engines and processes another spelling.
func respelled(s promql.Spelling) func(l map[string]string) {
	return func(l map[string]string) {
		if name := l["__name__"]; strings.HasPrefix(name, "vllm:") || strings.HasPrefix(s.Of("x"), "kserve_") && name != "up" {
			l["__name__"] = s.Of(name)
		}
	}
}

// Ray, KServe and collectors give the engines' metrics other names.
func TestOtherSpellingsAreDiagnosed(t *testing.T) {
	hung := twoWorkers(false)[0]
	for _, s := range promql.Spellings {
		for _, known := range []fixed{twoWorkers(false), nil} {
			d, ev := diagnosed(t, hungWorker(respelled(s)), known, "alertname", "VLLMRequestQueueBackup", "namespace", "llm",
				"pod", hung.Pod, "job", "llm/vllm", "model_name", hung.Model)
			if d.Cause != "engine_hang" || !slices.Equal(d.Scope.Pods, []string{hung.Pod}) {
				t.Errorf("%s: %s (%.2f) of %+v", s.Of("vllm:x"), d.Cause, d.Confidence, d.Scope)
			}
			if got := measured(ev, "process_rss"); len(got) != 2 || len(ev.Workers) != 2 {
				t.Errorf("%s: memory of %v, workers %+v", s.Of("vllm:x"), got, ev.Workers)
			}
		}
	}
}

// KServe scrapes each page twice, once with other names. Recording rules give the usual name to
// some metrics only. The preferred name of each metric counts, once.
func TestMetricsWithTwoNamesCountOnce(t *testing.T) {
	for name, only := range map[string]string{"scraped twice": "", "an alias": "vllm:num_requests_running"} {
		w := hungWorker(respelled(promql.Spellings[1]))
		for k, s := range hungWorker(func(map[string]string) {}).series {
			if only == "" || s.labels["__name__"] == only {
				w.series[k] = s
				w.keys = append(w.keys, k)
			}
		}
		slices.Sort(w.keys)
		w.keys = slices.Compact(w.keys)
		r := read(t, &fakeAPI{t: t, store: w.store}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
		for signal, want := range map[string]float64{"requests_running": 20, "kv_usage": 0.4, "process_rss": 2e9} {
			if x := find(r, signal, twoWorkers(false)[0].Pod); x == nil || x.Value != want {
				t.Errorf("%s: %s is %+v, want %g", name, signal, x, want)
			}
		}
	}
}

// Before a write, the names of the engines are looked up, too, also if the pods do not have the
// pool's name.
func TestFreshValuesOfOtherSpellings(t *testing.T) {
	pod := twoWorkers(false)[0].Pod
	for _, s := range promql.Spellings {
		client := fresh(t, &fakeAPI{t: t, store: hungWorker(respelled(s)).store})
		q := queryAll(t, state.Scope{Namespace: "llm", Pool: "chat", Pods: []string{pod}}, now.Add(-10*time.Minute), now)
		q.Fresh = true
		if x := find(client.Read(t.Context(), q), "requests_running", pod); x == nil || x.Value != 20 {
			t.Errorf("%s: %+v, want 20 running", s.Of("vllm:x"), x)
		}
	}
}

// The spelling is known from the hour before, if the engines of the pool are gone, also beside a
// pool that lives.
func TestGoneEnginesKeepTheirSpelling(t *testing.T) {
	for _, s := range promql.Spellings {
		w := hungWorker(respelled(s))
		for _, series := range w.series {
			series.points = slices.DeleteFunc(series.points, func(p tsPoint) bool { return p.at.After(now.Add(-10 * time.Minute)) })
		}
		for _, other := range []string{"", "vllm-qwen-5c8d7f6b9-mmmmm"} {
			if other != "" {
				each(func(at time.Time) {
					w.add(at, 5, "__name__", "vllm:num_requests_running", "namespace", "llm", "pod", other, "model_name", "qwen")
				})
			}
			client, err := New(Config{URL: (&fakeAPI{t: t, store: w.store}).serve().URL, Timeout: time.Minute})
			if err != nil {
				t.Fatal(err)
			}
			q := queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now.Add(-9*time.Minute), now)
			r := client.Read(t.Context(), q)
			if !slices.ContainsFunc(r.Gone, func(x state.Sample) bool { return x.Signal == "kv_usage" && x.Entity.Pod != other }) {
				t.Errorf("%s beside %q: no chart of the engines that are gone: %d samples", s.Of("vllm:x"), other, len(r.Gone))
			}
		}
	}
}

// The past begins with the name by which an engine's values are read.
func TestRenamedMetricsHaveAShortPast(t *testing.T) {
	for _, s := range promql.Spellings[1:] {
		w := hungWorker(respelled(s))
		for k, series := range hungWorker(func(map[string]string) {}).series {
			w.series[k] = series
			w.keys = append(w.keys, k)
		}
		slices.Sort(w.keys)
		w.keys = slices.Compact(w.keys)
		renamed := now.Add(-40 * time.Minute)
		for _, series := range w.series {
			name := series.labels["__name__"]
			series.points = slices.DeleteFunc(series.points, func(p tsPoint) bool {
				return strings.HasPrefix(name, "vllm:") && p.at.Before(renamed) || strings.HasPrefix(name, s.Of("vllm:")) && !p.at.Before(renamed)
			})
		}
		r := read(t, &fakeAPI{t: t, store: w.store}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
		x := find(r, "kv_usage", twoWorkers(false)[0].Pod)
		if x == nil || x.Baseline == nil || r.Began.Before(renamed) {
			t.Errorf("%s: %+v since %v, want a baseline since %v", s.Of("vllm:x"), x, r.Began, renamed)
		}
	}
}

// KServe renames whole pages: an engine's process, which is not that of a sidecar, and the router.
func TestRenamedPagesAreReadWhole(t *testing.T) {
	for _, s := range promql.Spellings[:2] {
		w := hungWorker(respelled(s))
		each(func(at time.Time) {
			w.add(at, 1e8, "__name__", "process_resident_memory_bytes", "namespace", "llm", "pod", twoWorkers(false)[0].Pod, "job", "llm/proxy",
				"instance", "10.42.0.0:15020")
			w.add(at, 2, "__name__", s.Of("inference_pool_ready_pods"), "namespace", "llm", "pod", "llama-epp-7d9f8b6c5-eeeee", "job", "epp",
				"instance", "10.42.0.9:9090", "name", "vllm-llama")
		})
		r := read(t, &fakeAPI{t: t, store: w.store}, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, Config{})
		if x := find(r, "process_rss", twoWorkers(false)[0].Pod); x == nil || x.Value != 2e9 {
			t.Errorf("%s: memory %+v, want that of the engine", s.Of("vllm:x"), x)
		}
		if x := find(r, "gateway_ready_endpoints", ""); x == nil || x.Value != 2 {
			t.Errorf("%s: ready endpoints %+v, want 2", s.Of("vllm:x"), x)
		}
	}
}

// If the server refuses the first scrapes, the names of the engines are looked up without them. A
// write does not rest on engines that may be incomplete.
func TestRefusedDiscoveryIsRepeated(t *testing.T) {
	pod, spelling := twoWorkers(false)[0].Pod, promql.Spellings[3]
	q := queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now.Add(-10*time.Minute), now)
	for refused, want := range map[string]bool{"firstvllm:": true, `"engines"`: false} {
		r := fresh(t, &fakeAPI{t: t, store: hungWorker(respelled(spelling)).store, refuse: refused}).Read(t.Context(), q)
		if x := find(r, "requests_running", pod); (x != nil) != want || len(r.Notes) == 0 {
			t.Errorf("%s refused: %+v, notes %v", refused, x, r.Notes)
		}
	}
	q.Fresh = true
	r := fresh(t, &fakeAPI{t: t, store: hungWorker(func(map[string]string) {}).store, refuse: `"engines"`}).Read(t.Context(), q)
	if find(r, "requests_running", pod) != nil || len(r.Failed) == 0 {
		t.Errorf("fresh values without known engines: %d samples, %d failed signals", len(r.Samples), len(r.Failed))
	}
}
