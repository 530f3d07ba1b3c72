package remediate

import (
	"slices"
	"testing"
	"time"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// People read the verdict at night: as percent, GiB and seconds, never as 0.8733333 or 1.2e+09.
func TestVerdictTextsUseUnits(t *testing.T) {
	a := &state.Action{Cause: "host_memory_leak", Params: map[string]string{}}
	a.Verify.Leading = []string{"container_memory"}
	a.Verify.Baseline = map[string]float64{"container_memory": 61e9, "kv_usage": 0.8733333, verify.PeerPrefix + "kv_usage": 0.5}
	a.Verify.Samples = map[string][]float64{"container_memory": {1.2e9, 1.2e9}, "kv_usage": {0.0048, 0.0048},
		verify.PeerPrefix + "kv_usage": {0.25, 0.25}}
	verdict, text := verify.Judge(a, restartWorker{}.Metrics(), 2, true)
	want := "kv_usage 87.3 % → 0.48 % (without the change it would be 43.7 %, by its peers), container_memory 56.8 GiB → 1.12 GiB"
	if verdict != state.Better || text != want {
		t.Errorf("%s %q\nwant %q", verdict, text, want)
	}
	for _, kind := range []action{setEngineArg{}, restartWorker{}} {
		for _, m := range kind.Metrics() {
			if m.Unit == "" {
				t.Errorf("%s has no unit", m.Signal)
			}
		}
	}
}

// Quantiles look back over the rollout. If the incident was found at its beginning, the baseline is
// nearly that of a healthy pool. First tokens that were late when the rollout ended and get faster
// are no harm. First tokens that stay late are, and those that are still late at the window's end.
func TestRecoveredMetricIsNoHarm(t *testing.T) {
	a := &state.Action{Cause: "kv_exhaustion", Params: map[string]string{"direction": "lower"}}
	a.Verify.Leading = []string{"preemption_rate", "kv_usage"}
	a.Verify.Baseline = map[string]float64{"preemption_rate": 0.35, "kv_usage": 0.99, "ttft_p95": 8.3}
	calm := slices.Repeat([]float64{0}, 8)
	for name, c := range map[string]struct {
		ttft []float64
		ends bool
		want state.Verdict
	}{
		"fallen":              {[]float64{18, 18, 17.9, 17.6, 17.5, 17.1, 16.9, 4}, false, state.Better},
		"falling":             {[]float64{19.1, 18.7, 17.8, 17, 17, 16.9, 16.8, 16.7}, false, state.Inconclusive},
		"falling, at the end": {[]float64{19.1, 18.7, 17.8, 17, 17, 16.9, 16.8, 16.7}, true, state.Worse},
		"late":                {[]float64{18, 18, 17.9, 17.6, 18.1, 18, 18.2, 17.9}, false, state.Worse},
		"rising":              {[]float64{4, 5, 9, 16, 17.5, 18, 19, 21}, false, state.Worse},
	} {
		a.Verify.Samples = map[string][]float64{"preemption_rate": calm, "kv_usage": slices.Repeat([]float64{.65}, 8), "ttft_p95": c.ttft}
		if got, text := verify.Judge(a, setEngineArg{}.Metrics(), 8, c.ends); got != c.want {
			t.Errorf("%s: %s, %s", name, got, text)
		}
	}
}

// A success needs the metrics that the verdict rests on, and no others.
func TestLeadingSignalsAreTheVerdicts(t *testing.T) {
	finding := func(signal string, value, usual, weight float64, reads ...string) state.Finding {
		return state.Finding{Signal: signal, Value: value, Baseline: &usual, Weight: weight, Reads: reads}
	}
	lower, raise := map[string]string{"direction": "lower"}, map[string]string{"direction": "raise"}
	for name, c := range map[string]struct {
		kind     action
		params   map[string]string
		cause    state.Cause
		findings []state.Finding
		base     map[string]float64
		want     []string
	}{
		"what was found": {setEngineArg{}, lower, "kv_exhaustion",
			[]state.Finding{finding("kv_usage", .98, .6, 7), finding("ttft_p95", 16, .5, 2), finding("requests_waiting", 24, 0, 4),
				finding("error_rate", .2, 0, 1)},
			map[string]float64{"kv_usage": .99, "ttft_p95": 18, "error_rate": .2}, []string{"kv_usage", "ttft_p95"}},
		"what was over before the write": {setEngineArg{}, lower, "kv_exhaustion",
			[]state.Finding{finding("kv_usage", .98, .6, 7), finding("ttft_p95", 16, .5, 2)},
			map[string]float64{"kv_usage": .99, "ttft_p95": .6}, []string{"kv_usage"}},
		"what is not known before the write": {setEngineArg{}, lower, "kv_exhaustion",
			[]state.Finding{finding("kv_usage", .98, .6, 7), finding("ttft_p95", 16, .5, 2)},
			map[string]float64{"kv_usage": .99}, []string{"kv_usage", "ttft_p95"}},
		"what speaks against, and alerts": {setEngineArg{}, lower, "kv_exhaustion",
			[]state.Finding{finding("kv_usage", .98, .6, -7), {Signal: "symptom:kv_pressure", Weight: 4, Reads: []string{"kv_usage"}}},
			map[string]float64{"kv_usage": .99}, nil},
		"what the remedy ends": {setEngineArg{}, lower, "kv_exhaustion", nil, map[string]float64{"preemption_rate": 5}, []string{"preemption_rate"}},
		"nothing to end":       {setEngineArg{}, lower, "kv_exhaustion", nil, map[string]float64{"preemption_rate": .04}, nil},
		"what a finding reads": {setEngineArg{}, raise, "concurrency_cap",
			[]state.Finding{finding("requests_running", 8, 3, 10, "max_num_seqs", "requests_running", "requests_waiting")},
			map[string]float64{"requests_waiting": 80, "ttft_p95": 4}, []string{"requests_waiting"}},
		"what it stands for": {restartWorker{}, nil, "kv_leak", []state.Finding{finding("kv_idle_usage", .6, 0, 16)},
			map[string]float64{"kv_usage": .7, "container_memory": 1}, []string{"kv_usage"}},
		"of another cause": {restartWorker{}, nil, "kv_leak", []state.Finding{finding("generation_tokens_rate", 0, 400, 8)},
			map[string]float64{"generation_tokens_rate": 0}, nil},
	} {
		s := &guard.Scene{Kind: c.kind, Action: &state.Action{Cause: c.cause, Params: c.params}}
		s.Incident.Diagnosis.Findings = c.findings
		if got := s.Leading(c.base); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Peers that got worse show that the change was not the cause. They do not end the symptoms.
func TestSignalIsNamedOnce(t *testing.T) {
	all := verify.Signals(setEngineArg{}.Metrics())
	if n := len(all); n < 5 || len(slices.Compact(slices.Sorted(slices.Values(all)))) != n {
		t.Errorf("%v", all)
	}
}

func TestPeersAloneMakeNothingBetter(t *testing.T) {
	a := &state.Action{Params: map[string]string{"direction": "lower"}}
	a.Verify.Leading = []string{"kv_usage"}
	a.Verify.Baseline = map[string]float64{"kv_usage": .99, verify.PeerPrefix + "kv_usage": .4}
	a.Verify.Samples = map[string][]float64{"kv_usage": {.99, .99, .99}, verify.PeerPrefix + "kv_usage": {.8, .8, .8}}
	if got, text := verify.Judge(a, setEngineArg{}.Metrics(), 3, true); got != state.Inconclusive {
		t.Errorf("%s: %s", got, text)
	}
	a.Verify.Samples["kv_usage"] = []float64{.6, .6, .6}
	if got, text := verify.Judge(a, setEngineArg{}.Metrics(), 3, true); got != state.Better {
		t.Errorf("%s: %s", got, text)
	}
}

// A success needs every metric: without a leading signal, or with an unread guardrail, the result
// is unknown.
func TestUnknownIsNeverSuccess(t *testing.T) {
	for name, change := range map[string]func(v *state.Verification){
		"no leading signal on record": func(v *state.Verification) { v.Leading = nil },
		"leading signal not read":     func(v *state.Verification) { delete(v.Samples, "preemption_rate") },
		"leading signal seldom read":  func(v *state.Verification) { v.Samples["preemption_rate"] = []float64{0, 0} },
		"leading signal not read before": func(v *state.Verification) {
			delete(v.Baseline, "preemption_rate")
		},
		"guardrail not read": func(v *state.Verification) { delete(v.Samples, "error_rate") },
	} {
		a := &state.Action{Params: map[string]string{"direction": "lower"}}
		a.Verify = state.Verification{Leading: []string{"preemption_rate", "kv_usage"},
			Baseline: map[string]float64{"preemption_rate": 5, "kv_usage": .99, "error_rate": 0},
			Samples:  map[string][]float64{"preemption_rate": {0, 0, 0}, "kv_usage": {.6, .6, .6}, "error_rate": {0, 0, 0}}}
		if got, text := verify.Judge(a, setEngineArg{}.Metrics(), 3, true); got != state.Better {
			t.Fatalf("as it is: %s: %s", got, text)
		}
		change(&a.Verify)
		if got, text := verify.Judge(a, setEngineArg{}.Metrics(), 3, true); got != state.Inconclusive {
			t.Errorf("%s: %s: %s", name, got, text)
		}
	}
}

func TestBaselineOmitsRarelyReadSignals(t *testing.T) {
	s := &guard.Scene{Site: &guard.Site{Rules: policy.Rules{Timing: policy.Timing{}.OrDefaults()}}, Action: &state.Action{}}
	s.Action.Verify.Before = map[string][]float64{"kv_usage": {.9, .99, .98}, "error_rate": {0, 0}}
	if got := s.Baseline(); len(got) != 1 || got["kv_usage"] != .98 {
		t.Errorf("%v", got)
	}
}

// The course of the samples decides. A guardrail that happens to improve excuses no harm.
func TestCourseOfTheSamplesDecides(t *testing.T) {
	steady := func(v float64) []float64 { return slices.Repeat([]float64{v}, 9) }
	late := func(first, last float64) []float64 {
		return append(slices.Repeat([]float64{first}, 6), last, last, last)
	}
	for name, c := range map[string]struct {
		kind    action
		cause   state.Cause
		leading []string
		base    map[string]float64
		samples map[string][]float64
		want    state.Verdict
	}{
		"better all along": {setEngineArg{}, "kv_exhaustion", []string{"kv_usage"}, map[string]float64{"kv_usage": .99},
			map[string][]float64{"kv_usage": steady(.6)}, state.Better},
		"better at the end only": {setEngineArg{}, "kv_exhaustion", []string{"kv_usage"}, map[string]float64{"kv_usage": .99},
			map[string][]float64{"kv_usage": late(.99, .6)}, state.Inconclusive},
		"worse again at the end": {setEngineArg{}, "kv_exhaustion", []string{"kv_usage"}, map[string]float64{"kv_usage": .99},
			map[string][]float64{"kv_usage": late(.6, .99)}, state.Inconclusive},
		"latency that the rollout cost": {setEngineArg{}, "kv_exhaustion", []string{"kv_usage", "ttft_p95"},
			map[string]float64{"kv_usage": .99, "ttft_p95": 8}, map[string][]float64{"kv_usage": steady(.6),
				"ttft_p95": late(15, .5)}, state.Better},
		"harm beside a guardrail that is better": {setEngineArg{}, "kv_exhaustion", []string{"kv_usage"},
			map[string]float64{"kv_usage": .5, "ttft_p95": 8}, map[string][]float64{"kv_usage": steady(.9),
				"ttft_p95": steady(.5)}, state.Worse},
		"harm beside what led": {restartWorker{}, "host_memory_leak", []string{"container_memory"},
			map[string]float64{"container_memory": 90e9, "kv_usage": .5}, map[string][]float64{"container_memory": steady(40e9),
				"kv_usage": steady(.9)}, state.Inconclusive},
	} {
		a := &state.Action{Cause: c.cause, Params: map[string]string{"direction": "lower"}}
		a.Verify.Leading, a.Verify.Baseline, a.Verify.Samples = c.leading, c.base, c.samples
		if got, text := verify.Judge(a, c.kind.Metrics(), 9, true); got != c.want {
			t.Errorf("%s: %s, %s", name, got, text)
		}
	}
}

// The pool's own value replaces its workers' only if it belongs to the pool and is fresh.
func TestPoolValueReplacesWorkerValues(t *testing.T) {
	now := time.Date(2026, 3, 2, 3, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		pool string
		at   time.Time
		want bool
	}{
		"the pool's":       {"llama", now, true},
		"of no pool":       {"", now, false},
		"before the write": {"llama", now.Add(-90 * time.Second), false},
	} {
		s := &guard.Scene{Site: &guard.Site{}, Now: now, Rule: policy.Rule{Limits: policy.Limits{}.OrDefaults()}, Kind: setEngineArg{},
			Workload: cluster.Workload{Ref: cluster.Ref{Name: "llama"}},
			Action:   &state.Action{Params: map[string]string{"direction": "lower"}}}
		s.Evidence.Samples = []state.Sample{{Signal: "ttft_p95", Value: 8, At: c.at, Entity: state.Entity{Pool: c.pool}}}
		if _, got := s.Measure("", now.Add(-time.Minute).UnixNano())["ttft_p95"]; got != c.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	s := &guard.Scene{Site: &guard.Site{}, Now: now, Rule: policy.Rule{Limits: policy.Limits{}.OrDefaults()}, Kind: restartWorker{},
		Workload: cluster.Workload{Ref: cluster.Ref{Name: "llama"}}, Action: &state.Action{}}
	s.Evidence.Samples = []state.Sample{{Signal: "kv_usage", Value: .9, At: now, Entity: state.Entity{Pool: "llama"}}}
	if got, ok := s.Measure("llama-1", 0)["kv_usage"]; ok {
		t.Errorf("the pool's value is the worker's: %v", got)
	}
	if got := (policy.Timing{Samples: 4}).Readings(); got != 3 {
		t.Errorf("%d readings", got)
	}
}
