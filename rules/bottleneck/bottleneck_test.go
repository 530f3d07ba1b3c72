package bottleneck_test

import (
	"testing"

	"paramedic/rules/bottleneck"
	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

func TestBottleneckDescribesShares(t *testing.T) {
	c := rulestest.MustLoad(t)
	base := map[string]float64{"queue_time_mean": .1, "prefill_time_mean": .3, "decode_time_mean": 3, "itl_p50": .02, "itl_p95": .04,
		"prefix_hit_ratio": .5,
		"ttft_p95":         .5, "queue_time_p95": .2}
	for name, tc := range map[string]struct {
		now   map[string]float64
		class bottleneck.Class
		says  string
	}{
		"waiting": {map[string]float64{"queue_time_mean": 4, "ttft_p95": 9, "queue_time_p95": 8}, bottleneck.BottleneckQueue,
			"time to first token and queue time are high, decode is normal: overload or long prompts"},
		"nothing is reused": {map[string]float64{"prefill_time_mean": 4, "prefix_hit_ratio": .02, "ttft_p95": 9}, bottleneck.BottleneckNoCache,
			"time to first token is high without a queue: slow prefill or fewer prefix cache hits"},
		"long prompts": {map[string]float64{"prefill_time_mean": 4, "ttft_p95": 9}, bottleneck.BottleneckPrefill,
			"time to first token is high without a queue: slow prefill or fewer prefix cache hits"},
		"slow decoding": {map[string]float64{"decode_time_mean": 40, "itl_p50": .08, "itl_p95": .16}, bottleneck.BottleneckDecode,
			"only the time between tokens is high: slow decode"},
		"stutter": {map[string]float64{"queue_time_mean": .2, "itl_p95": .3}, bottleneck.BottleneckSpikes,
			"only the time between tokens is high: slow decode"},
		"severe saturation": {map[string]float64{"queue_time_mean": 9, "ttft_p95": 20, "queue_time_p95": 15, "itl_p50": .1,
			"itl_p95": .2}, bottleneck.BottleneckQueue, "time to first token, queue time and time between tokens are high: severe saturation"},
		"a usual hour":        {map[string]float64{"queue_time_mean": .2}, bottleneck.BottleneckBalanced, "latencies are normal"},
		"no histogram at all": {map[string]float64{"queue_time_mean": -1, "queue_time_p95": -1}, bottleneck.BottleneckUnmeasured, ""},
	} {
		ev := &state.Evidence{At: rulestest.Now}
		for signal, was := range base {
			v, changed := tc.now[signal]
			if !changed {
				v = was
			}
			if v >= 0 {
				ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: state.Entity{Namespace: "llm", Pool: "p"}, Value: v,
					Baseline: &was, At: rulestest.Now})
			}
		}
		got := bottleneck.Of(c, state.Scope{Namespace: "llm", Pool: "p"}, ev)
		if got.Class != tc.class || got.Reading != tc.says {
			t.Errorf("%s: %s, %q", name, got.Class, got.Reading)
		}
	}
}

// Causes of late first tokens come before those of late later tokens, and a value equal to a
// threshold is not above it.
func TestBottleneckOrderAndThresholds(t *testing.T) {
	c := rulestest.MustLoad(t)
	for _, tc := range []struct {
		name                               string
		queue, prefill, decode, slow, hits float64 // the p50 of the gap between tokens is 0.02 s
		want                               bottleneck.Class
	}{
		{"60 % of the first token is waiting", 6, 4, 10, .03, .5, bottleneck.BottleneckBalanced},
		{"a little more than that", 6.1, 3.9, 10, .03, .5, bottleneck.BottleneckQueue},
		{"70 % of it is prefill", 3, 7, 10, .03, .5, bottleneck.BottleneckBalanced},
		{"a little more than that", 2.9, 7.1, 10, .03, .5, bottleneck.BottleneckPrefill},
		{"10 % of the prompts were cached", 2, 8, 10, .03, .1, bottleneck.BottleneckPrefill},
		{"a little less than that", 2, 8, 10, .03, .099, bottleneck.BottleneckNoCache},
		{"slow gaps are three times the usual", 5, 5, 10, .06, .5, bottleneck.BottleneckBalanced},
		{"a little more than that", 5, 5, 10, .061, .5, bottleneck.BottleneckSpikes},
		{"90 % of a request is decoding", 5, 5, 90, .03, .5, bottleneck.BottleneckBalanced},
		{"a little more than that", 5, 5, 91, .03, .5, bottleneck.BottleneckDecode},

		{"a queue, and gaps that spike", 8, 2, 10, .2, .5, bottleneck.BottleneckQueue},
		{"a queue, and long answers", 8, 2, 200, .03, .5, bottleneck.BottleneckQueue},
		{"a queue, and no prompt is cached", 8, 2, 10, .03, 0, bottleneck.BottleneckQueue},
		{"prefill, and gaps that spike", 1, 9, 10, .2, .5, bottleneck.BottleneckPrefill},
		{"uncached prefill, and gaps that spike", 1, 9, 10, .2, 0, bottleneck.BottleneckNoCache},
		{"an engine at rest: the first token is all prefill, and takes a hundredth of a request", .001, .3, 30, .03, .5, bottleneck.BottleneckDecode},
		{"the same with gaps that spike", .001, .3, 30, .2, .5, bottleneck.BottleneckSpikes},
		{"long answers whose gaps spike", 5, 5, 200, .2, .5, bottleneck.BottleneckSpikes},

		// The guide's own mix of workloads, in hundredths of a request.
		{"chat", 45, 8, 45, .03, .5, bottleneck.BottleneckQueue},
		{"retrieval", 5, 82, 12, .03, .5, bottleneck.BottleneckPrefill},
		{"code", 3, 5, 91, .03, .5, bottleneck.BottleneckDecode},
		{"adapters", 15, 22, 55, .03, .5, bottleneck.BottleneckBalanced},
	} {
		ev := &state.Evidence{At: rulestest.Now}
		for signal, v := range map[string]float64{"queue_time_mean": tc.queue, "prefill_time_mean": tc.prefill,
			"decode_time_mean": tc.decode,
			"itl_p50":          .02, "itl_p95": tc.slow, "prefix_hit_ratio": tc.hits} {
			ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: state.Entity{Namespace: "llm", Pool: "p"}, Value: v,
				At: rulestest.Now})
		}
		if got := bottleneck.Of(c, state.Scope{Namespace: "llm", Pool: "p"}, ev); got.Class != tc.want {
			t.Errorf("%s: %s, want %s", tc.name, got.Class, tc.want)
		}
	}
}

// An incident shows where the time goes if its alerts are about latency, and never guesses.
func TestStoryShowsWhereTimeGoesIfRequestsAreLate(t *testing.T) {
	c := rulestest.MustLoad(t)
	pool := state.Entity{Cluster: "prod", Namespace: "llm", Pool: "p", Model: "m"}
	ev := &state.Evidence{At: rulestest.Now, Workers: []state.Worker{{Namespace: "llm", Pod: "p-0", Pool: "p", Model: "m", Ready: true}}}
	for signal, v := range map[string]float64{"trace_requests": 40, "trace_queue_time": 6, "trace_prefill_time": 1,
		"trace_decode_time": 3} {
		ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: pool, Value: v, At: rulestest.Now})
	}
	ev.Samples = append(ev.Samples, state.Sample{Signal: "trace_slowest", Entity: pool, Value: 92, Text: "31200 prompt tokens, trace abc",
		At: rulestest.Now})
	story := func(symptom state.Symptom, ev *state.Evidence) string {
		in := &state.Incident{Cluster: "prod", Status: state.StatusOpen,
			Scope: state.Scope{Cluster: "prod", Namespace: "llm", Pool: "p", Model: "m"}, StartedAt: rulestest.Now,
			Symptoms: []state.SymptomCount{{Symptom: symptom, Alerts: 1, Active: 1, First: rulestest.Now, Last: rulestest.Now}}}
		return diagnose.Diagnose(c, in, ev, rulestest.Now).Story.Time
	}
	const want = "40 traced requests spend 60 % of their time in the queue, 10 % in prefill and 30 % in decode: the queue dominates " +
		"(the slowest trace took 92.0 s, trace abc)."
	if got := story("ttft_high", ev); got != want {
		t.Errorf("late requests: %q", got)
	}
	if got := story("gpu_hardware", ev); got != "" {
		t.Errorf("a broken GPU: %q", got)
	}
	ev.Samples = ev.Samples[:0]
	if got := story("ttft_high", ev) + story("ttft_high", nil); got != "" {
		t.Errorf("nothing measured: %q", got)
	}
}

// Traces are used only without histograms. Too few of them give no result, with the reason.
func TestBottleneckFromTraces(t *testing.T) {
	c := rulestest.MustLoad(t)
	traces := map[string]float64{"trace_requests": 120, "trace_queue_time": 6, "trace_prefill_time": 1, "trace_decode_time": 3,
		"trace_itl_p50": .02, "trace_itl_p95": .03}
	const slowest = " (the slowest trace took 92.0 s, trace abc)"
	histograms := map[string]float64{"queue_time_mean": .1, "prefill_time_mean": .8, "decode_time_mean": 1.1, "itl_p50": .02,
		"itl_p95": .04}
	for name, tc := range map[string]struct {
		now   map[string]float64
		with  map[string]float64
		class bottleneck.Class
		says  string
	}{
		"queue": {traces, nil, bottleneck.BottleneckQueue,
			"120 traced requests spend 60 % of their time in the queue, 10 % in prefill and 30 % in decode: the queue dominates" + slowest},
		"prefill": {traces, map[string]float64{"trace_queue_time": .1, "trace_prefill_time": 4}, bottleneck.BottleneckPrefill,
			"120 traced requests spend 1 % of their time in the queue, 56 % in prefill and 42 % in decode: prefill dominates" + slowest},
		"nothing is reused": {
			traces, map[string]float64{"trace_queue_time": .1, "trace_prefill_time": 4, "trace_prefix_hit_ratio": .02}, bottleneck.BottleneckNoCache,
			"120 traced requests spend 1 % of their time in the queue, 56 % in prefill and 42 % in decode: prefill dominates, and few prompts hit the prefix cache" + slowest},
		"the engine's own hits": {traces, map[string]float64{"trace_queue_time": .1, "trace_prefill_time": 4, "trace_prefix_hit_ratio": .02,
			"prefix_hit_ratio": .5}, bottleneck.BottleneckPrefill,
			"120 traced requests spend 1 % of their time in the queue, 56 % in prefill and 42 % in decode: prefill dominates" + slowest},
		"decoding": {traces, map[string]float64{"trace_queue_time": .1, "trace_prefill_time": .1}, bottleneck.BottleneckDecode,
			"120 traced requests spend 3 % of their time in the queue, 3 % in prefill and 94 % in decode: decode dominates" + slowest},
		"stutter": {traces, map[string]float64{"trace_queue_time": 1, "trace_itl_p95": .07}, bottleneck.BottleneckSpikes,
			"120 traced requests spend 20 % of their time in the queue, 20 % in prefill and 60 % in decode: gaps between tokens spike" + slowest},
		"routing": {traces, map[string]float64{"trace_route_time": 10, "trace_queue_time": 5}, bottleneck.BottleneckBalanced,
			"120 traced requests spend 53 % of their time in routing, 26 % in the queue, 5 % in prefill and 16 % in decode: no phase dominates" +
				slowest},
		"histograms alone": {histograms, nil, bottleneck.BottleneckPrefill,
			"requests spend 5 % of their time in the queue, 40 % in prefill and 55 % in decode: prefill takes 89 % of the time to first token" +
				slowest},
		"some wait": {histograms, map[string]float64{"requests_waiting": 41}, bottleneck.BottleneckPrefill,
			"requests spend 5 % of their time in the queue, 40 % in prefill and 55 % in decode: prefill takes 89 % of the time to first token" +
				" (41 waiting requests are not counted yet; the slowest trace took 92.0 s, trace abc)"},
		"both": {histograms, traces, bottleneck.BottleneckPrefill,
			"requests spend 5 % of their time in the queue, 40 % in prefill and 55 % in decode: prefill takes 89 % of the time to first token" +
				" (120 traces disagree: the queue dominates; the slowest trace took 92.0 s, trace abc)"},
		"both agree": {histograms, map[string]float64{"trace_requests": 120, "trace_queue_time": .1, "trace_prefill_time": 4,
			"trace_decode_time": 3}, bottleneck.BottleneckPrefill,
			"requests spend 5 % of their time in the queue, 40 % in prefill and 55 % in decode: prefill takes 89 % of the time to first token" +
				" (120 traces agree; the slowest trace took 92.0 s, trace abc)"},
		"a half of each is none": {map[string]float64{"queue_time_mean": 4, "trace_requests": 7}, nil, bottleneck.BottleneckUnmeasured,
			"was not measured (traces: only 7 traced requests in 10 minutes, 20 are needed)"},
		"nothing": {map[string]float64{}, nil, bottleneck.BottleneckUnmeasured,
			"was not measured (traces: only 7 traced requests in 10 minutes, 20 are needed)"},
	} {
		ev := &state.Evidence{
			At: rulestest.Now, Missing: []state.Missing{
				{Signal: "trace_queue_time", Reason: "only 7 traced requests in 10 minutes, 20 are needed"}}}
		add := func(signal string, v float64) {
			ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Entity: state.Entity{Namespace: "llm", Pool: "p"}, Value: v,
				At: rulestest.Now})
		}
		for signal, v := range tc.now {
			if _, changed := tc.with[signal]; !changed {
				add(signal, v)
			}
		}
		for signal, v := range tc.with {
			add(signal, v)
		}
		ev.Samples = append(ev.Samples, state.Sample{Signal: "trace_slowest", Entity: state.Entity{Namespace: "llm", Pool: "p"}, Value: 92,
			Text: "31200 prompt tokens, trace abc", At: rulestest.Now})
		got := bottleneck.Of(c, state.Scope{Namespace: "llm", Pool: "p"}, ev)
		if got.Class != tc.class || got.String() != tc.says {
			t.Errorf("%s: %s, %q", name, got.Class, got)
		}
		if got.Slowest != "92.0 s: 31200 prompt tokens, trace abc" {
			t.Errorf("%s: the slowest is %q", name, got.Slowest)
		}
	}
}
