package remediate_test

import (
	"context"
	"strings"
	"testing"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/remediate/simcluster"
	"paramedic/state"
)

// reading is a cluster that runs a hook at each of the runner's reads.
type reading struct {
	*simcluster.Cluster
	during func()
}

func (c reading) Workload(ctx context.Context, r cluster.Ref) (cluster.Workload, error) {
	w, err := c.Cluster.Workload(ctx, r)
	c.during()
	return w, err
}

func (c reading) Pod(ctx context.Context, namespace, name string) (cluster.Pod, error) {
	p, err := c.Cluster.Pod(ctx, namespace, name)
	c.during()
	return p, err
}

func (c reading) Pods(ctx context.Context, w cluster.Workload) ([]cluster.Pod, error) {
	pods, err := c.Cluster.Pods(ctx, w)
	c.during()
	return pods, err
}

// A step reads the cluster before it writes, which takes a while. A person who cancels in between
// was told that nothing will be written. So the runner reads the record again right before each
// write.
func TestDenyDuringReadStopsTheWrite(t *testing.T) {
	for name, say := range map[string]func(w *world){
		"cancelled": func(w *world) { w.actions[0].Journal[state.CalledOff] = "asha" },
		"halted":    func(w *world) { w.halt = &state.Halt{Actor: sre} },
	} {
		for _, c := range []struct{ kind, before string }{{setArg, "patch"}, {restart, "isolation"}, {restart, "eviction"}} {
			t.Run(name+" before the "+c.before, func(t *testing.T) {
				w := newWorld(t, c.kind, policy.Auto)
				w.plan()
				w.until(state.Intent)
				for c.before == "eviction" && w.actions[0].Journal["drained"] == "" {
					w.step()
				}
				written := len(w.cluster.Changes())
				said := false
				w.cfg.Clusters["prod"] = reading{w.cluster, func() {
					if !said {
						said = true
						say(w)
					}
				}}
				w.step()
				if !said {
					t.Fatal("the step read nothing")
				}
				w.wantWrites(written)
				for range 20 { // and what was done is undone
					if w.actions[0].State.Done() {
						break
					}
					w.step()
				}
				a := w.actions[0]
				if !strings.Contains(a.Reason, "called off by asha") && !strings.Contains(a.Reason, "halted by asha") ||
					evictions(w.cluster) != 0 {
					t.Errorf("%s: %s, %d evictions", a.State, a.Reason, evictions(w.cluster))
				}
				if p, err := w.cluster.Pod(t.Context(), "llm", "vllm-llama-1"); err != nil || p.Labels["serving"] != "yes" {
					t.Errorf("the worker does not serve: %v %v", p.Labels, err)
				}
			})
		}
	}
}
