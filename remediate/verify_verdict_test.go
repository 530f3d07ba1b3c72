package remediate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/remediate/verify"
	"paramedic/state"
)

// An on-call engineer reads the verdict's text at night: each text names what was measured, and no
// more.
func TestVerdictNamesTheMetrics(t *testing.T) {
	type v = map[string]float64
	lower, raise := map[string]string{"direction": "lower"}, map[string]string{"direction": "raise"}
	for name, c := range map[string]struct {
		kind      action
		params    map[string]string
		leading   []string
		base, now v
		verdict   state.Verdict
		says      string
	}{
		"nothing read": {setEngineArg{}, lower, nil, v{"kv_usage": .99}, nil,
			state.Inconclusive, "every signal that would show an improvement has fewer than 3 samples"},
		"what leads is not read, and nothing else": {setEngineArg{}, lower, []string{"kv_usage"}, v{"kv_usage": .99}, nil,
			state.Inconclusive, "every signal that would show an improvement has fewer than 3 samples"},
		"what leads is not read": {setEngineArg{}, lower, []string{"kv_usage"}, v{"kv_usage": .99, "preemption_rate": 5}, v{"preemption_rate": 0},
			state.Inconclusive, "too few samples of kv_usage after the change; better: preemption_rate 5/s → 0/s"},
		"what leads is not read, and harm": {restartWorker{}, nil, []string{"kv_usage"}, v{"kv_usage": .9, "container_memory": 1 << 30}, v{"container_memory": 2 << 30},
			state.Worse, "worse: container_memory 1 GiB → 2 GiB"},
		"what leads is not read, and no change": {restartWorker{}, nil, []string{"kv_usage"}, v{"kv_usage": .9, "container_memory": 1 << 30}, v{"container_memory": 1 << 30},
			state.Inconclusive, "too few samples of kv_usage after the change; no clear change: container_memory 1 GiB → 1 GiB"},
		"what does not lead is not read": {setEngineArg{}, lower, []string{"preemption_rate"}, v{"kv_usage": .99, "preemption_rate": 5}, v{"preemption_rate": 0},
			state.Better, "preemption_rate 5/s → 0/s"},
		"a guardrail is not read": {setEngineArg{}, lower, []string{"preemption_rate"}, v{"error_rate": .01, "preemption_rate": 5}, v{"preemption_rate": 0},
			state.Inconclusive, "too few samples of error_rate after the change; better: preemption_rate 5/s → 0/s"},
		"no change": {setEngineArg{}, lower, []string{"kv_usage"}, v{"kv_usage": .99}, v{"kv_usage": .98},
			state.Inconclusive, "no clear change: kv_usage 99 % → 98 %"},
		"one leads, one stays": {setEngineArg{}, lower, []string{"kv_usage", "preemption_rate"}, v{"kv_usage": .99, "preemption_rate": 5}, v{"kv_usage": .6, "preemption_rate": 5},
			state.Inconclusive, "the symptoms continue: no clear change: preemption_rate 5/s → 5/s; better: kv_usage 99 % → 60 %"},
		"better, and nothing leads": {setEngineArg{}, lower, nil, v{"kv_usage": .99, "error_rate": 0}, v{"kv_usage": .6, "error_rate": 0},
			state.Inconclusive, "no signal that supports the verdict improved; no clear change: error_rate 0 % → 0 %; better: kv_usage 99 % → 60 %"},
		"as much better as worse": {setEngineArg{}, raise, []string{"requests_waiting"}, v{"requests_waiting": 80, "ttft_p95": 1}, v{"requests_waiting": 10, "ttft_p95": 9},
			state.Inconclusive, "better: requests_waiting 80 requests → 10 requests; worse: ttft_p95 1 s → 9 s"},
		"more worse than better": {setEngineArg{}, raise, nil, v{"ttft_p95": 1}, v{"ttft_p95": 9},
			state.Worse, "worse: ttft_p95 1 s → 9 s"},
	} {
		a := &state.Action{Cause: "kv_exhaustion", Params: c.params}
		a.Verify = state.Verification{Leading: c.leading, Baseline: c.base, Samples: map[string][]float64{}}
		for signal, x := range c.now {
			a.Verify.Samples[signal] = slices.Repeat([]float64{x}, 3)
		}
		if got, text := verify.Judge(a, c.kind.Metrics(), 3, true); got != c.verdict || text != c.says {
			t.Errorf("%s: %s, %q\nwant %s, %q", name, got, text, c.verdict, c.says)
		}
	}
}

// verified returns a run whose window began just now and lasts ten minutes, with this many samples.
func verified(kind string, samples int, base, earlier, now map[string]float64) *runCase {
	b := newRun(kind, state.Verifying)
	b.note("replacement", "vllm-0")
	b.act.Params["direction"] = "lower"
	b.act.Verify = state.Verification{Settle: noon, Until: noon.Add(10 * time.Minute), Leading: []string{"kv_usage"}, Baseline: base,
		Samples: map[string][]float64{}}
	for signal, v := range earlier {
		b.act.Verify.Samples[signal] = slices.Repeat([]float64{v}, samples)
	}
	b.reads(now)
	return b
}

// reads makes each worker report these values and no others.
func (b *runCase) reads(now map[string]float64) {
	b.ev.Samples = nil
	for signal, v := range now {
		for _, p := range b.p.pods {
			b.ev.Samples = append(b.ev.Samples,
				state.Sample{Signal: signal, Value: v, At: noon, Entity: state.Entity{Namespace: "llm", Pool: "vllm", Pod: p.Name}})
		}
	}
}

// Harm ends the window early. A reversible change is rolled back, and any other needs a person.
func TestHarmEndsTheVerification(t *testing.T) {
	base := map[string]float64{"kv_usage": .5, "error_rate": 0}
	harm := map[string]float64{"kv_usage": .5, "error_rate": .4}
	step := func(kind action) func(context.Context, *stage) advance {
		return func(ctx context.Context, s *stage) advance { return (&Runner{cfg: s.cfg}).verify(ctx, s, kind) }
	}
	after := func(kind string, n int) func() *runCase {
		return func() *runCase { return verified(kind, n, base, harm, harm) }
	}
	runSteps(t, after(setEngineArgKind, 9), step(setEngineArg{}), []stepCase{
		{name: "of a cap", to: state.RollbackIntent, says: "guardrail breached: error_rate 0 % → 40 %"}})
	runSteps(t, after(setEngineArgKind, 10), step(setEngineArg{}), []stepCase{
		{name: "of a cap, while what leads cannot be read", set: func(b *runCase) { b.reads(map[string]float64{"error_rate": .4}) }, to: state.RollbackIntent, says: "guardrail breached"}})
	runSteps(t, after(setEngineArgKind, 8), step(setEngineArg{}), []stepCase{
		{name: "of a cap, after too few samples", to: state.Verifying, wait: interval}})
	runSteps(t, after(restartWorkerKind, 9), step(restartWorker{}), []stepCase{
		{name: "of a restart", to: state.NeedsHuman, says: "guardrail breached: error_rate 0 % → 40 %; this action has no rollback"}})
}

// If the read of the change fails, no sample is taken.
func TestUnknownReplacementIsNoSample(t *testing.T) {
	now := map[string]float64{"kv_usage": .3}
	b := verified(restartWorkerKind, 0, map[string]float64{"kv_usage": .9}, nil, now)
	b.p.podErr = errAway
	got := (&Runner{cfg: b.cfg}).verify(t.Context(), b.stage, restartWorker{})
	if v := b.act.Verify; got.to != state.Verifying || v.Errors != 1 || len(v.Samples) != 0 {
		t.Errorf("%s: %d errors, %v", got.to, v.Errors, v.Samples)
	}
}

// rollout returns a run whose rollout is under way, with this many harmful readings.
func rollout(seen int, now map[string]float64) *runCase {
	b := verified(setEngineArgKind, 0,
		map[string]float64{"error_rate": .01, "ttft_p95": 1, "kv_usage": .5, "replicas_ready": 5, verify.WantedSignal: 5}, nil, now)
	b.act.State, b.act.Steps[1].State = state.Applied, state.Applied
	b.act.Verify.Watched = map[string][]float64{"error_rate": slices.Repeat([]float64{.4}, seen),
		"replicas_ready": slices.Repeat([]float64{4}, seen)}
	b.p.w.Updated = 1
	return b
}

// Four harmful readings precede, so one more makes a breach.
func TestWatchedGuardrailsEndARollout(t *testing.T) {
	calmly, harm := map[string]float64{"error_rate": .01, "ttft_p95": 1, "kv_usage": .5}, map[string]float64{"error_rate": .4}
	for name, c := range map[string]struct {
		seen int
		now  map[string]float64
		set  func(*runCase)
		says string // empty: no breach
	}{
		"no harm":                           {seen: 4, now: calmly},
		"harm for long enough":              {seen: 4, now: harm, says: "error_rate 1 % → 40 %"},
		"harm for a reading less":           {seen: 3, now: harm},
		"read an interval ago":              {seen: 4, now: harm, set: func(b *runCase) { b.note(keyWatched, ago(interval)) }, says: "error_rate"},
		"read just now":                     {seen: 4, now: harm, set: func(b *runCase) { b.note(keyWatched, ago(interval-moment)) }},
		"no time of the last reading":       {seen: 4, now: harm, set: func(b *runCase) { b.note(keyWatched, "lately") }, says: "error_rate"},
		"what a rollout costs":              {seen: 4, now: map[string]float64{"ttft_p95": 60, "kv_usage": .99}, set: func(b *runCase) { b.seen("ttft_p95", "kv_usage") }},
		"no baseline":                       {seen: 4, now: harm, set: func(b *runCase) { delete(b.act.Verify.Baseline, "error_rate") }},
		"a worker lost":                     {seen: 4, now: calmly, set: func(b *runCase) { b.p.pods[0].Ready = false }, says: "replicas_ready 5 pods → 4 pods"},
		"a worker that the change stops":    {seen: 4, now: calmly, set: func(b *runCase) { b.p.pods[0].Ready = false; b.p.w.MaxSurge, b.p.w.MaxUnavailable = 0, 1 }},
		"all workers, as the strategy says": {seen: 4, now: calmly, set: func(b *runCase) { b.p.w.Recreate = true; b.p.pods = nil }},
		"the pool is not readable":          {seen: 4, now: harm, set: func(b *runCase) { b.p.podsErr = errAway; delete(b.act.Verify.Baseline, verify.WantedSignal) }},
	} {
		b := rollout(c.seen, c.now)
		if c.set != nil {
			c.set(b)
		}
		got := b.watch(t.Context(), setEngineArg{})
		if (got != "") != (c.says != "") || !strings.Contains(got, c.says) {
			t.Errorf("%s: %q, want %q", name, got, c.says)
		}
	}
}

// seen marks the signals as harmful in all readings before.
func (b *runCase) seen(signals ...string) {
	for _, s := range signals {
		b.act.Verify.Watched[s] = slices.Repeat([]float64{100}, 4)
	}
}

// A change that another hand took back is not rolled back for its guardrails.
func TestBreachRollsBackOnlyWhatIsInForce(t *testing.T) {
	begin := func() *runCase { return rollout(4, map[string]float64{"error_rate": .4}) }
	step := func(ctx context.Context, s *stage) advance {
		return (&Runner{cfg: s.cfg}).takeEffect(ctx, s, setEngineArg{})
	}
	runSteps(t, begin, step, []stepCase{
		{name: "while it goes on", to: state.RollbackIntent, says: "guardrail breached while"},
		{name: "put back by hand", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = b.act.Write.Old }, to: state.Superseded},
		{name: "changed by hand", set: func(b *runCase) { b.p.w.Containers[0].Args[0] = "--max-num-seqs=8" }, to: state.NeedsHuman, says: "leaves it as it is"},
		{name: "complete", set: func(b *runCase) { b.p.w.Updated = 5 }, to: state.Verifying},
	})
}

// A success waits a little for a signal that cannot be read at the end. Then the run ends without
// success.
func TestSuccessWaitsForItsLastReading(t *testing.T) {
	good := map[string]float64{"kv_usage": .6, "preemption_rate": 0}
	step := func(ctx context.Context, s *stage) advance {
		return (&Runner{cfg: s.cfg}).verify(ctx, s, setEngineArg{})
	}
	begin := func() *runCase {
		b := verified(setEngineArgKind, 10, map[string]float64{"kv_usage": .99, "preemption_rate": 5}, good,
			map[string]float64{"preemption_rate": 0})
		b.act.Verify.Settle, b.act.Verify.Until = noon.Add(-10*time.Minute), noon
		return b
	}
	ended := func(ago time.Duration) func(*runCase) {
		return func(b *runCase) { b.act.Verify.Until = noon.Add(-ago) }
	}
	runSteps(t, begin, step, []stepCase{
		{name: "dark", to: state.Verifying, wait: interval},
		{name: "read", set: func(b *runCase) { b.reads(good) }, to: state.Succeeded},
		{name: "all that leads is read", set: func(b *runCase) { b.reads(map[string]float64{"kv_usage": .6}) }, to: state.Succeeded},
		{name: "read again", set: func(b *runCase) { b.reads(good); ended(interval)(b) }, to: state.Succeeded},
		{name: "dark for two minutes, nearly", set: ended(4*interval - moment), to: state.Verifying, wait: moment},
		{name: "dark for two minutes", set: ended(4 * interval), to: state.NeedsHuman, says: "kv_usage: no value at the end; "},
	})
}
