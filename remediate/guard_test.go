package remediate_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/remediate"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/simcluster"
	"paramedic/state"
)

func TestEveryReasonIsShown(t *testing.T) {
	w := newWorld(t, setArg, policy.Suggest)
	a := w.plan()
	var order []string
	clumsy := regexp.MustCompile(`\dm0s|\dh0m`)
	for _, g := range a.Guards {
		order = append(order, g.Guard)
		if g.Reason == "" || g.At.IsZero() {
			t.Errorf("%+v", g)
		}
		if clumsy.MatchString(g.Reason) {
			t.Errorf("a duration reads like a machine's: %s: %s", g.Guard, g.Reason)
		}
	}
	want := "kill_switch mode target evidence shared_cause ownership freeze_window lock history budget capacity breaker verifiability approval"
	if got := strings.Join(order, " "); got != want {
		t.Errorf("got %s", got)
	}
}

// redeploy replaces the pool by a changed one that was deployed before the incident began.
func redeploy(change func(*simcluster.Deployment)) func(*world) {
	return func(w *world) {
		was := w.clock.now
		w.clock.now = onset
		d := simcluster.Deployment{Namespace: "llm", Name: "vllm-llama", Selector: map[string]string{"app": "vllm"},
			PodLabels: map[string]string{"app": "vllm", "serving": "yes"},
			Container: "vllm", Image: "vllm", Args: []string{"--max-num-seqs=256"}, Replicas: 5, MaxSurge: 1, Pods: pods(5)}
		change(&d)
		w.cluster = simcluster.New(w.clock)
		w.cfg.Clusters["prod"] = w.cluster
		w.cluster.AddNamespace("llm", map[string]string{"paramedic.dev/managed": "true"},
			cluster.Selection{Name: "vllm", Selector: map[string]string{"app": "vllm", "serving": "yes"}})
		w.cluster.AddDeployment(d)
		w.clock.now = was
	}
}

func TestGuardsAnswerPerScene(t *testing.T) {
	past := func(kind string, ago time.Duration, end state.ActionState, n int) func(*world) {
		return func(w *world) {
			for i := range n {
				at := w.clock.now.Add(-ago)
				w.actions = append(w.actions, state.Action{ID: state.ActionID(fmt.Sprintf("ACT-%d", i)), Incident: "INC-0", Kind: kind,
					State: end,
					Target: state.Target{Cluster: "prod", Namespace: "llm",
						Pool: "vllm-llama"}, Journal: map[string]string{state.Released: "asha"},
					Steps: []state.ActionStep{{State: state.Intent, At: at}, {State: end, At: at}}})
			}
		}
	}
	for _, c := range []struct {
		name, kind, guard string
		set               func(*world)
		want              string // part of the reason
	}{
		{"halted", setArg, "kill_switch", func(w *world) { w.halt = &state.Halt{Actor: sre, Reason: "game day"} }, "game day"},
		{"namespace opted out", setArg, "target", func(w *world) {
			w.cluster.AddNamespace("llm", map[string]string{"paramedic.dev/managed": "false"})
		}, "kubectl label namespace llm"},
		{"own namespace", setArg, "target", func(w *world) { w.cfg.SelfNamespace = "llm" }, "Paramedic itself runs in namespace llm"},
		{"gang worker", restart, "target", func(w *world) {
			w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Labels["leaderworkerset.sigs.k8s.io/name"] = "x" })
		}, "LeaderWorkerSet"},
		{"the evidence no longer holds", setArg, "evidence", func(w *world) {
			w.sick = func(p string, _ int) map[string]float64 { v := exhausted(p, 128); v["kv_usage"] = .6; return v }
		}, "the evidence no longer holds"},
		{"alert gone", setArg, "evidence", func(w *world) { w.in.ActiveAlerts = 0 }, "no alert"},
		{"storm", restart, "shared_cause", func(w *world) {
			w.more = []state.Incident{{ID: "INC-9", Cluster: "prod", Status: state.StatusOpen,
				Scope: state.Scope{Namespace: "llm", Pods: pods(5)}}}
		}, "5 of 5"},
		{"Argo CD", setArg, "ownership", redeploy(func(d *simcluster.Deployment) {
			d.Annotations = map[string]string{"argocd.argoproj.io/tracking-id": "llm:apps/Deployment:llm/x"}
		}), "set max_num_seqs 256 → 128 in its source"},
		{"failed before", setArg, "history", past(setArg, 8*time.Hour, state.RolledBack, 1), "did not help"},
		{"often today", setArg, "history", past(restart, 5*time.Hour, state.Succeeded, 3), "limit is 3"},
		{"rolled out lately", setArg, "budget", past(setArg, 3*time.Hour, state.Succeeded, 1), "budget is 1"},
		{"evicted lately", restart, "budget", past(restart, 50*time.Minute, state.Succeeded, 1), "budget is 1"},
		{"breaker", restart, "breaker", past(setArg, 40*time.Minute, state.RolledBack, 2), "the breaker stops new actions"},
		{"one replica without a budget", restart, "capacity", redeploy(func(d *simcluster.Deployment) { d.Replicas, d.Pods = 1, []string{"vllm-llama-1"} }), "no other worker"},
		{"Recreate-like rollout", setArg, "capacity", redeploy(func(d *simcluster.Deployment) { d.MaxSurge, d.MaxUnavailable = 0, 5 }), "no other worker"},
		{"the rest cannot carry it", restart, "capacity", func(w *world) {
			w.sick = func(p string, _ int) map[string]float64 {
				v := leaking(p, 0)
				v["requests_running"] = 250
				return v
			}
		}, "cannot carry"},
		{"only the controller's labels", restart, "plan", func(w *world) {
			w.cluster.AddNamespace("llm", map[string]string{"paramedic.dev/managed": "true"},
				cluster.Selection{Name: "vllm", Selector: map[string]string{"app": "vllm"}})
		}, "paramedic.dev/serving"},
		{"dry run forbidden", setArg, "verifiability", func(w *world) { w.cfg.Clusters["prod"] = readOnly{w.cluster} }, "apply the namespaced Role"},
		{"no cluster access", setArg, "plan", func(w *world) { w.cfg.Clusters = nil }, "no access to cluster"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.kind, policy.Approve)
			c.set(w)
			a := w.plan()
			if a.State != state.Denied {
				t.Fatalf("%s %+v", a.State, a.Guards)
			}
			w.wantDenied(a, c.guard)
			if !strings.Contains(a.Reason, c.want) {
				t.Errorf("reason %q lacks %q", a.Reason, c.want)
			}
			if again := w.bot().Plan.Deliver(context.Background(), state.Effect{Incident: w.in.ID}); len(again.Inputs) > 0 ||
				again.Outcome.Done {
				t.Errorf("a denied plan is recorded again, or never looked at again: %+v", again.Outcome)
			}
		})
	}
}

type readOnly struct{ *simcluster.Cluster }

func (readOnly) PatchWorkload(context.Context, cluster.Ref, []byte, bool) (cluster.Workload, error) {
	return cluster.Workload{}, cluster.ErrForbidden
}

func TestSingleSignalNeedsAnApproval(t *testing.T) {
	for mode, want := range map[policy.Mode]state.ActionState{policy.Auto: state.Denied, policy.Approve: state.AwaitingApproval} {
		w := newWorld(t, setArg, mode)
		w.in.Diagnosis.Findings = append(w.in.Diagnosis.Findings[:1], state.Finding{Signal: "symptom:preemptions", Weight: 4})
		if a := w.plan(); a.State != want {
			t.Errorf("%s: %s %s", mode, a.State, a.Reason)
		}
	}
}

func TestSmallPoolNeedsPersonUnlessRolloutSurges(t *testing.T) {
	w := newWorld(t, restart, policy.Auto)
	w.cluster = simcluster.New(w.clock)
	w.cfg.Clusters["prod"] = w.cluster
	w.cluster.AddNamespace("llm", map[string]string{"paramedic.dev/managed": "true"},
		cluster.Selection{Name: "vllm", Selector: map[string]string{"serving": "yes"}})
	w.cluster.AddDeployment(simcluster.Deployment{Namespace: "llm", Name: "vllm-llama", Selector: map[string]string{"app": "vllm"},
		PodLabels: map[string]string{"app": "vllm", "serving": "yes"},
		Container: "vllm", Image: "vllm", Args: []string{"--max-num-seqs=256"}, Replicas: 4, Pods: pods(4)})
	w.wantDenied(w.plan(), "capacity")
	w.cfg.Mode = policy.Approve
	if a := w.plan(); a.State != state.AwaitingApproval {
		t.Errorf("%s %s", a.State, a.Reason)
	}
}

func TestHumanEditAndRolloutHold(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", "--max-num-seqs=256")
	w.plan()
	w.approve(sre)
	if a := w.step(); a.State != state.Approved || a.NextAt.IsZero() {
		t.Errorf("%s %s", a.State, a.Reason)
	}
	w.wantWrites(0)
}

func TestFreezeWindowHolds(t *testing.T) {
	w := newWorld(t, setArg, policy.Approve)
	w.cfg.Policies = []policy.Policy{{Freeze: []policy.FreezeWindow{{Name: "night", From: "22:00", To: "07:00"}}}}
	a := w.plan()
	for _, g := range a.Guards {
		if g.Guard == "freeze_window" && (g.Decision != state.Hold || g.RetryAt.Hour() != 7) {
			t.Errorf("%+v", g)
		}
	}
}

func TestStrictestPolicyHolds(t *testing.T) {
	w := newWorld(t, setArg, policy.Auto)
	w.cfg.Policies = []policy.Policy{{Name: "a", Mode: policy.Auto, Approvers: []string{"asha", "lin"}},
		{Name: "b", Mode: policy.Approve, Approvers: []string{"lin"}, Limits: policy.Limits{Floor: 160}},
		{Name: "elsewhere", Namespaces: []string{"other"}, Mode: policy.Observe}}
	a := w.plan()
	if a.Mode != "approve" || len(a.Approvers) != 1 || a.Params["to"] != "160" {
		t.Errorf("%s %v %v", a.Mode, a.Approvers, a.Params)
	}
}

func TestConfigProblemsAreAllListed(t *testing.T) {
	_, err := remediate.New(remediate.Config{Site: guard.Site{Rules: policy.Rules{Mode: "yolo", Policies: []policy.Policy{
		{Actions: []string{"reboot"}, Freeze: []policy.FreezeWindow{{Days: []string{"someday"}, From: "1", To: "2"}}},
	}}}})
	for _, want := range []string{"yolo", "reboot", "22:00"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %s", err, want)
		}
	}
}

func TestSafeValueComesFromTheCacheAndTheLengths(t *testing.T) {
	for _, c := range []struct {
		blocks, length, running float64
		want                    string
	}{{10000, 1000, 160, "136"}, {1000, 4000, 4, "64"}, {100000, 1000, 200, "168"}} {
		w := newWorld(t, setArg, policy.Suggest)
		w.sick = func(p string, n int) map[string]float64 {
			v := exhausted(p, n)
			v["kv_blocks_total"], v["kv_block_size"], v["prompt_length_mean"], v["output_length_mean"] = c.blocks, 16, c.length/2, c.length/2
			v["requests_running"] = c.running
			return v
		}
		if a := w.plan(); a.Params["to"] != c.want {
			t.Errorf("%v tokens in %v blocks: %s, want %s (%s)", c.length, c.blocks, a.Params["to"], c.want, a.Why)
		}
	}
}

// If some layers of a model keep a window or a state, as in Gemma 3, a block keeps tokens of a few
// layers only. A request then takes blocks for each group of layers. The bot does not know the
// model, so the cache that its requests hold decides, in both directions. If that cannot be read,
// nothing is raised.
func TestSafeValueHoldsForModelsWhoseLayersDiffer(t *testing.T) {
	// 512 tokens take 32 blocks in a model with equal layers. In Gemma 3 27B they take 7 · 32,
	// because ten of its 62 layers keep every token.
	const blocks, taken = 20000, 7 * 32
	for _, c := range []struct {
		name, direction string
		cap, running    int
		unread          string
		want            string // empty: it is not offered
	}{
		{"raised to what fits", "raise", 48, 48, "", "72"}, // 20000 · .85 / 224; twice 48 would not fit
		{"not raised where nothing more fits", "raise", 72, 72, "", ""},
		{"raised where lengths cannot be read", "raise", 48, 12, "prompt_length_mean", "72"},
		{"not raised if the use cannot be read", "raise", 48, 48, "kv_usage", ""},
		{"not raised if what runs cannot be read", "raise", 48, 48, "requests_running", ""},
		{"lowered to what fits", "lower", 256, 89, "", "72"}, // by tokens alone 531 would fit
		{"halved if what runs cannot be read", "lower", 256, 89, "requests_running", "128"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Suggest)
			redeploy(func(d *simcluster.Deployment) {
				d.Args = []string{"--model=gemma", fmt.Sprint("--max-num-seqs=", c.cap)}
			})(w)
			w.remedy.Params["direction"] = c.direction
			w.sick = func(string, int) map[string]float64 {
				v := map[string]float64{"kv_blocks_total": blocks, "kv_block_size": 16, "prompt_length_mean": 412,
					"output_length_mean": 100,
					"requests_running":   float64(c.running), "kv_usage": float64(c.running) * taken / blocks, "requests_waiting": 20}
				delete(v, c.unread)
				return v
			}
			a := w.plan()
			if c.want == "" && (a.State != state.Denied || a.Params["to"] != "") || a.Params["to"] != c.want {
				t.Errorf("%s (%s): %s %s", a.State, a.Change, a.Why, a.Reason)
			}
		})
	}
}

func TestAutoModeForbidsMore(t *testing.T) {
	for name, c := range map[string]struct {
		guard string
		set   func(*world)
	}{
		"namespace without the label": {"target", func(w *world) { w.cluster.AddNamespace("llm", nil) }},
		"Helm release": {"ownership", redeploy(func(d *simcluster.Deployment) {
			d.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		})},
	} {
		for mode, want := range map[policy.Mode]state.Decision{policy.Auto: state.Deny, policy.Approve: state.Allow} {
			t.Run(name+" in mode "+string(mode), func(t *testing.T) {
				w := newWorld(t, setArg, mode)
				c.set(w)
				for _, g := range w.plan().Guards {
					if g.Guard == c.guard && g.Decision != want {
						t.Errorf("%s: %s", g.Decision, g.Reason)
					}
				}
			})
		}
	}
}
