package lab

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab/engine"
	"paramedic/lab/traffic"
)

// totals returns a pool's answered requests, its preemptions, and its highest KV usage.
func totals(f *Fleet) (served, preempted float64, kv float64) {
	for _, p := range f.Pods() {
		preempted += p.Preemptions
		kv = max(kv, p.KVUsage)
	}
	return f.served, preempted, kv
}

func TestLoweringMaxNumSeqsEndsKVExhaustion(t *testing.T) {
	after := func(fix bool) (served, preemptions float64) {
		f := broken(t, Config{Seed: 1}, Fault{Name: KVExhaustion}, 11*time.Minute)
		if _, p, kv := totals(f); p < 100 || kv < 0.95 {
			t.Fatalf("the pool is not exhausted: %v preemptions, KV %v", p, kv)
		}
		if fix {
			change := ArgChange{UID: f.Deployment().UID, Name: "max_num_seqs", Old: "256", New: "45",
				Annotations: map[string]string{"paramedic.dev/run": "ACT-1"}}
			if err := f.SetArg(change); err != nil {
				t.Fatal(err)
			}
		}
		f.Advance(f.Start().Add(20 * time.Minute))
		s0, p0, _ := totals(f)
		f.Advance(f.Start().Add(25 * time.Minute))
		s1, p1, _ := totals(f)
		if d := f.Deployment(); fix && (!d.Complete || d.Annotations["paramedic.dev/run"] == "") {
			t.Fatalf("the rollout is not over: %+v", d)
		}
		return s1 - s0, p1 - p0
	}
	served, preempted := after(true)
	if preempted > 5 {
		t.Errorf("%v preemptions in five minutes after the change", preempted)
	}
	sickServed, sickPreempted := after(false)
	t.Logf("with the change: %.0f served, %.0f preempted; without: %.0f served, %.0f preempted", served, preempted, sickServed,
		sickPreempted)
	if sickPreempted < 20*preempted {
		t.Errorf("without the change %v preemptions, with it %v", sickPreempted, preempted)
	}
	if served < sickServed {
		t.Errorf("%v served after the change, %v without it", served, sickServed)
	}
}

func TestReplacingLeakingWorkerFreesItsBlocks(t *testing.T) {
	bursts := traffic.Workload{Rate: 2.5, On: 75 * time.Second, Off: 75 * time.Second, Output: traffic.Lengths{Mean: 400, Sigma: 0.5}}
	f := broken(t, Config{Seed: 1, Workload: bursts}, Fault{Name: KVLeak, Severity: 2}, 17*time.Minute+25*time.Second) // at the end of a pause
	bad := f.Pods()[1]
	if bad.Running != 0 || bad.KVUsage < 0.3 {
		t.Fatalf("the worker does not leak: %+v", bad)
	}
	if err := f.Isolate(bad.Name, bad.UID); err != nil {
		t.Fatal(err)
	}
	if err := f.Evict(bad.Name, "another"); !errors.Is(err, ErrConflict) {
		t.Errorf("evicting another UID: %v", err)
	}
	if err := f.Evict(bad.Name, bad.UID); err != nil {
		t.Fatal(err)
	}
	if other := f.Pods()[0]; !errors.Is(f.Evict(other.Name, other.UID), ErrDisruption) {
		t.Error("the budget let a second worker go")
	}
	f.Advance(f.Start().Add(22*time.Minute + 25*time.Second))
	pods := f.Pods()
	if len(pods) != 4 {
		t.Fatalf("%d pods", len(pods))
	}
	for _, p := range pods {
		if !p.Ready || p.UID == bad.UID || p.KVUsage > 0.1 {
			t.Errorf("%s: ready %v, KV %.2f", p.Name, p.Ready, p.KVUsage)
		}
	}
}

func TestCordonKeepsReplacementOffBadGPU(t *testing.T) {
	f := broken(t, Config{Seed: 1}, Fault{Name: GPUFault}, 10*time.Minute)
	bad := f.Pods()[1]
	if bad.Ready || bad.Restarts < 2 || bad.LastExitCode != 1 {
		t.Fatalf("the worker does not crash: %+v", bad)
	}
	if err := f.Cordon(bad.Node, true); err != nil {
		t.Fatal(err)
	}
	if err := f.Evict(bad.Name, bad.UID); err != nil {
		t.Fatal(err)
	}
	f.Advance(f.Start().Add(13 * time.Minute))
	if d := f.Deployment(); d.Ready != 4 {
		t.Errorf("%d of 4 ready", d.Ready)
	}
}

func TestWriteOnStaleStateIsRefused(t *testing.T) {
	f := newFleet(t, Config{Seed: 1})
	for _, c := range []ArgChange{{UID: "another", Name: "max_num_seqs", New: "1"}, {Name: "max_num_seqs", Old: "128", New: "1"}} {
		if err := f.SetArg(c); !errors.Is(err, ErrConflict) {
			t.Errorf("%+v: %v", c, err)
		}
	}
	if d := f.Deployment(); d.Generation != 1 {
		t.Error("a refused write changed the Deployment")
	}
}

func TestTRTLLMsFlagsAreItsOwn(t *testing.T) {
	f := newFleet(t, Config{Seed: 1, Kind: engine.TRTLLM})
	if err := f.SetArg(ArgChange{Name: "max_num_seqs", Old: "256", New: "64"}); err != nil {
		t.Fatal(err)
	}
	d := f.Deployment()
	if d.Args[0] != "serve" || d.Args[1] != "llama-70b" || !slices.Contains(d.Args, "--max_batch_size=64") ||
		f.cfg.Kind.Apply(d.Args, f.cfg.Engine).MaxNumSeqs != 64 {
		t.Errorf("the arguments are %v", d.Args)
	}
	if slices.ContainsFunc(d.Args, func(a string) bool { return strings.HasPrefix(a, "--max-") }) {
		t.Errorf("%v has flags of vLLM", d.Args)
	}
}
