package health

import (
	"slices"
	"strings"
	"testing"

	"paramedic/rules/catalog"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// Each published pathology appears if all its numbers match. It does not appear if one is below its
// limit or missing, or in a healthy pool.
func TestPathologiesAppearOnlyOnTheirPattern(t *testing.T) {
	c := rulestest.MustLoad(t)
	pod := func(name string) state.Entity {
		return state.Entity{Namespace: "llm", Pool: "p", Pod: name, Model: "m", Node: "n"}
	}
	pool := state.Entity{Namespace: "llm", Pool: "p", Model: "m"}
	pooled := []string{"itl_p50", "e2e_p95"} // signals that are read only of a pool
	type values map[string]float64
	tested := map[string]bool{}
	for _, tc := range []struct {
		id     string
		shows  values
		says   string // a part of its text
		spares map[string]values
	}{
		{"kv_thrashing", values{"kv_usage": .97, "preemption_rate": .4, "ttft_p95": 4}, "a preempts 0.4/s, KV cache 97 % full",
			map[string]values{
				"a cache that is just full enough": {"kv_usage": .95}, "a preemption now and then": {"preemption_rate": .1},
				"users who wait for nothing": {"ttft_p95": 2.5}}},
		{"preemption_storm", values{"kv_usage": .99, "preemption_rate": 2}, "a preempts 2/s", map[string]values{
			"one a second": {"preemption_rate": 1}, "a cache with room": {"kv_usage": .9}}},
		{"late_behind_full_cache", values{"kv_usage": .92, "ttft_p99": 6, "requests_waiting": 3}, "3 requests wait on a", map[string]values{
			"a full cache without a queue": {"requests_waiting": 0}, "a cache with room": {"kv_usage": .9},
			"first tokens in time": {"ttft_p99": 5}}},
		{"prefill_starves", values{"ttft_p95": 6, "itl_p50": .03, "requests_waiting": 30, "kv_usage": .6},
			"30 requests wait on a, KV cache 60 % in use", map[string]values{
				"the same behind a full cache": {"kv_usage": .97}, "slow decoding": {"itl_p50": .05},
				"a short queue":        {"requests_waiting": 20},
				"first tokens in time": {"ttft_p95": 5}}},
		{"late_on_idle_gpus", values{"ttft_p99": 6, "gpu_util": 20}, "GPUs 20 % busy", map[string]values{
			"busy GPUs": {"gpu_util": 50}, "first tokens in time": {"ttft_p99": 5}}},
		{"small_batches", values{"gpu_util": 20, "requests_running": 4, "requests_waiting": 3}, "3 requests wait on a, 4 running",
			map[string]values{
				"an engine at rest": {"requests_waiting": 0, "requests_running": 0}, "a batch of eight": {"requests_running": 8},
				"a queue, which is another trouble": {"requests_waiting": 5}, "busy GPUs": {"gpu_util": 50}}},
		{"uneven_queues", values{"requests_waiting": 12}, "12 requests wait on one worker and 0 on another", map[string]values{
			"a queue of ten": {"requests_waiting": 10}}},
		{"gpu_memory_rises", values{"gpu_fb_slope": .1, "gpu_fb_changes": 9, "gpu_fb_low": 70000, "gpu_fb_used": 71000, "finish_rate": 3},
			"GPU memory of GPU 0 on n", map[string]values{
				"memory that stands still": {"gpu_fb_slope": 0}, "one step": {"gpu_fb_changes": 2},
				"a model that was just loaded": {"gpu_fb_low": 500}, "an engine that completes nothing": {"finish_rate": 0}}},
		{"blocks_never_freed", values{"kv_idle_usage": .3}, "a held 30 % of its KV cache", map[string]values{
			"what is left of a prefix": {"kv_idle_usage": .1}}},
		{"overdue_requests", values{"e2e_p95": 300, "output_length_mean": 400, "itl_p50": .03}, "Request latency p95 5 min",
			map[string]values{
				"four minutes": {"e2e_p95": 240}, "answers that are as long": {"output_length_mean": 4000},
				"no lengths": {"output_length_mean": -1}}},
		{"prefixes_never_hit", values{"prefix_hit_ratio": .02, "prefix_query_rate": 900, "ttft_p95": 4},
			"Prefix cache hits 2 % on a", map[string]values{
				"hits": {"prefix_hit_ratio": .1}, "a cache that is off": {"prefix_query_rate": 0},
				"diverse prompts, all in time": {"ttft_p95": 2}}},
	} {
		evidenceOf := func(with values) state.Evidence {
			ev := state.Evidence{At: rulestest.Now, Workers: []state.Worker{
				{Namespace: "llm", Pool: "p", Pod: "a", Model: "m", Node: "n", Ready: true},
				{Namespace: "llm", Pool: "p", Pod: "b", Model: "m", Node: "n", Ready: true}}}
			add := func(signal string, e state.Entity, v float64) {
				ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: e, Value: v, Unit: c.Units()[signal], At: rulestest.Now})
			}
			for signal, v := range tc.shows {
				if other, changed := with[signal]; changed {
					v = other
				}
				switch {
				case v < 0:
				case slices.Contains(pooled, signal):
					add(signal, pool, v)
				case strings.HasPrefix(signal, "gpu_"):
					gpu := pod("a")
					gpu.GPU = "0"
					add(signal, gpu, v)
				default:
					add(signal, pod("a"), v)
				}
			}
			if tc.id == "uneven_queues" {
				add("requests_waiting", pod("b"), 0)
			}
			return ev
		}
		seen := func(with values) (SeenPathology, Pool) {
			pools := OfCatalog(c, "default", evidenceOf(with))
			if len(pools) != 1 {
				t.Fatalf("%s: %+v", tc.id, pools)
			}
			for _, p := range pools[0].Pathologies {
				if p.ID == tc.id {
					return p, pools[0]
				}
			}
			return SeenPathology{}, pools[0]
		}
		got, p := seen(nil)
		if !strings.Contains(got.Text, tc.says) || strings.Contains(got.Text, "{") {
			t.Errorf("%s says %q", tc.id, got.Text)
		}
		if healthRank[p.Overall] < healthRank[HealthWarning] {
			t.Errorf("%s, and the pool is %s", tc.id, p.Overall)
		}
		if pathology := pathologyOf(c, tc.id); pathology == nil || len(tc.spares) == 0 {
			t.Fatalf("%s: no such pathology, or no test that it stays quiet", tc.id)
		} else if pathology.Per != "" && !slices.Equal(got.Pods, []string{"a"}) {
			t.Errorf("%s is seen on %v", tc.id, got.Pods)
		}
		for name, with := range tc.spares {
			if got, _ := seen(with); got.ID != "" {
				t.Errorf("%s: %s: %s", tc.id, name, got.Text)
			}
		}
		for signal := range tc.shows { // without one of its numbers there is no answer
			if got, _ := seen(values{signal: -1}); got.ID != "" && tc.id != "uneven_queues" {
				t.Errorf("%s without %s: %s", tc.id, signal, got.Text)
			}
		}
		tested[tc.id] = true
	}
	for _, p := range c.Pathologies() {
		if !tested[p.ID] {
			t.Errorf("%s has no test", p.ID)
		}
	}
}

// Users can add pathologies and replace built-in ones; Load reports their mistakes.
func TestUserPathologies(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `pathologies:
  - {id: preemption_storm, title: Ours, per: pod, when: preemption_rate.value > 5, text: "{pod}: {preemption_rate}", points_to: [kv_exhaustion]}
`)
	c, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	if p := pathologyOf(c, "preemption_storm"); p.Title != "Ours" || len(c.Pathologies()) != 11 {
		t.Errorf("%+v of %d", p, len(c.Pathologies()))
	}
	bad := t.TempDir()
	rulestest.Write(t, bad, "bad.yaml", `pathologies:
  - {id: a, title: A, when: no_such.value > 5, text: x, points_to: [kv_leak]}
  - {id: b, title: B, when: kv_usage.value > 5, text: "{nothing}", points_to: [kv_leak]}
  - {id: c, title: C, when: kv_usage.value > 5, text: x, points_to: [no_such_cause]}
  - {id: d, title: D, when: kv_usage.value > 5, text: x}
  - {id: e, title: E, when: kv_usage.value > 5, text: x, per: star, points_to: [kv_leak]}
  - {id: f, when: kv_usage.value > 5, text: x, points_to: [kv_leak]}
  - {id: g, title: G, when: "true", text: x, points_to: [kv_leak]}
`)
	_, problems, err = catalog.Load(bad)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[int]bool{}
	for _, p := range problems {
		lines[p.Line] = true
	}
	for line := 2; line <= 8; line++ {
		if !lines[line] {
			t.Errorf("line %d is taken for sound: %v", line, problems)
		}
	}
	many := t.TempDir()
	rulestest.Write(t, many, "many.yaml", `pathologies:
  - id: h
    title: H
    per: star
    when: no_such.value > 5
    text: "{nothing}"
`)
	_, problems, err = catalog.Load(many)
	if err != nil {
		t.Fatal(err)
	}
	if len(problems) != 4 { // points_to, per, when and text, each once
		t.Errorf("one entry with four mistakes has %d: %v", len(problems), problems)
	}
}

// Health reads every signal that a pathology uses.
func TestHealthReadsSignalsOfPathologies(t *testing.T) {
	c := rulestest.MustLoad(t)
	read := SignalsOfCatalog(c)
	for _, signal := range read {
		if _, known := c.Units()[signal]; !known {
			t.Errorf("%s is no signal", signal)
		}
	}
	for _, p := range c.Pathologies() {
		for _, signal := range p.Condition.Signals {
			if !slices.Contains(read, signal) {
				t.Errorf("%s asks for %s, which a health report does not read", p.ID, signal)
			}
		}
	}
}

func pathologyOf(c *catalog.Catalog, id string) *catalog.Pathology {
	for _, p := range c.Pathologies() {
		if p.ID == id {
			return p
		}
	}
	return nil
}
