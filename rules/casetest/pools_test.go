package casetest

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"paramedic/rules/rulestest"
	"paramedic/state"
)

// inPool returns the alerts and evidence of a case as another pool has them.
func inPool(alerts []alertJSON, ev state.Evidence, namespace, pool, model string) ([]alertJSON, state.Evidence) {
	rename := strings.NewReplacer("vllm-llama", pool, "llama-70b", model).Replace
	var moved []alertJSON
	for _, a := range alerts {
		a.Labels = maps.Clone(a.Labels)
		for k, v := range a.Labels {
			a.Labels[k] = rename(v)
		}
		a.Labels["namespace"] = namespace
		moved = append(moved, a)
	}
	ev.Samples, ev.Workers = slices.Clone(ev.Samples), slices.Clone(ev.Workers)
	for i := range ev.Samples {
		e := &ev.Samples[i].Entity
		e.Namespace, e.Pool, e.Pod, e.Model = namespace, rename(e.Pool), rename(e.Pod), rename(e.Model)
		if e.Node != "" {
			e.Node = pool + "-" + e.Node
		}
	}
	for i := range ev.Workers {
		w := &ev.Workers[i]
		w.Namespace, w.Pool, w.Pod, w.Model, w.Node = namespace, rename(w.Pool), rename(w.Pod), rename(w.Model), pool+"-"+w.Node
	}
	return moved, ev
}

// A gateway or a scraper that fails for two pools is one trouble, which names no single pool. Two
// full caches are two.
func TestSharedPartIsOneIncident(t *testing.T) {
	c := rulestest.MustLoad(t)
	for name, want := range map[string]int{"gateway_failure_denies": 1, "monitoring_gap_all_scrapes_fail": 1, "kv_exhaustion_answers_cut_off": 2} {
		for _, namespace := range []string{"llm", "chat"} {
			alerts, ev := loadCase(t, c, name)
			others, beside := inPool(alerts, ev, namespace, "vllm-qwen", "qwen-32b")
			ev.Samples, ev.Workers = append(ev.Samples, beside.Samples...), append(ev.Workers, beside.Workers...)
			s := newStorm(t, c)
			got := s.run(slices.Concat(alerts, others), ev)
			if len(got) != want || got[0] != strings.Join(strings.Split(name, "_")[:2], "_") {
				t.Errorf("%s, also in %s: %v, want %d", name, namespace, got, want)
				continue
			}
			in := s.open()[0]
			place, spread := in.Place(), want == 1
			if (place.Pool == "") != spread || (place.Namespace == "") != (spread && namespace != "llm") || spread != strings.Contains(in.Title, "vllm-") ||
				!in.ShowsIn("llm", "vllm-llama") || spread != in.ShowsIn(namespace, "vllm-qwen") {
				t.Errorf("%s, also in %s: %q on %+v, pools %v", name, namespace, in.Title, place, in.Pools)
			}
		}
	}
}

func TestNodeOfThreePoolsNamesNone(t *testing.T) {
	c := rulestest.MustLoad(t)
	alerts, ev := loadCase(t, c, "node_failure_three_pools")
	s := newStorm(t, c)
	s.run(alerts, ev)
	if in := s.open()[0]; in.Place().Pool != "" || !slices.Equal(in.PoolNames(), []string{"chat/vllm-qwen", "llm/vllm-llama", "search/sglang-embed"}) {
		t.Errorf("%+v, pools %v", in.Place(), in.Pools)
	}
}
