package signals

import (
	"strings"
	"testing"
)

func TestBuiltInSignalsLoad(t *testing.T) {
	all, err := LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	byID := map[string]Signal{}
	for _, s := range all {
		byID[s.ID] = s
	}
	contract := `kv_usage requests_waiting requests_running requests_running_low waiting_capacity waiting_deferred preemption_rate ttft_p50 ttft_p95 itl_p50 itl_p95
		e2e_p95 queue_time_p95 prefill_time_p95 decode_time_p95 arrival_rate finish_rate abort_rate error_rate prompt_tokens_rate
		generation_tokens_rate prompt_length_p95 prompt_length_mean output_length_mean prefix_hit_ratio prefix_query_rate kv_blocks_total
		kv_block_size max_num_seqs kv_idle_usage kv_idle_rise process_rss container_memory container_memory_limit container_memory_slope up engine_health
		gpu_util gpu_power gpu_temp gpu_sm_clock gpu_fb_used_ratio gpu_tensor_active gpu_dram_active gpu_xid gpu_xid_changes gpu_xid_count
		gpu_row_remap_failure gpu_clock_event pod_restarts pod_last_terminated pod_waiting_reason pod_unscheduled pod_ready pod_age pod_image replicas_desired
		replicas_ready rollout_in_progress rollout_age rollout_image disruptions_allowed node_ready node_unschedulable node_bad_condition kube_event`
	for id := range strings.FieldsSeq(contract) {
		if _, ok := byID[id]; !ok {
			t.Errorf("signal %s is not declared", id)
		}
	}
	// The production-stack router exports the same names with a label server: its series would look
	// like another worker.
	for _, id := range []string{"requests_waiting", "requests_running"} {
		m := byID[id].Sources[0].Match
		if len(m) != 1 || m[0].String() != `server=""` {
			t.Errorf("%s reads the router's series: matchers %v", id, m)
		}
	}
}

func TestSignalsAreDecodedStrictly(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"unknown key": {`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, colour: red}]}`,
			"signals.yaml:1: a signal has no key colour"},
		"wrong kinds": {"version: 1\nsignals:\n- {id: a, by: probe, title: A, unit: s, per: rack}\n- {sources: [{q: half}]}",
			"signals.yaml:3: by must be a list, not \"probe\"\nsignals.yaml:4: q must be a number, not \"half\"\nsignal \"a\": per \"rack\""},
		"a rise without gauges": {"version: 1\nsignals:\n- {id: a, title: A, unit: s, per: pod, sources: [{engine: vllm, metric: m, fn: rise, window: 6h}]}",
			"rise needs with, and a window of more than an hour"},
		"two documents": {"version: 1\n---\nversion: 1", "signals.yaml:2: only the first document"},
		"version":       {`{version: 2, signals: []}`, "version 2"},
		"no entity":     {`{version: 1, signals: [{id: a, title: A, unit: s, per: rack, by: [probe]}]}`, `per "rack"`},
		"no source":     {`{version: 1, signals: [{id: a, title: A, unit: s, per: pod}]}`, "nothing gives it"},
		"bad fn": {`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, sources: [{engine: vllm, metric: m, fn: sum}]}]}`,
			`fn "sum"`},
		"q missing": {
			`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, sources: [{engine: vllm, metric: m, fn: quantile}]}]}`,
			"q, between"},
		"with a rate": {
			`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, sources: [{engine: vllm, metric: m, fn: rate, with: [n]}]}]}`,
			"with is for"},
		"bad matcher": {
			`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, sources: [{engine: vllm, metric: m, match: ['x>1']}]}]}`,
			"matcher"},
		"bad regexp": {
			`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, sources: [{engine: vllm, metric: m, match: ['x=~"("']}]}]}`,
			"matcher"},
		"twice": {
			`{version: 1, signals: [{id: a, title: A, unit: s, per: pod, by: [probe]}, {id: a, title: A, unit: s, per: pod, by: [probe]}]}`,
			"twice"},
		"two problems": {`{version: 1, signals: [{id: a, unit: s, per: pod, by: [psychic]}]}`, "psychic"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := ParseSignals([]byte(c.in))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("got %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestMatcher(t *testing.T) {
	for _, c := range []struct {
		m, v string
		want bool
	}{
		{`a="x"`, "x", true}, {`a=""`, "", true}, {`a=""`, "x", false}, {`a!="x"`, "", true},
		{`a=~"5.*"`, "503", true}, {`a=~"5.*"`, "1503", false}, {`a!~"abort|error"`, "stop", true}, {`a!~"abort|error"`, "abort", false},
	} {
		m, err := ParseMatcher(c.m)
		if err != nil {
			t.Fatal(err)
		}
		if got := m.Matches(c.v); got != c.want {
			t.Errorf("%s on %q: %v", c.m, c.v, got)
		}
	}
}

// A deprecated name is read after its replacement by every signal.
func TestSuccessorsPrecedeDeprecatedGauges(t *testing.T) {
	all, err := LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	const old, now = "dynamo_frontend_inflight_requests", "dynamo_frontend_active_requests"
	for _, s := range all {
		at := map[string]int{}
		for i, src := range s.Sources {
			for _, name := range append([]string{src.Metric}, src.With...) {
				at[name] = i + 1
			}
		}
		if at[old] > 0 && (at[now] == 0 || at[now] > at[old]) {
			t.Errorf("%s reads %s and not %s before it", s.ID, old, now)
		}
	}
}
