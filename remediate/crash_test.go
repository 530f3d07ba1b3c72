package remediate_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// TestCrashAtEveryStepHasOneEffect runs both actions, helpful, harmful and without effect, under
// seeded interleavings. The process is killed before a write, after it, and before its record.
// Answers are lost. First aid is halted. A person edits the target, cancels the run, or sets the
// mode to observe. In every case one attempt has at most one effect, a decided rollback happens, a
// person's edit is kept, and a cancelled run only undoes.
func TestCrashAtEveryStepHasOneEffect(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(600) {
		s := &storm{rand: rand.New(rand.NewPCG(seed, 1)), before: -1}
		kind := []string{setArg, restart}[seed%2]
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			w := newWorld(t, kind, policy.Approve)
			if kind == setArg {
				w.sick = []func(string, int) map[string]float64{exhausted, harmed,
					func(p string, _ int) map[string]float64 { return exhausted(p, 256) }}[seed/2%3]
			}
			s.run(t, w)
			ends[kind+" "+string(w.actions[len(w.actions)-1].State)]++
		})
	}
	t.Log(ends)
	for _, want := range []string{"set_engine_arg succeeded", "set_engine_arg rolled_back", "set_engine_arg needs_human",
		"set_engine_arg superseded", "restart_worker succeeded", "restart_worker needs_human"} {
		if ends[want] == 0 {
			t.Errorf("no interleaving ended in %s", want)
		}
	}
}

type storm struct {
	rand   *rand.Rand
	edited string // the value that a person set
	before int    // how many writes there were when a person called the run off or forbade it; -1: neither happened
}

func (s *storm) one(in int) bool { return s.rand.IntN(in) == 0 }

func (s *storm) run(t *testing.T, w *world) {
	w.cfg.Timing = policy.Timing{Interval: time.Minute, Samples: 5}
	w.cluster.StartDelay = time.Duration(s.rand.IntN(90)) * time.Second
	id := w.plan().ID
	w.approve(sre)
	humans := s.one(3)
	for range 2000 {
		a, _ := w.Action(id)
		if a.State.Done() {
			s.check(t, w, a)
			return
		}
		if humans && s.edited == "" && s.one(12) {
			s.edit(w, a)
		}
		if s.one(40) {
			w.halt = &state.Halt{Actor: sre}
		} else if s.one(5) {
			w.halt = nil
		}
		if a.State == state.Intent && s.before < 0 && s.one(15) {
			if s.before = len(w.cluster.Changes()); s.one(2) {
				w.cfg.Mode = policy.Observe
			} else {
				w.actions[0].Journal[state.CalledOff] = "asha"
			}
			a, _ = w.Action(id)
		}
		s.deliver(w, a)
	}
	a, _ := w.Action(id)
	t.Fatalf("no end: %s %v", a.State, a.Journal)
}

// deliver takes one step, and may kill the process before or after any of its calls.
func (s *storm) deliver(w *world, a state.Action) {
	if a.NextAt.After(w.clock.now) {
		w.clock.now = a.NextAt
	}
	w.clock.now = w.clock.now.Add(time.Duration(s.rand.IntN(3000)) * time.Millisecond)
	ctx, kill := context.WithCancel(context.Background())
	defer kill()
	die := s.rand.IntN(8)
	w.cluster.Before, w.cluster.After = nil, nil
	switch die {
	case 0: // killed before the request leaves
		w.cluster.Before = func(string, string) error { kill(); return context.Canceled }
	case 1: // the request is lost on the way
		w.cluster.Before = func(string, string) error { return errLost }
	case 2: // killed when it took effect
		w.cluster.After = func(string, string) error { kill(); return context.Canceled }
	case 6: // a person is faster, between our read and our write
		w.cluster.Before = func(string, string) error {
			if s.edited == "" && s.one(4) {
				s.edit(w, a)
			}
			return nil
		}
	case 3: // its answer is lost
		w.cluster.After = func(string, string) error { return errLost }
	}
	res := w.bot().Run.Deliver(ctx, state.Effect{ID: "run", Action: a.ID})
	if ctx.Err() != nil || die == 4 { // killed before its record
		return
	}
	w.take(res.Inputs)
	if die == 5 { // the record is there, and the effect is delivered again by a process that did not see it
		w.take(res.Inputs)
	}
}

func (s *storm) edit(w *world, a state.Action) {
	if a.Target.Kind == "Pod" {
		p, err := w.cluster.Pod(context.Background(), "llm", "vllm-llama-1")
		if err == nil && p.UID == a.Target.UID {
			s.edited = "mine"
			w.cluster.EditPod("llm", "vllm-llama-1", func(p *cluster.Pod) { p.Labels["serving"] = "mine" })
		}
		return
	}
	if s.one(2) && a.State == state.Intent { // a rollout of something else, under the plan
		s.edited = "--model=llama-2"
		w.cluster.SetArgs(pool, "ci", s.edited, w.args()[1])
		return
	}
	s.edited = fmt.Sprintf("--max-num-seqs=%d", 32+s.rand.IntN(8))
	w.cluster.SetArgs(pool, "kubectl-edit", "--model=llama", s.edited)
}

// check asserts the invariants that hold after every interleaving.
func (s *storm) check(t *testing.T, w *world, a state.Action) {
	count := map[string]int{}
	for _, c := range w.cluster.Changes() {
		count[c.Verb+" "+c.Object+" "+c.Op]++
	}
	for what, n := range count {
		if n > 1 {
			t.Errorf("%s happened %d times", what, n)
		}
	}
	for _, c := range w.cluster.Changes()[max(s.before, 0):] {
		if s.before >= 0 && !strings.HasSuffix(c.Op, "-undone") {
			t.Errorf("after it was called off or forbidden: %s %s", c.Verb, c.Object)
		}
	}
	if a.Target.Kind == "Pod" {
		s.checkWorker(t, w, a)
		return
	}
	args := w.args()
	if s.edited != "" && !slices.Contains(args, s.edited) {
		t.Errorf("a person set %s, and it is %v (%s: %s)", s.edited, args, a.State, a.Reason)
	}
	if s.edited != "" {
		return
	}
	want := map[state.ActionState]string{state.Succeeded: "128", state.RolledBack: "256", state.Denied: "256",
		state.Superseded: "256"}[a.State]
	if want != "" && !slices.Contains(args, "--max-num-seqs="+want) {
		t.Errorf("%s (%s) and the args are %v", a.State, a.Reason, args)
	}
	if a.Verify.Verdict == state.Worse && a.State != state.RolledBack {
		t.Errorf("a rollback was lost: %s %s", a.State, a.Reason)
	}
}

func (s *storm) checkWorker(t *testing.T, w *world, a state.Action) {
	p, err := w.cluster.Pod(context.Background(), "llm", "vllm-llama-1")
	there := err == nil && p.UID == a.Target.UID
	switch {
	case a.State == state.Succeeded && there:
		t.Error("succeeded, and the worker is still there")
	case there && s.edited != "" && p.Labels["serving"] != s.edited:
		t.Errorf("a person's label is %q", p.Labels["serving"])
	case there && s.edited == "" && p.Labels["serving"] != "yes" && !strings.Contains(a.Reason, "kubectl"):
		t.Errorf("left out of serving without a word: %s %s", a.State, a.Reason)
	}
}
