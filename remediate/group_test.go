package remediate_test

import (
	"slices"
	"strings"
	"testing"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/remediate/simcluster"
	"paramedic/state"
)

// ranks puts two pods of the pool into one parallel group.
func ranks(p cluster.Pod) (state.Worker, bool) {
	w, ok := single(p)
	if slices.Contains(pods(2), p.Name) {
		w.Group = "0"
	}
	return w, ok
}

// Restarting one rank alone stops its engine, which then waits for it in vain.
func TestGroupMemberIsNotRestarted(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*world)
		says string
	}{
		{"as the evidence shows now", func(w *world) { w.known = ranks }, "vllm-llama-0, vllm-llama-1"},
		{"as the diagnosis saw it", func(w *world) {
			for _, name := range pods(3) {
				g, _ := ranks(cluster.Pod{Namespace: "llm", Name: name})
				w.seen.Workers = append(w.seen.Workers, g)
			}
		}, "vllm-llama-0, vllm-llama-1"},
		{"of a pool that cannot be read", func(w *world) {
			g, _ := ranks(cluster.Pod{Namespace: "llm", Name: "vllm-llama-1"})
			g.PoolKind = "LeaderWorkerSet"
			w.seen.Workers = append(w.seen.Workers, g)
		}, "parallel group 0"},
		{"where several are named", func(w *world) {
			w.in.Scope.Pods, w.in.Diagnosis.Scope.Pods = nil, pods(2)
			for i := range w.in.Diagnosis.Findings {
				w.in.Diagnosis.Findings[i].Pod = ""
			}
			for _, name := range pods(2) {
				g, _ := ranks(cluster.Pod{Namespace: "llm", Name: name})
				w.seen.Workers = append(w.seen.Workers, g)
			}
		}, "parallel group 0"},
		{"by its command line", func(w *world) {
			redeploy(func(d *simcluster.Deployment) { d.Args = append(d.Args, "--nnodes", "2") })(w)
		}, "--nnodes 2"},
		{"by a variable of its script", func(w *world) {
			redeploy(func(d *simcluster.Deployment) {
				d.Command, d.Args = []string{"sh", "-c", "vllm serve llama --nnodes=$NODES"}, nil
			})(w)
		}, "it is unknown whether"},
		{"of which nothing is known", func(w *world) {
			w.known = func(cluster.Pod) (state.Worker, bool) { return state.Worker{}, false }
		}, "it is unknown whether"},
		{"guessed from labels alone", func(w *world) {
			w.known = func(p cluster.Pod) (state.Worker, bool) { g, ok := single(p); g.UID = ""; return g, ok }
		}, "it is unknown whether"},
		{"known of the pod before it", func(w *world) {
			w.known = func(p cluster.Pod) (state.Worker, bool) { g, ok := single(p); g.UID = "before"; return g, ok }
		}, "it is unknown whether"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, restart, policy.Auto)
			c.set(w)
			if a := w.plan(); a.State != state.Denied || !strings.Contains(a.Reason, c.says) {
				t.Errorf("%s: %s", a.State, a.Reason)
			}
			w.wantWrites(0)
		})
	}
}

// The evidence may show a group only after the plan. The guards ask again before the write.
func TestGroupSeenLateStopsTheRestart(t *testing.T) {
	w := newWorld(t, restart, policy.Approve)
	w.plan()
	w.approve(sre)
	w.until(state.Admitted)
	w.known = ranks
	if a := w.until(state.Denied); !strings.Contains(a.Reason, "parallel group 0") {
		t.Errorf("%s: %s", a.State, a.Reason)
	}
	w.wantWrites(0)
}

func TestNeighbourOfAGroupIsRestarted(t *testing.T) {
	w := newWorld(t, restart, policy.Auto)
	w.known = func(p cluster.Pod) (state.Worker, bool) {
		g, ok := single(p)
		if slices.Contains([]string{"vllm-llama-3", "vllm-llama-4"}, p.Name) {
			g.Group = "0"
		}
		return g, ok
	}
	if a := w.plan(); a.State != state.Proposed {
		t.Errorf("%s: %s", a.State, a.Reason)
	}
}

// A rollout of a Deployment whose pods are parts of engines restarts each engine in part.
func TestPartOfAnEngineIsNotRolledOut(t *testing.T) {
	for name, set := range map[string]func(*world){
		"by the evidence": func(w *world) { w.known = ranks },
		"by its command line": redeploy(func(d *simcluster.Deployment) {
			d.Args = append(d.Args, "--nnodes=2", "--node-rank=0")
		}),
	} {
		w := newWorld(t, setArg, policy.Auto)
		set(w)
		a := w.plan()
		if a.State != state.Denied {
			t.Errorf("%s: %s", name, a.State)
		}
		w.wantDenied(a, "target")
		w.wantWrites(0)
	}
}
