package remediate

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// report adds a value with the names of its pool and its pod, or with one of them.
func report(s *guard.Scene, signal, pool, pod string, value float64, age time.Duration) {
	s.Evidence.Samples = append(s.Evidence.Samples, state.Sample{Signal: signal, Value: value, At: s.Now.Add(-age),
		Entity: state.Entity{Cluster: "prod", Namespace: "llm", Pool: pool, Pod: pod}})
}

func TestReadingKeepsPoolAndPeersApart(t *testing.T) {
	const minutes = 2 * time.Minute // evidence_age
	for name, c := range map[string]struct {
		kind, direction string // empty: set_engine_arg, lower
		cause           state.Cause
		set             func(*guard.Scene)
		want            map[string]float64 // beside the number of workers
	}{
		"all workers": {set: func(s *guard.Scene) { each(s, "kv_usage", .5); each(s, "preemption_rate", 2) },
			want: map[string]float64{"kv_usage": .5, "preemption_rate": 10}},
		"a sum that lacks a worker": {set: func(s *guard.Scene) {
			each(s, "preemption_rate", 2)
			s.Evidence.Samples = s.Evidence.Samples[1:]
			report(s, "kv_usage", "vllm", "vllm-1", .5, 0)
		}, want: map[string]float64{"kv_usage": .5}},
		"another pool": {set: func(s *guard.Scene) {
			each(s, "kv_usage", .5)
			report(s, "kv_usage", "b", "b-0", .7, 0)
			report(s, "kv_usage", "b", "b-1", .8, 0)
			report(s, "preemption_rate", "b", "b-1", 3, 0)
		}, want: map[string]float64{"kv_usage": .5, "peers:kv_usage": .8, "peers:preemption_rate": 3}},
		"a worker that is gone": {set: func(s *guard.Scene) { each(s, "kv_usage", .5); report(s, "kv_usage", "vllm", "vllm-9", .99, 0) },
			want: map[string]float64{"kv_usage": .5}},
		"a worker of no pool": {set: func(s *guard.Scene) { each(s, "kv_usage", .5); report(s, "kv_usage", "", "x-0", .99, 0) },
			want: map[string]float64{"kv_usage": .5}},
		"a worker under another pool's name": {set: func(s *guard.Scene) { report(s, "kv_usage", "b", "vllm-0", .9, 0) },
			want: map[string]float64{"kv_usage": .9}},
		"as old as may be, of the pool": {set: func(s *guard.Scene) { report(s, "ttft_p95", "vllm", "", 8, minutes) },
			want: map[string]float64{"ttft_p95": 8}},
		"older, of the pool": {set: func(s *guard.Scene) { report(s, "ttft_p95", "vllm", "", 8, minutes+moment) }},
		"what shows another direction": {direction: "raise", set: func(s *guard.Scene) { each(s, "kv_usage", .5); each(s, "requests_waiting", 4) },
			want: map[string]float64{"requests_waiting": 20}},
		"the treated worker": {kind: restartWorkerKind, set: func(s *guard.Scene) {
			each(s, "kv_usage", .3)
			s.Evidence.Samples[0].Value, s.Evidence.Samples[2].Value = .9, .4
			report(s, "kv_usage", "b", "b-0", .99, 0)
			each(s, "error_rate", .1)
			report(s, "error_rate", "b", "b-0", .2, 0)
		}, want: map[string]float64{"kv_usage": .9, "peers:kv_usage": .4, "error_rate": .1, "peers:error_rate": .2}},
		"the treated worker's own sum": {kind: restartWorkerKind, cause: "engine_hang", set: func(s *guard.Scene) { report(s, "generation_tokens_rate", "vllm", "vllm-0", 7, 0) },
			want: map[string]float64{"generation_tokens_rate": 7}},
		"what shows another cause": {kind: restartWorkerKind, set: func(s *guard.Scene) { each(s, "generation_tokens_rate", 7) }},
	} {
		s := sceneOf(cmp.Or(c.kind, setEngineArgKind))
		s.Action.Cause, s.Action.Params["direction"] = cmp.Or(c.cause, s.Action.Cause), cmp.Or(c.direction, "lower")
		c.set(s)
		want := map[string]float64{"replicas_ready": 5, verify.WantedSignal: 5}
		maps.Copy(want, c.want)
		if got := s.Reading(); !maps.Equal(got, want) {
			t.Errorf("%s: %v, want %v", name, got, want)
		}
	}
}

// Without the workload and its pods, a value may be another pool's.
func TestUnreadPoolHasNoReading(t *testing.T) {
	s := sceneOf(setEngineArgKind)
	s.Action.Params["direction"] = "lower"
	s.Unread, s.Workload, s.Pods = errAway, cluster.Workload{}, nil
	report(s, "error_rate", "", "", .4, 0)
	report(s, "error_rate", "vllm", "vllm-0", .4, 0)
	if got := s.Reading(); len(got) != 0 {
		t.Errorf("%v", got)
	}
}

func TestPeersAreTheModelsOtherPools(t *testing.T) {
	for name, c := range map[string]struct {
		kind, model string
		want        []string
	}{
		"a pool":               {setEngineArgKind, "llama", []string{"b-0"}},
		"of no known model":    {setEngineArgKind, "", nil},
		"one worker of a pool": {restartWorkerKind, "llama", nil},
	} {
		far := sceneOf(c.kind)
		report(far, "kv_usage", "b", "b-0", .5, 0)
		report(far, "kv_usage", "", "x-0", .5, 0)
		report(far, "kv_usage", "vllm", "vllm-9", .5, 0)
		report(far, "kv_usage", "b", "vllm-0", .5, 0)
		s := sceneOf(c.kind)
		s.Site.Gauge, s.Incident.Scope.Model = fixedGauge{&far.Evidence}, c.model
		s.PeersEvidence(t.Context())
		var got []string
		for _, v := range s.Evidence.Samples {
			got = append(got, v.Entity.Pod)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Two metrics of one signal would judge one series twice.
func TestEachSignalIsJudgedByOneMetric(t *testing.T) {
	for _, kind := range []action{setEngineArg{}, restartWorker{}} {
		for _, m := range kind.Metrics() {
			if m.Rolling != (verify.Rolling{}) && !m.Guardrail {
				t.Errorf("%s is watched while the change takes effect, and is no guardrail", m.Signal)
			}
			for _, direction := range []string{"lower", "raise"} {
				a := &state.Action{Cause: m.Cause, Params: map[string]string{"direction": direction}}
				if all := verify.Applying(kind.Metrics(), a); len(verify.Signals(all)) != len(all) {
					t.Errorf("cause %q, %s: %v", m.Cause, direction, all)
				}
			}
		}
	}
}

func TestBaselineTakesMoreThanHalfOfItsWindow(t *testing.T) {
	s := sceneOf(setEngineArgKind)
	s.Site.Timing = policy.Timing{Samples: 12}.OrDefaults() // six readings
	s.Action.Verify.Before = map[string][]float64{"kv_usage": {.9, .9, .9}, "preemption_rate": {5, 5, 5, 5}}
	if got := s.Baseline(); !maps.Equal(got, map[string]float64{"preemption_rate": 5}) {
		t.Errorf("%v", got)
	}
	// A pause as long as the window leaves no reading of it.
	for pause, want := range map[time.Duration]int{6 * interval: 2, 6*interval + moment: 1} {
		s.Action.Verify.Before = map[string][]float64{"kv_usage": {.9}}
		s.Action.Params["direction"], s.Evidence.Samples = "lower", nil
		each(s, "kv_usage", .9)
		if s.Observe(noon.Add(-pause)); len(s.Action.Verify.Before["kv_usage"]) != want {
			t.Errorf("after %s: %v", pause, s.Action.Verify.Before)
		}
	}
}

// A finding without weight, and a value within the noise, do not lead.
func TestSignalWithinNoiseDoesNotLead(t *testing.T) {
	for name, c := range map[string]struct {
		base     map[string]float64
		findings []state.Finding
		want     string
	}{
		"as much as the noise": {map[string]float64{"preemption_rate": .05}, nil, ""},
		"more than the noise":  {map[string]float64{"preemption_rate": .06}, nil, "preemption_rate"},
		"without weight":       {map[string]float64{"kv_usage": .99}, []state.Finding{{Signal: "kv_usage", Value: .99}}, ""},
		"with weight":          {map[string]float64{"kv_usage": .99}, []state.Finding{{Signal: "kv_usage", Value: .99, Weight: 1}}, "kv_usage"},
	} {
		s := sceneOf(setEngineArgKind)
		s.Action.Params["direction"], s.Incident.Diagnosis.Findings = "lower", c.findings
		if got := strings.Join(s.Leading(c.base), " "); got != c.want {
			t.Errorf("%s: %q", name, got)
		}
	}
}

// First tokens show whether a raised cap helps. For a lowered cap they are only a guardrail.
func TestGuardrailsAloneAreNotInformative(t *testing.T) {
	got := map[string]float64{"ttft_p95": 1, "error_rate": 0, "replicas_ready": 5}
	for direction, want := range map[string]bool{"lower": false, "raise": true} {
		if verify.Informative(setEngineArg{}.Metrics(), &state.Action{Params: map[string]string{"direction": direction}}, got) != want {
			t.Errorf("%s: %t", direction, !want)
		}
	}
}

// An idle worker does not show what a request takes.
func TestIdlePoolHasNoSafeValue(t *testing.T) {
	for name, c := range map[string]struct {
		used, running float64
		want          int
		says          string
	}{
		"runs":              {.5, 10, 17, "85 % of the KV cache holds 17 requests of 5 % each"},
		"runs nothing":      {.5, 0, 0, "kv_usage or requests_running is missing or zero"},
		"holds nothing":     {0, 10, 0, "kv_usage or requests_running is missing or zero"},
		"less than nothing": {-.5, 10, 0, "kv_usage or requests_running is missing or zero"},
	} {
		s := sceneOf(setEngineArgKind)
		each(s, "kv_usage", c.used)
		each(s, "requests_running", c.running)
		if got, how := safeByUse(s, 1, false); got != c.want || !strings.Contains(how, c.says) {
			t.Errorf("%s: %d, %s", name, got, how)
		}
	}
}

// A leading signal must be readable now, and must have a baseline.
func TestLeadingSignalNeedsBothEndsOfItsWay(t *testing.T) {
	both := map[string][]float64{"kv_usage": slices.Repeat([]float64{.99}, 5), "preemption_rate": slices.Repeat([]float64{25}, 5)}
	seldom := map[string][]float64{"kv_usage": {.99}, "preemption_rate": both["preemption_rate"]}
	for name, c := range map[string]struct {
		before map[string][]float64
		now    []string
		want   state.Decision
	}{
		"both":                 {both, []string{"kv_usage", "preemption_rate"}, state.Allow},
		"not now":              {both, []string{"preemption_rate"}, state.Deny},
		"seldom in the window": {seldom, []string{"kv_usage", "preemption_rate"}, state.Deny},
	} {
		b, s := newRun(setEngineArgKind, state.Admitted), sceneOf(setEngineArgKind)
		s.Cluster, s.Action.Params = b.p, map[string]string{"arg": "max_num_seqs", "direction": "lower", "from": "100", "to": "50"}
		s.Incident.Diagnosis.Findings = []state.Finding{{Signal: "kv_usage", Value: .99, Baseline: ptr(.6), Weight: 5}}
		s.Action.Verify.Before = c.before
		for _, signal := range c.now {
			each(s, signal, map[string]float64{"kv_usage": .99, "preemption_rate": 5}[signal])
		}
		if got := answer(t.Context(), s, "verifiability"); got.Decision != c.want ||
			c.want == state.Deny && !strings.Contains(got.Reason, "no fresh value or no baseline of kv_usage") {
			t.Errorf("%s: %s, %s", name, got.Decision, got.Reason)
		}
	}
}
