package remediate_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// unwritable fails the test on any write, also on a dry run.
type unwritable struct {
	cluster.Reader
	t *testing.T
}

func (c unwritable) PatchWorkload(context.Context, cluster.Ref, []byte, bool) (cluster.Workload, error) {
	c.t.Error("a workload was patched")
	return cluster.Workload{}, cluster.ErrForbidden
}
func (c unwritable) PatchPod(context.Context, string, string, []byte, bool) (cluster.Pod, error) {
	c.t.Error("a pod was patched")
	return cluster.Pod{}, cluster.ErrForbidden
}
func (c unwritable) Evict(context.Context, string, string, string, bool) error {
	c.t.Error("a pod was evicted")
	return cluster.ErrForbidden
}

func TestForeseenActionsHaveAnswersAndWriteNothing(t *testing.T) {
	for _, c := range []struct {
		kind, change string
		set          func(*world)
		stops        []string
	}{
		{setArg, "lower max_num_seqs of Deployment llm/vllm-llama", func(*world) {}, nil},
		{restart, "restart pod llm/vllm-llama-1", func(*world) {}, nil},
		{restart, "restart pod llm/vllm-llama-1", func(w *world) { w.cfg.Mode = policy.Suggest }, []string{"mode", "approval"}},
		{setArg, "lower max_num_seqs of Deployment llm/vllm-llama", func(w *world) {
			w.sick = func(string, int) map[string]float64 {
				return map[string]float64{"kv_usage": .1, "requests_running": 1, "preemption_rate": 0}
			}
		}, []string{"evidence"}},
		{setArg, "lower max_num_seqs of Deployment llm/", func(w *world) { w.in.Scope.Pool, w.in.Diagnosis.Scope.Pool = "", "" }, []string{"plan"}},
		{setArg, "lower max_num_seqs of Deployment llm/gone", func(w *world) { w.in.Diagnosis.Scope.Pool = "gone" }, []string{"plan"}},
	} {
		w := newWorld(t, c.kind, policy.Auto)
		c.set(w)
		w.cfg.Clusters = map[string]cluster.Cluster{"prod": unwritable{w.cluster, t}}
		asked := guard.Without("target", "ownership", "verifiability")
		list := w.bot().Plan.Foresee(t.Context(), w.in, state.Evidence{}, asked)
		if len(list) != 1 || list[0].Change != c.change {
			t.Fatalf("%+v, want %s", list, c.change)
		}
		var stops []string
		for _, g := range list[0].Guards {
			if g.Decision != state.Allow {
				stops = append(stops, g.Guard)
			}
			if strings.Contains("target ownership verifiability", g.Guard) {
				t.Errorf("guard %s was asked", g.Guard)
			}
		}
		if !slices.Equal(stops, c.stops) {
			t.Errorf("%s is stopped by %v, want %v: %+v", c.change, stops, c.stops, list[0].Guards)
		}
	}
}
