package remediate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/simcluster"
	"paramedic/state"
	"paramedic/state/statetest"
)

var onset = time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)

// clock is a clock that a test advances.
type clock struct{ now time.Time }

func (c *clock) Now() time.Time                       { return c.now }
func (c *clock) After(time.Duration) <-chan time.Time { return nil }

// world is a cluster, an incident in it, and the bot's view: a minimal fold with the rules of the
// real one.
type world struct {
	state.View
	t       testing.TB
	clock   *clock
	cluster *simcluster.Cluster
	in      state.Incident
	more    []state.Incident
	actions []state.Action // newest first
	halt    *state.Halt
	remedy  playbooks.Remedy
	cfg     remediate.Config
	sick    func(pod string, seqs int) map[string]float64 // signals of a pod
	blind   bool                                          // Prometheus is down
	known   func(cluster.Pod) (state.Worker, bool)        // what Kubernetes' part of the evidence says of a pod
	seen    state.Evidence                                // of the diagnosis
	scraped func() time.Time                              // when what is read was measured; nil: now
}

func (w *world) Incident(id state.IncidentID) (state.Incident, bool) {
	for _, in := range append(slices.Clone(w.more), w.in) {
		if in.ID == id {
			return in, true
		}
	}
	return state.Incident{}, false
}
func (w *world) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	return statetest.ListIncidents(append(slices.Clone(w.more), w.in), q)
}
func (w *world) Actions() []state.Action {
	out := make([]state.Action, 0, len(w.actions))
	for _, a := range w.actions {
		out = append(out, copied(a))
	}
	return out
}
func (w *world) ActionsOf(id state.IncidentID) []state.Action {
	return slices.DeleteFunc(w.Actions(), func(a state.Action) bool { return a.Incident != id })
}
func (w *world) BegunActions() []state.Action {
	return slices.DeleteFunc(w.Actions(), func(a state.Action) bool { return !a.Begun() })
}
func (w *world) Evidence(state.IncidentID) (state.Evidence, bool) { return w.seen, true }
func (w *world) Halted(string) (state.Halt, bool) {
	if w.halt == nil {
		return state.Halt{}, false
	}
	return *w.halt, true
}

func (w *world) Action(id state.ActionID) (state.Action, bool) {
	for _, a := range w.actions {
		if a.ID == id {
			return copied(a), true
		}
	}
	return state.Action{}, false
}

func copied(a state.Action) state.Action {
	a.Steps, a.Guards = slices.Clone(a.Steps), slices.Clone(a.Guards)
	j := map[string]string{}
	for k, v := range a.Journal {
		j[k] = v
	}
	a.Journal = j
	s := map[string][]float64{}
	for k, v := range a.Verify.Samples {
		s[k] = slices.Clone(v)
	}
	a.Verify.Samples = s
	return a
}

// Read returns the workers' signals for the present template.
func (w *world) Read(_ context.Context, cluster string, scope state.Scope, _ time.Time, signals []string) state.Evidence {
	ev, at := state.Evidence{At: w.clock.now}, w.clock.now
	if w.scraped != nil {
		at = w.scraped()
	}
	if w.blind {
		return ev
	}
	wl, err := w.cluster.Workload(context.Background(), pool)
	if err != nil {
		return ev
	}
	seqs := 0
	for _, c := range wl.Containers {
		for _, a := range c.Args {
			fmt.Sscanf(a, "--max-num-seqs=%d", &seqs)
		}
	}
	pods, _ := w.cluster.Pods(context.Background(), wl)
	for _, p := range pods {
		if worker, ok := w.known(p); ok {
			ev.Workers = append(ev.Workers, worker)
		}
		for signal, v := range w.sick(p.Name, seqs) {
			if slices.Contains(signals, signal) {
				ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: v, At: at,
					Entity: state.Entity{Cluster: cluster, Namespace: "llm", Pool: "vllm-llama", Pod: p.Name}})
			}
		}
	}
	return ev
}

var pool = cluster.Ref{Namespace: "llm", Kind: "Deployment", Name: "vllm-llama"}

func pods(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("vllm-llama-%d", i))
	}
	return out
}

// exhausted returns the signals of a pool whose cache is too small for its requests. Half the
// sequences fix it.
func exhausted(_ string, seqs int) map[string]float64 {
	v := map[string]float64{"kv_usage": .99, "preemption_rate": 5, "requests_running": 80, "requests_waiting": 20, "ttft_p95": 8,
		"error_rate": .01}
	if seqs <= 128 {
		v = map[string]float64{"kv_usage": .8, "preemption_rate": 0, "requests_running": 60, "requests_waiting": 22, "ttft_p95": 2,
			"error_rate": .01}
	}
	return v
}

// harmed returns the signals of a pool that gets worse with fewer sequences.
func harmed(pod string, seqs int) map[string]float64 {
	v := exhausted(pod, 256)
	if seqs <= 128 {
		v["error_rate"], v["ttft_p95"] = .4, 30
	}
	return v
}

// single returns a worker that runs an engine by itself.
func single(p cluster.Pod) (state.Worker, bool) {
	return state.Worker{Namespace: p.Namespace, Pod: p.Name, UID: p.UID, Pool: "vllm-llama", PoolKind: "Deployment", Ready: p.Ready}, true
}

// leaking returns the signals of a pool in which the worker vllm-llama-1 leaks.
func leaking(pod string, _ int) map[string]float64 {
	v := map[string]float64{"kv_usage": .3, "kv_idle_usage": 0, "requests_running": 10, "requests_waiting": 0, "container_memory": 40e9,
		"ttft_p95": 1, "error_rate": 0}
	if pod == "vllm-llama-1" {
		v["kv_usage"], v["kv_idle_usage"], v["container_memory"], v["requests_running"] = .9, .6, 90e9, 0
	}
	return v
}

func newWorld(t testing.TB, kind string, mode policy.Mode) *world {
	w := &world{t: t, clock: &clock{now: onset.Add(time.Hour)}, sick: exhausted, known: single}
	w.cluster = simcluster.New(w.clock)
	w.cluster.AddNamespace("llm", map[string]string{"paramedic.dev/managed": "true"},
		cluster.Selection{Name: "vllm", Selector: map[string]string{"app": "vllm", "serving": "yes"}})
	w.cluster.AddDeployment(simcluster.Deployment{Namespace: "llm", Name: "vllm-llama", Selector: map[string]string{"app": "vllm"},
		PodLabels: map[string]string{"app": "vllm",
			"serving": "yes"}, Container: "vllm", Image: "vllm/vllm-openai", Args: []string{"--model=llama", "--max-num-seqs=256"},
		Replicas: 5, MaxSurge: 1, Pods: pods(5)})
	w.clock.now = onset.Add(3 * time.Hour)
	f := func(signal, pod string, v, b float64) state.Finding {
		return state.Finding{Signal: signal, Pod: pod, Value: v, Baseline: &b, Weight: 5, Unit: "ratio"}
	}
	d := state.Diagnosis{Cause: "kv_exhaustion", Playbook: "pb",
		Findings: []state.Finding{f("kv_usage", "", .99, .6), f("preemption_rate", "", 5, 0)}}
	w.remedy = playbooks.Remedy{Action: kind, Params: map[string]string{"arg": "max_num_seqs", "direction": "lower"}}
	sc := state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm-llama", Model: "llama"}
	if kind == playbooks.ActionRestartWorker {
		w.sick, sc.Pods = leaking, []string{"vllm-llama-1"}
		d = state.Diagnosis{Cause: "kv_leak", Playbook: "pb",
			Findings: []state.Finding{f("kv_idle_usage", "vllm-llama-1", .6, 0), f("kv_usage", "vllm-llama-1", .9, .3)}}
		w.remedy.Params = nil
	}
	d.Scope = sc
	w.in = state.Incident{ID: "INC-1", Cluster: "prod", Status: state.StatusOpen, Scope: sc, Diagnosis: d, ActiveAlerts: 3,
		StartedAt: w.clock.now.Add(-10 * time.Minute), OpenedAt: w.clock.now.Add(-9 * time.Minute)}
	w.cfg = remediate.Config{
		Site: guard.Site{Rules: policy.Rules{Mode: mode}, View: w, Gauge: w, Clock: w.clock,
			Clusters: map[string]cluster.Cluster{"prod": w.cluster}},
		Playbook: func(state.Diagnosis) (playbooks.Playbook, bool) {
			return playbooks.Playbook{FirstAid: []playbooks.Remedy{w.remedy}}, true
		},
	}
	return w
}

func (w *world) bot() *remediate.Remediate {
	w.t.Helper()
	r, err := remediate.New(w.cfg)
	if err != nil {
		w.t.Fatal(err)
	}
	return r
}

// take applies inputs by the rules of the fold.
func (w *world) take(inputs []state.Input) {
	w.t.Helper()
	for _, in := range inputs {
		next := copied(in.Action.Action)
		i := slices.IndexFunc(w.actions, func(a state.Action) bool { return a.ID == next.ID })
		if i < 0 {
			if in.Action.From != "" || next.State != state.Proposed && next.State != state.AwaitingApproval {
				w.t.Fatalf("a new run in state %s", next.State)
			}
			w.actions = append([]state.Action{next}, w.actions...)
			continue
		}
		cur := w.actions[i]
		if cur.State != in.Action.From {
			continue
		}
		if by := cur.Journal[state.CalledOff]; by != "" {
			next.Journal[state.CalledOff] = by
		}
		if cur.State != next.State {
			if err := cur.Move(next.State, w.clock.now, "", state.Actor{}); err != nil {
				w.t.Fatal(err)
			}
		}
		w.actions[i] = next
	}
}

// plan delivers the plan effect, and returns the newest action.
func (w *world) plan() state.Action {
	w.t.Helper()
	w.take(w.bot().Plan.Deliver(context.Background(), state.Effect{ID: "plan", Incident: w.in.ID}).Inputs)
	if len(w.actions) == 0 {
		w.t.Fatal("nothing was planned")
	}
	return w.actions[0]
}

var sre = state.Actor{ID: "asha", Via: "api", Role: state.Responder}

func (w *world) approve(by state.Actor) {
	a := &w.actions[0]
	a.DecidedBy, a.DecidedAt = by, w.clock.now
	if err := a.Move(state.Approved, w.clock.now, "approved", by); err != nil {
		w.t.Fatal(err)
	}
}

// approvedUntil plans and approves the action. It takes steps until the run is in a state, or ends.
func (w *world) approvedUntil(s state.ActionState) state.Action {
	w.t.Helper()
	w.plan()
	w.approve(sre)
	return w.until(s)
}

// step delivers one run effect of the newest action at its due time.
func (w *world) step() state.Action {
	w.t.Helper()
	a := w.actions[0]
	if a.NextAt.After(w.clock.now) {
		w.clock.now = a.NextAt
	}
	w.take(w.bot().Run.Deliver(context.Background(), state.Effect{ID: "run", Action: a.ID}).Inputs)
	w.clock.now = w.clock.now.Add(time.Second)
	got, _ := w.Action(a.ID)
	return got
}

// until takes steps until the run is in a state, or ends.
func (w *world) until(s state.ActionState) state.Action {
	w.t.Helper()
	id := w.actions[0].ID
	for range 500 {
		a, _ := w.Action(id)
		if a.State == s {
			return a
		}
		if a.State.Done() {
			w.t.Fatalf("ended in %s (%s), want %s", a.State, a.Reason, s)
		}
		w.step()
	}
	a, _ := w.Action(id)
	w.t.Fatalf("still %s, want %s: %v %v", a.State, s, a.Journal, a.Guards)
	return a
}

func (w *world) args() []string {
	wl, err := w.cluster.Workload(context.Background(), pool)
	if err != nil {
		w.t.Fatal(err)
	}
	return wl.Containers[0].Args
}

func (w *world) wantDenied(a state.Action, guard string) {
	w.t.Helper()
	for _, g := range a.Guards {
		if g.Guard == guard && g.Decision == state.Deny {
			return
		}
	}
	w.t.Errorf("%s did not deny: %s %s %+v", guard, a.State, a.Reason, a.Guards)
}

func (w *world) wantWrites(n int) {
	w.t.Helper()
	if got := w.cluster.Changes(); len(got) != n {
		w.t.Errorf("%d writes, want %d: %v", len(got), n, got)
	}
}

var errLost = errors.New("connection reset")
