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
			d, ev := diagnosed(t, hungWorker(respelled(s)), known, "alertname", "VLLMRequestQueueBackup", "namespace", "llm", "pod", hung.Pod,
				"job", "llm/vllm", "model_name", hung.Model)
			if d.Cause != "engine_hang" || !slices.Equal(d.Scope.Pods, []string{hung.Pod}) {
				t.Errorf("%s: %s (%.2f) of %+v", s.Of("vllm:x"), d.Cause, d.Confidence, d.Scope)
			}
			if got := measured(ev, "process_rss"); len(got) != 2 || len(ev.Workers) != 2 {
				t.Errorf("%s: memory of %v, workers %+v", s.Of("vllm:x"), got, ev.Workers)
			}
		}
	}
}

// KServe scrapes each page twice, once with other names. Recording rules give the usual name to some
// metrics only. The preferred name of each metric counts, once.
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

// The spelling is known from the hour before, if all engines are gone.
func TestGoneEnginesKeepTheirSpelling(t *testing.T) {
	for _, s := range promql.Spellings {
		w := hungWorker(respelled(s))
		for _, series := range w.series {
			series.points = slices.DeleteFunc(series.points, func(p tsPoint) bool { return p.at.After(now.Add(-10 * time.Minute)) })
		}
		client, err := New(Config{URL: (&fakeAPI{t: t, store: w.store}).serve().URL, Timeout: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		q := queryAll(t, state.Scope{Namespace: "llm", Pool: "vllm-llama"}, now.Add(-9*time.Minute), now)
		r := client.Read(t.Context(), q)
		if !slices.ContainsFunc(r.Gone, func(x state.Sample) bool { return x.Signal == "kv_usage" }) {
			t.Errorf("%s: no chart of the engines that are gone: %d samples", s.Of("vllm:x"), len(r.Gone))
		}
	}
}
