package query

import (
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/signals"
	"paramedic/state"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func signalOf(t *testing.T, id string) signals.Signal {
	t.Helper()
	all := builtIn(t)
	return all[slices.IndexFunc(all, func(s signals.Signal) bool { return s.ID == id })]
}

// engineOf returns the labels of an engine in a discovery's answer.
func engineOf(mark, name, pod string, more ...string) map[string]string {
	out := map[string]string{marker: mark, "__name__": name, "pod": pod}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

func answerOf(all ...map[string]string) iter.Seq2[map[string]string, float64] {
	return func(yield func(map[string]string, float64) bool) {
		for _, labels := range all {
			if !yield(labels, 1) {
				return
			}
		}
	}
}

// The discovered engines decide which pods, labels and names a signal is read by.
func TestDiscoveredEnginesShapeTheQueries(t *testing.T) {
	const name, own = "vllm:num_requests_running", "vllm-llama-7d9f8b6c5-aaaaa"
	scope := state.Scope{Namespace: "llm", Pool: "vllm-llama"}
	kv := signalOf(t, "kv_usage")
	for title, c := range map[string]struct {
		answer []map[string]string
		pool   bool
		want   string // of the selector
	}{
		"no engine":          {nil, false, `(vllm:kv_cache_usage_perc{server="",namespace=~"llm|"})`},
		"own pods":           {[]map[string]string{engineOf(engineMark, name, own)}, true, `(vllm:kv_cache_usage_perc{server="",namespace=~"llm|",pod=~"vllm-llama-.*"})`},
		"another pool":       {[]map[string]string{engineOf(engineMark, name, "vllm-qwen-7d9f8b6c5-aaaaa")}, false, `(vllm:kv_cache_usage_perc{server="",namespace=~"llm|"})`},
		"one without a pod":  {[]map[string]string{engineOf(engineMark, name, own), engineOf(engineMark, name, "")}, false, `(vllm:kv_cache_usage_perc{server="",namespace=~"llm|"})`},
		"a longer name":      {[]map[string]string{engineOf(engineMark, name, own), engineOf(engineMark, name, "vllm-llama-canary-7d9f8b6c5-aaaaa")}, true, `pod=~"vllm-llama-` + podSuffixes + `"})`},
		"names of Ray":       {[]map[string]string{engineOf(engineMark, "ray_vllm_num_requests_running", own)}, true, `(ray_vllm_kv_cache_usage_perc{server="",namespace=~"llm|",pod=~"vllm-llama-.*"})`},
		"through a relay":    {[]map[string]string{engineOf(relayMark+"0", name, "collector-0", "exported_pod", own)}, true, `(vllm:kv_cache_usage_perc{server="",exported_namespace="llm",exported_pod=~"vllm-llama-.*"})`},
		"directly and again": {[]map[string]string{engineOf(relayMark+"0", name, "collector-0", "exported_pod", own), engineOf(engineMark, name, own)}, true, `(vllm:kv_cache_usage_perc{server="",namespace=~"llm|",pod=~"vllm-llama-.*"})`},
	} {
		search := Search{Scope: scope, Running: signalOf(t, "requests_running"), Now: now, Onset: now}
		filter := search.Read(answerOf(c.answer...)).Filter(scope)
		got := Compile(kv, filter)[0].Reads()
		if filter.OnlyPool() != c.pool || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s: only the pool: %v; %s, want %s", title, filter.OnlyPool(), got, c.want)
		}
	}
}

// The past of a pool begins with its own pods, else with its model, else with any engine.
func TestPastBeginsWithTheOwnPods(t *testing.T) {
	at := func(seconds float64, pod, model string) (map[string]string, float64) {
		return map[string]string{marker: firstMark + "vllm:num_requests_running", "pod": pod, "model_name": model}, seconds
	}
	search := Search{Running: signalOf(t, "requests_running"), Past: time.Hour}
	d := search.Read(func(yield func(map[string]string, float64) bool) {
		_ = yield(at(300, "vllm-llama-7d9f8b6c5-aaaaa", "llama")) && yield(at(200, "other-7d9f8b6c5-aaaaa", "llama")) && yield(at(100, "third-0", "qwen"))
	})
	for _, c := range []struct {
		scope state.Scope
		want  int64
	}{{state.Scope{Pool: "vllm-llama", Model: "llama"}, 300}, {state.Scope{Pool: "none", Model: "llama"}, 200}, {state.Scope{Model: "none"}, 100}} {
		if got := d.Began(c.scope); got.Unix() != c.want {
			t.Errorf("%+v began at %d, want %d", c.scope, got.Unix(), c.want)
		}
	}
	if got := (Discovery{}).Began(state.Scope{}); !got.IsZero() {
		t.Errorf("nothing began at %s", got)
	}
}

func TestSearchAsksOnlyForWhatIsNeeded(t *testing.T) {
	running, jobs := signalOf(t, "requests_running"), []string{"llm/vllm"}
	for _, c := range []struct {
		search                 Search
		engines, targets, past bool
	}{
		{search: Search{Past: time.Hour}},
		{search: Search{Running: running}, engines: true},
		{search: Search{Jobs: jobs}, targets: true},
		{search: Search{Running: running, Jobs: jobs, Past: time.Hour}, engines: true, targets: true, past: true},
	} {
		c.search.Now, c.search.Onset = now, now.Add(-time.Minute)
		u := c.search.Union()
		has := func(mark string) bool { return strings.Contains(u.Text(), `"`+marker+`", "`+mark) }
		if has(engineMark) != c.engines || has(target) != c.targets || has(firstMark) != c.past || u.Divisible() {
			t.Errorf("%+v asks %s", c.search, u.Text())
		}
		if (u.Text() != "") != (c.engines || c.targets) {
			t.Errorf("%+v asks %q", c.search, u.Text())
		}
	}
}
