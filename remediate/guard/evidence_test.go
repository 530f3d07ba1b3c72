package guard

import (
	"math"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/policy"
	"paramedic/remediate/verify"
	"paramedic/state"
)

func ptr(v float64) *float64 { return &v }

// caution adds a caution about the scene's action.
func caution(s *Scene, c state.Caution) {
	c.Treatment = (playbooks.Remedy{Action: s.Action.Kind, Params: s.Action.Params}).Treatments()[0]
	s.Incident.Diagnosis.Story.Cautions = []state.Caution{c}
}

func TestEvidenceMustStillHold(t *testing.T) {
	leak := state.Finding{Signal: "kv_usage", Pod: "vllm-0", Value: .9, Baseline: ptr(.3), Weight: 5}
	memory := state.Finding{Signal: "container_memory", Pod: "vllm-0", Value: 90e9, Baseline: ptr(40e9), Weight: 5}
	found := func(set func(*Scene), findings ...state.Finding) func(*Scene) {
		return func(s *Scene) {
			s.Incident.Diagnosis.Findings = findings
			sample(s, "kv_usage", "vllm-0", .9, 0)
			sample(s, "container_memory", "vllm-0", 90e9, 0)
			if set != nil {
				set(s)
			}
		}
	}
	verdictAbout := func(pods ...string) func(*Scene) {
		return func(s *Scene) { s.Incident.Diagnosis.Scope.Pods, s.Incident.Scope.Pods = pods, nil }
	}
	of := func(pod string) func(*state.Finding) { return func(f *state.Finding) { f.Pod = pod } }
	mode := func(m policy.Mode) func(*Scene) { return func(s *Scene) { s.Rule.Mode = m } }
	with := func(f state.Finding, change func(*state.Finding)) state.Finding { change(&f); return f }
	runGuardCases(t, evidenceGuard, []guardCase{
		{name: "two signals", set: found(nil, leak, memory), want: state.Allow, says: "KV cache in use 0.9, container_memory 9"},
		{name: "one signal", set: found(nil, leak), want: state.Deny, says: "1 of 2 needed signals still support kv_leak"},
		{name: "one signal, approved", set: found(mode(policy.Approve), leak), want: state.Allow},
		{name: "no signal, approved", set: found(mode(policy.Approve)), want: state.Deny, says: "0 of 1 needed signals"},
		{name: "no signal is never enough", set: found(func(s *Scene) { s.Rule.Mode, s.Rule.Signals = policy.Approve, 1 }), want: state.Deny, says: "0 of 1 needed signals"},
		{name: "one signal, told of twice", set: found(nil, leak, leak), want: state.Deny, says: "1 of 2 needed signals"},
		{name: "an alert is no signal of its own", set: found(func(s *Scene) { sample(s, "symptom:x", "vllm-0", .9, 0) }, leak, with(leak, func(f *state.Finding) { f.Signal = "symptom:x" })),
			want: state.Deny, says: "1 of 2 needed signals"},
		{name: "what weighs nothing", set: found(nil, leak, with(memory, func(f *state.Finding) { f.Weight = 0 })), want: state.Deny, says: "1 of 2 needed signals"},
		{name: "what speaks against the cause", set: found(nil, leak, with(memory, func(f *state.Finding) { f.Weight = -2 })), want: state.Deny, says: "1 of 2 needed signals"},
		{name: "more has ended than goes on", set: found(func(s *Scene) {
			s.Rule.Mode = policy.Approve
			s.Evidence.Samples[1].Value = 40e9
			sample(s, "process_rss", "vllm-0", 0, 0)
		}, leak, memory, with(memory, func(f *state.Finding) { f.Signal = "process_rss" })), want: state.Deny,
			says: "no longer holds: container_memory"},
		{name: "as much has ended as goes on", set: found(func(s *Scene) {
			s.Rule.Mode = policy.Approve
			s.Evidence.Samples[1].Value = 40e9
		}, leak, memory), want: state.Allow},
		{name: "a stale value is none", set: found(func(s *Scene) { s.Evidence.Samples[1].At = s.Now.Add(-2*time.Minute - moment) }, leak, memory), want: state.Deny,
			says: "no fresh value: container_memory"},
		{name: "a value as old as it may be", set: found(func(s *Scene) { s.Evidence.Samples[1].At = s.Now.Add(-2 * time.Minute) }, leak, memory), want: state.Allow},
		{name: "no number is no value", set: found(func(s *Scene) { s.Evidence.Samples[1].Value = math.NaN() }, leak, memory), want: state.Deny, says: "no fresh value: container_memory"},
		{name: "a text is no value", set: found(func(s *Scene) { s.Evidence.Samples[1].Text = "yes" }, leak, memory), want: state.Deny, says: "no fresh value: container_memory"},
		{name: "another worker's value is none", set: found(func(s *Scene) { s.Evidence.Samples[1].Entity.Pod = "vllm-1" }, leak, memory), want: state.Deny, says: "no fresh value: container_memory"},
		{name: "a later finding of an unread signal counts", set: found(nil, leak, with(memory, func(f *state.Finding) { f.Pod = "vllm-3" }), memory), want: state.Allow},
		{name: "the incident is resolved", set: found(func(s *Scene) { s.Incident.Status = state.StatusResolved }, leak, memory), want: state.Deny, says: "is resolved"},
		{name: "no alert fires", set: found(func(s *Scene) { s.Incident.ActiveAlerts = 0 }, leak, memory), want: state.Deny, says: "no alert"},
		{name: "a possible cause that it makes worse", set: found(func(s *Scene) { caution(s, state.Caution{Cause: "gpu_fault"}) }, leak, memory), want: state.Deny,
			says: "GPU fault is not ruled out"},
		{name: "a possible cause, approved", set: found(func(s *Scene) {
			s.Rule.Mode = policy.Approve
			caution(s, state.Caution{Cause: "gpu_fault"})
		}, leak, memory), want: state.Allow, says: "not ruled out: GPU fault"},
		{name: "a young verdict", set: found(func(s *Scene) { caution(s, state.Caution{Until: s.Now.Add(time.Minute)}) }, leak, memory), want: state.Hold, says: "the verdict is young"},
		{name: "a verdict that has stood", set: found(func(s *Scene) { caution(s, state.Caution{Until: s.Now}) }, leak, memory), want: state.Allow},
		{name: "a caution about another treatment", set: found(func(s *Scene) {
			s.Incident.Diagnosis.Story.Cautions = []state.Caution{{Treatment: "scale out", Cause: "cold_start"}}
		}, leak, memory), want: state.Allow},
		{name: "the target is the broken worker", kind: playbooks.ActionRestartWorker, set: found(verdictAbout("vllm-0"), leak, memory), want: state.Allow},
		{name: "the verdict moved to another worker", kind: playbooks.ActionRestartWorker, set: found(verdictAbout("vllm-1"), leak, memory), want: state.Deny,
			says: "about vllm-1, and no longer about vllm-0"},
		{name: "the verdict names no worker", kind: playbooks.ActionRestartWorker, set: found(verdictAbout(), leak, memory), want: state.Deny, says: "about none"},
		{name: "another broken worker is worse", kind: playbooks.ActionRestartWorker, set: found(verdictAbout("vllm-1", "vllm-0"), with(leak, of("vllm-1")), with(memory, of("vllm-1"))),
			want: state.Allow},
		{name: "only the other worker is broken now", kind: playbooks.ActionRestartWorker, set: found(func(s *Scene) {
			verdictAbout("vllm-1", "vllm-0")(s)
			s.Evidence.Samples[0].Value, s.Evidence.Samples[1].Value = .3, 40e9
			sample(s, "kv_usage", "vllm-1", .9, 0)
			sample(s, "container_memory", "vllm-1", 90e9, 0)
		}, with(leak, of("vllm-1")), with(memory, of("vllm-1"))), want: state.Deny, says: "no longer holds"},
		{name: "another verdict", set: found(func(s *Scene) { s.Incident.Diagnosis.Cause = "engine_hang" }, leak, memory), want: state.Deny, says: "the verdict changed to engine_hang"},
	})
}

// The newest value of a worker decides, in any order. A value of the pool must be of this pool.
func TestNewestValueDecides(t *testing.T) {
	s := sceneOf(playbooks.ActionSetEngineArg)
	for _, age := range []time.Duration{time.Minute, 20 * time.Second, 40 * time.Second} {
		sample(s, "kv_usage", "vllm-0", age.Seconds(), age)
	}
	if v, ok := s.Newest("kv_usage", "vllm-0"); !ok || v.Value != 20 {
		t.Errorf("%v %t", v.Value, ok)
	}
	if _, ok := s.Newest("kv_usage", ""); ok {
		t.Error("a worker's value was taken for the pool's")
	}
	sample(s, "requests_waiting", "", 7, 0)
	s.Evidence.Samples[len(s.Evidence.Samples)-1].Entity.Pool = "other"
	if _, ok := s.Newest("requests_waiting", ""); ok {
		t.Error("another pool's value was taken")
	}
	for _, pool := range []string{"vllm", ""} {
		s.Evidence.Samples[len(s.Evidence.Samples)-1].Entity.Pool = pool
		if v, ok := s.Newest("requests_waiting", ""); !ok || v.Value != 7 {
			t.Errorf("the value of pool %q was not taken", pool)
		}
	}
}

func TestFindingOfThePoolIsJudgedByItsWorkers(t *testing.T) {
	worst := func(values ...float64) func(*Scene) {
		return func(s *Scene) {
			for i, v := range values {
				sample(s, "x", s.Pods[i].Name, v, 0)
			}
		}
	}
	for name, c := range map[string]struct {
		f         state.Finding
		set       func(*Scene)
		now       float64
		still, ok bool
	}{
		"too high, one worker still":        {state.Finding{Value: 10, Baseline: ptr(2)}, worst(1, 8, 1), 8, true, true},
		"too high, none any more":           {state.Finding{Value: 10, Baseline: ptr(2), Unit: "ratio"}, worst(5, 5, 5), 5, false, true},
		"too high, their sum still":         {state.Finding{Value: 10, Baseline: ptr(2)}, worst(3, 3, 3), 9, true, true},
		"too low, one worker still":         {state.Finding{Value: 2, Baseline: ptr(10)}, worst(9, 3, 9), 3, true, true},
		"too low, none any more":            {state.Finding{Value: 2, Baseline: ptr(10)}, worst(9, 7, 9), 7, false, true},
		"high, no baseline":                 {state.Finding{Value: 10, Unit: "ratio"}, worst(1, 5, 1), 5, true, true},
		"nothing, no baseline":              {state.Finding{Value: 0}, worst(3, 0, 3), 0, true, true},
		"nothing, no baseline, now some":    {state.Finding{Value: 0}, worst(3, 1, 3), 1, false, true},
		"as its baseline, still":            {state.Finding{Value: 4, Baseline: ptr(4)}, worst(1, 4), 4, true, true},
		"nothing as its baseline, now some": {state.Finding{Value: 0, Baseline: ptr(0)}, worst(0, 3), 3, false, true},
		"nobody reports":                    {state.Finding{Value: 10}, worst(), 0, false, false},
		"the named worker does not report":  {state.Finding{Value: 10, Pod: "vllm-4"}, worst(10, 10, 10), 0, false, false},
		"the pool's own value first":        {state.Finding{Value: 10}, func(s *Scene) { worst(1, 1)(s); sample(s, "x", "", 9, 0) }, 9, true, true},
		"a text of the pool is skipped": {state.Finding{Value: 10}, func(s *Scene) {
			worst(1, 8)(s)
			sample(s, "x", "", 0, 0)
			s.Evidence.Samples[2].Text = "x"
		}, 8, true, true},
	} {
		s := sceneOf(playbooks.ActionSetEngineArg)
		c.set(s)
		c.f.Signal = "x"
		if now, still, ok := s.recheck(c.f); now != c.now || still != c.still || ok != c.ok {
			t.Errorf("%s: %v %t %t", name, now, still, ok)
		}
	}
}

func TestFindingHoldsUpToTheMiddle(t *testing.T) {
	for _, c := range []struct {
		f    state.Finding
		now  float64
		want bool
	}{
		{state.Finding{Value: 10, Baseline: ptr(2)}, 6, true}, {state.Finding{Value: 10, Baseline: ptr(2)}, 5.9, false}, {state.Finding{Value: 10, Baseline: ptr(2)}, 20, true},
		{state.Finding{Value: 2, Baseline: ptr(10)}, 6, true}, {state.Finding{Value: 2, Baseline: ptr(10)}, 6.1, false}, {state.Finding{Value: 2, Baseline: ptr(10)}, 0, true},
		{state.Finding{Value: 4, Baseline: ptr(4)}, 2, true}, {state.Finding{Value: 4, Baseline: ptr(4)}, 1.9, false},
		{state.Finding{Value: 4}, 2, true}, {state.Finding{Value: 4}, 1.9, false},
		{state.Finding{Value: 0}, 0, true}, {state.Finding{Value: 0}, .1, false}, {state.Finding{Value: -1}, -3, true}, {state.Finding{Value: -1}, -.6, true},
	} {
		if got := holds(c.f, c.now); got != c.want {
			t.Errorf("%+v at %v: %t", c.f, c.now, got)
		}
	}
}

func TestVerdictRestsOnPositiveWeights(t *testing.T) {
	for weight, rests := range map[float64]bool{-1: false, 0: false, 1: true} {
		s := sceneOf(playbooks.ActionSetEngineArg)
		s.Incident.Diagnosis.Findings = []state.Finding{{Signal: "kv_usage", Value: .9, Weight: weight}}
		if got := s.restsOn(verify.Metric{Signal: "kv_usage"}, .9, true); got != rests {
			t.Errorf("weight %g: %t", weight, got)
		}
	}
}
