package remediate_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/remediate/simcluster"
	"paramedic/state"
)

// The tests of this file are named after failures that users of other tools reported. Each comment
// says what happened there. The test shows that it cannot happen here.
//
// Keep, issue 5038: automation ran again whenever its alert fired, even if it was useless. Here a
// failed action is not tried again for a day, also not by a new incident. After a success there is
// a pause, and a limit of actions a day.

// Keep, issue 5038: automation ran again with every firing of its alert, however useless. Here what
// did not help is not tried again for a day, by a new incident neither, and after a success there
// is a pause and a number that it does not exceed.
func TestKeep5038FailedActionIsNotRepeated(t *testing.T) {
	w := newWorld(t, setArg, policy.Auto)
	w.sick = harmed
	w.plan()
	w.until(state.RolledBack)
	writes := len(w.cluster.Changes())
	for i := range 23 {
		w.clock.now = w.clock.now.Add(time.Hour)
		w.in.ID, w.in.OpenedAt = state.IncidentID(fmt.Sprint("INC-again-", i)), w.clock.now.Add(-time.Minute)
		a := w.plan()
		if a.State != state.Denied {
			t.Fatalf("%d hours after it did harm it is %s again", i+1, a.State)
		}
		w.wantDenied(a, "history")
	}
	w.wantWrites(writes)

	w = newWorld(t, restart, policy.Auto)
	for i := range 12 {
		w.sickens(i)
		if a := w.plan(); a.State == state.Proposed {
			w.until(state.Succeeded)
		} else {
			w.wantDenied(a, "history")
		}
		w.clock.now = w.clock.now.Add(2*time.Hour - 10*time.Minute)
	}
	if n := evictions(w.cluster); n != 3 {
		t.Errorf("%d evictions of one pool within a day, the limit is 3", n)
	}
}

// sickens makes another worker of the pool leak until it is gone, which is a new incident.
func (w *world) sickens(n int) {
	wl, err := w.cluster.Workload(context.Background(), pool)
	if err != nil {
		w.t.Fatal(err)
	}
	ps, err := w.cluster.Pods(context.Background(), wl)
	if err != nil {
		w.t.Fatal(err)
	}
	bad := ps[0].Name
	w.sick = func(pod string, seqs int) map[string]float64 {
		if pod == bad {
			pod = "vllm-llama-1"
		} else {
			pod = ""
		}
		return leaking(pod, seqs)
	}
	w.in.ID, w.in.OpenedAt, w.in.StartedAt = state.IncidentID(fmt.Sprint("INC-",
		n)), w.clock.now.Add(-time.Minute), w.clock.now.Add(-time.Minute)
	w.in.Scope.Pods, w.in.Diagnosis.Scope.Pods = []string{bad}, []string{bad}
	for i := range w.in.Diagnosis.Findings {
		w.in.Diagnosis.Findings[i].Pod = bad
	}
}

func evictions(c *simcluster.Cluster) (n int) {
	for _, ch := range c.Changes() {
		if strings.HasSuffix(ch.Object, "/eviction") {
			n++
		}
	}
	return n
}

// NVSentinel, issue 450: when its breaker was reset, it acted on events from days before. Here a
// run that began before a halt or a stop of the bot is stale days later. Its approval has expired,
// its intent is given up, and nothing is written.
func TestNVSentinel450OldPlanIsNotCarriedOut(t *testing.T) {
	for _, begun := range []state.ActionState{state.Approved, state.Admitted, state.Intent} {
		for _, kind := range []string{setArg, restart} {
			for _, halted := range []bool{true, false} {
				w := newWorld(t, kind, policy.Approve)
				id := w.plan().ID
				w.approve(sre)
				w.until(begun)
				if halted {
					w.halt = &state.Halt{Actor: sre}
					w.step()
					w.halt = nil
				}
				w.clock.now = w.clock.now.Add(72 * time.Hour)
				a, _ := w.Action(id)
				for range 20 {
					if a, _ = w.Action(id); a.State.Done() {
						break
					}
					w.step()
				}
				if a.State != state.Expired && a.State != state.Superseded && a.State != state.Denied {
					t.Errorf("%s, %s three days ago, is %s", kind, begun, a.State)
				}
				w.wantWrites(0)
			}
		}
	}
}

// NVSentinel, issue 121: a drain was cancelled, and the node was rebooted although it was healthy
// by then. Here a cancelled drain keeps the worker. If a person cancels it, or halts first aid, the
// worker returns to its Service, and no pod is evicted.
func TestNVSentinel121CancelledDrainEvictsNoPod(t *testing.T) {
	for name, callOff := range map[string]func(w *world){
		"cancelled": func(w *world) { w.actions[0].Journal[state.CalledOff] = "asha" },
		"halted":    func(w *world) { w.halt = &state.Halt{Actor: sre} },
		"put back by hand": func(w *world) {
			w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Labels["serving"] = "yes" })
		},
		"went away": func(w *world) {
			w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Name = "another" })
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, restart, policy.Approve)
			w.sick = func(pod string, seqs int) map[string]float64 {
				v := leaking(pod, seqs)
				v["requests_running"] = 3 // so that the drain goes on
				return v
			}
			w.plan()
			w.approve(sre)
			for w.actions[0].Journal["isolated"] == "" {
				w.step()
			}
			callOff(w)
			a := w.actions[0]
			for range 200 {
				if a = w.step(); a.State.Done() {
					break
				}
			}
			if !a.State.Done() || evictions(w.cluster) != 0 {
				t.Fatalf("%s (%s), %d evictions", a.State, a.Reason, evictions(w.cluster))
			}
			if name == "went away" {
				return
			}
			if name == "cancelled" && (a.Journal[state.Released] != "asha" ||
				!strings.Contains(a.Reason, "called off by asha; the worker serves again")) {
				t.Errorf("%s, released by %q", a.Reason, a.Journal[state.Released])
			}
			if p, err := w.cluster.Pod(t.Context(), "llm", "vllm-llama-1"); err != nil || p.Labels["serving"] != "yes" {
				t.Errorf("the worker does not serve: %v %v", p.Labels, err)
			}
		})
	}
}

// A cancelled run that had recorded its intent and wrote nothing is not planned again, also in mode
// auto.
func TestCancelledRemedyIsNotPlannedAgain(t *testing.T) {
	for name, changed := range map[string]bool{"in time": false, "and overtaken by another change": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, setArg, policy.Auto)
			w.plan()
			w.until(state.Intent)
			w.actions[0].Journal[state.CalledOff] = "asha"
			if changed {
				w.actions[0].Journal["conflict"] = "the spec changed"
			}
			if a := w.step(); !a.State.Done() {
				t.Fatalf("the run is %s", a.State)
			}
			w.plan()
			if len(w.actions) != 1 {
				t.Errorf("after %s (%s) the bot plans %s again", w.actions[1].State, w.actions[1].Reason, w.actions[0].Change)
			}
			w.wantWrites(0)
		})
	}
}

// NVSentinel, issue 1808: a failed reboot looked as if it continued, without an end. Here every
// wait has an end. A replacement that never gets ready and a rollout that never completes end with
// a person. A write that never succeeds is cancelled.
func TestNVSentinel1808EndlessStepTimesOut(t *testing.T) {
	for _, c := range []struct {
		name, kind string
		spoil      func(w *world)
		end        state.ActionState
		says       string
	}{
		{"no replacement gets ready", restart, func(w *world) { w.cluster.StartDelay = 1000 * time.Hour }, state.NeedsHuman, "no ready replacement after 30m"},
		{"the rollout hangs, and so does its undoing", setArg, func(w *world) { w.cluster.StartDelay = 1000 * time.Hour }, state.NeedsHuman, "its rollout is not complete"},
		{"the API server is gone", setArg, func(w *world) {
			w.cluster.Before = func(string, string) error { return errLost }
		}, state.Superseded, "nothing was written"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld(t, c.kind, policy.Approve)
			w.plan()
			w.approve(sre)
			w.until(state.Intent)
			c.spoil(w)
			began := w.clock.now
			a := w.until(c.end)
			if took := w.clock.now.Sub(began); !strings.Contains(a.Reason, c.says) || took > 2*time.Hour {
				t.Errorf("after %s: %s", took, a.Reason)
			}
		})
	}
}

// k8sgpt-operator, issue 717: a patch written by a language model was offered to people and could
// not be applied. Here a patch is made of two numbers and the object as it is. The API server
// judges it as a dry run before a person is asked, and a refused patch is not offered.
func TestK8sGPT717PatchIsDryRunBeforeApproval(t *testing.T) {
	for _, kind := range []string{setArg, restart} {
		w := newWorld(t, kind, policy.Approve)
		w.cfg.Clusters["prod"] = refusing{w.cluster}
		a := w.plan()
		if a.State != state.Denied {
			t.Fatalf("%s: offered though the server refuses it: %s", kind, a.State)
		}
		w.wantDenied(a, "verifiability")
		if !strings.Contains(a.Reason, "dry run") || !strings.Contains(a.Reason, "admission webhook") {
			t.Errorf("%s: %s", kind, a.Reason)
		}
		w.wantWrites(0)
	}
	// An offered patch applies: the real patch succeeds at the first try on its object.
	for _, kind := range []string{setArg, restart} {
		w := newWorld(t, kind, policy.Approve)
		w.plan()
		w.approve(sre)
		w.until(state.Applied)
	}
}

// refusing is a cluster whose admission refuses every change.
type refusing struct{ *simcluster.Cluster }

var errAdmission = fmt.Errorf("admission webhook denied the request: %w", cluster.ErrRefused)

func (refusing) PatchWorkload(context.Context, cluster.Ref, []byte, bool) (cluster.Workload, error) {
	return cluster.Workload{}, errAdmission
}

func (refusing) PatchPod(context.Context, string, string, []byte, bool) (cluster.Pod, error) {
	return cluster.Pod{}, errAdmission
}

func (refusing) Evict(context.Context, string, string, string, bool) error { return errAdmission }

// HolmesGPT, pull request 2388: commands on an allow-list could write, or run others, through their
// arguments. Here an action has no command and takes no free text, only its own arguments with
// computed values. Names of a cluster's objects stay one word of the command that people are shown.
func TestHolmes2388ArgumentsInjectNothing(t *testing.T) {
	for _, params := range []map[string]string{
		{"arg": "model=x; rm -rf /", "direction": "lower"},
		{"arg": "max_num_seqs=1 --trust-remote-code", "direction": "lower"},
		{"arg": "max_num_seqs", "direction": "lower; kubectl delete ns llm"},
		{"arg": "trust_remote_code", "direction": "raise"},
		{},
	} {
		w := newWorld(t, setArg, policy.Auto)
		w.remedy.Params = params
		if a := w.plan(); a.State != state.Denied || a.Command != "" {
			t.Errorf("%v: %s, %q", params, a.State, a.Command)
		}
		w.wantWrites(0)
	}

	w := newWorld(t, setArg, policy.Auto)
	w.remedy.Params["to"], w.remedy.Params["from"] = "8 --enable-x", "$(reboot)" // a playbook cannot choose the values
	w.plan()
	w.until(state.Succeeded)
	if got := w.args(); fmt.Sprint(got) != "[--model=llama --max-num-seqs=128]" {
		t.Errorf("args %q", got)
	}

	w = newWorld(t, setArg, policy.Suggest)
	redeploy(func(d *simcluster.Deployment) { d.Args = []string{"--model=it's; reboot $(id)", "--max-num-seqs=256"} })(w)
	w.in.Diagnosis.Scope.Pods = []string{"x; reboot"}
	a := w.plan()
	words, err := shellWords(a.Command)
	if err != nil || len(words) != 9 || words[0] != "kubectl" || strings.Contains(strings.Join(words[:8], " "), "reboot") {
		t.Errorf("%q is %d words: %q %v", a.Command, len(words), words, err)
	}

	// An action that a playbook invents does not exist.
	w = newWorld(t, setArg, policy.Auto)
	w.cfg.Playbook = func(state.Diagnosis) (playbooks.Playbook, bool) {
		return playbooks.Playbook{FirstAid: []playbooks.Remedy{{Action: "exec", Params: map[string]string{"command": "reboot"}}}}, true
	}
	if out := w.bot().Plan.Deliver(t.Context(), state.Effect{ID: "plan", Incident: w.in.ID}); len(out.Inputs) != 0 {
		t.Errorf("%+v", out.Inputs)
	}
}

// shellWords splits a command at the blanks outside of single quotes, the only quotes that the bot
// writes.
func shellWords(command string) ([]string, error) {
	if strings.Count(strings.ReplaceAll(command, `\'`, ""), "'")%2 != 0 {
		return nil, fmt.Errorf("a quote is not closed in %q", command)
	}
	return regexp.MustCompile(`(?:'[^']*'|\\'|[^\s'])+`).FindAllString(command, -1), nil
}

// vLLM, issue 5784: an engine that hung after running out of memory stayed so until a person
// restarted it. Here, if the owner allows it, the hung worker is taken out of service and replaced.
// Its drain does not wait for requests that never end.
func TestVLLM5784HungEngineIsReplaced(t *testing.T) {
	w := newWorld(t, restart, policy.Auto)
	hung := func(pod string) map[string]float64 {
		v := map[string]float64{"requests_running": 10, "requests_waiting": 0, "generation_tokens_rate": 400, "ttft_p95": 1,
			"error_rate": 0}
		if pod == "vllm-llama-1" {
			v["requests_running"], v["requests_waiting"], v["generation_tokens_rate"] = 30, 12, 0
		}
		return v
	}
	w.sick = func(pod string, _ int) map[string]float64 { return hung(pod) }
	w.in.Diagnosis.Cause = "engine_hang"
	zero, was := 0.0, 400.0
	w.in.Diagnosis.Findings = []state.Finding{
		{Signal: "generation_tokens_rate", Pod: "vllm-llama-1", Value: zero, Baseline: &was, Weight: 8},
		{Signal: "requests_waiting", Pod: "vllm-llama-1", Value: 12, Baseline: &zero, Weight: 4},
	}
	w.remedy.Params = map[string]string{"drain": "30s"}
	if a := w.plan(); a.State != state.Proposed {
		t.Fatalf("%s: %s %+v", a.State, a.Reason, a.Guards)
	}
	began := w.clock.now
	w.until(state.Applied)
	if took := w.clock.now.Sub(began); took > 4*time.Minute { // two of them for the baseline
		t.Errorf("it was out after %s", took)
	}
	w.until(state.Succeeded)
	if n := evictions(w.cluster); n != 1 {
		t.Errorf("%d evictions", n)
	}
}
