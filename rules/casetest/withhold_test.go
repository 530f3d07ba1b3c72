package casetest

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"

	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// If a signal is not measured, a case's cause may become unknown, but never another cause. Each
// case is diagnosed again without each of its signals and without the past of each signal. It is
// also diagnosed without each pair of signals that its cause or a look-alike reads, and without the
// exporters of its broken workers.
func TestMissingSignalsNeverChangeTheCause(t *testing.T) {
	known := map[string]string{
		// The remaining evidence is that of the other cause in every respect.
		"bad_rollout_failures_are_empty_answers without error_rate and refusal_ratio":                    "quality_regression",
		"kv_exhaustion_evicts_prefixes without output_length_mean and preemption_rate":                   "traffic_surge",
		"traffic_surge_decoy_longer_answers without output_length_mean and preemption_rate":              "traffic_surge",
		"gpu_memory_leak_before_the_error without gpu_fb_changes of the broken":                          "cuda_oom",
		"gpu_memory_leak_before_the_error without gpu_fb_low of the broken":                              "cuda_oom",
		"gpu_memory_leak_before_the_error without gpu_fb_slope of the broken":                            "cuda_oom",
		"gpu_memory_leak_before_the_error without gpu_fb_used of the broken":                             "cuda_oom",
		"concurrency_cap_on_two without max_num_seqs of the broken":                                      "traffic_surge",
		"gpu_throttle_beside_an_old_xid without gpu_clock_event and gpu_util":                            "benign_alert",
		"gpu_throttle_by_expression without gpu_util of the broken":                                      "benign_alert",
		"cold_start_decoy_bad_gpu without gpu_xid of the broken":                                         "cold_start",
		"cuda_oom_decoy_xid without gpu_xid of the broken":                                               "cuda_oom",
		"monitoring_gap_beside_an_old_xid without up of the broken":                                      "benign_alert",
		"gpu_underutilization_hardly_a_request without arrival_rate and finish_rate":                     "prefix_cache_collapse",
		"gpu_underutilization_few_to_divide_by without arrival_rate and finish_rate":                     "prefix_cache_collapse",
		"decode_saturation_fewer_workers without gateway_arrival_rate and replicas_desired":              "traffic_surge",
		"kv_leak_hardly_a_token_for_an_hour without generation_tokens_rate and kv_usage":                 "prefix_cache_collapse",
		"kv_leak_hardly_a_token_for_an_hour without generation_tokens_rate and output_length_mean":       "prefix_cache_collapse",
		"kv_leak_hardly_a_token_for_an_hour without generation_tokens_rate and requests_running":         "prefix_cache_collapse",
		"kv_leak_hardly_a_token_for_an_hour without kv_floor and kv_usage":                               "prefix_cache_collapse",
		"kv_leak_hardly_a_token_for_an_hour without kv_floor and output_length_mean":                     "prefix_cache_collapse",
		"kv_leak_hardly_a_token_for_an_hour without kv_floor and requests_running":                       "prefix_cache_collapse",
		"gpu_underutilization_no_gpu_exporter without cpu_throttled and generation_tokens_rate":          "decode_saturation",
		"traffic_surge_decoy_fewer_workers_and_repeats without abort_rate and gateway_arrival_rate":      "traffic_surge",
		"traffic_surge_decoy_fewer_workers_and_repeats without gateway_arrival_rate and preemption_rate": "traffic_surge",
	}
	c := rulestest.MustLoad(t)
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	var asked atomic.Int64
	t.Run("cases", func(t *testing.T) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				t.Parallel()
				for _, k := range namedIncidents(t, c, file) {
					for what, ev := range Lacking(c, k.in, &k.ev, !testing.Short()) {
						asked.Add(1)
						was, now := k.in.Diagnosis.Cause, diagnose.Name(c, k.in, ev)
						try := k.name + " without " + what
						untold := slices.ContainsFunc(untold, func(u lookAlike) bool {
							return (u.of == k.name || u.of == string(was)) && u.called == now && strings.Contains(what, u.without)
						})
						if wrong := now != was && now != state.Unknown && !untold; wrong && known[try] != string(now) {
							t.Errorf("%s: %s is called %s", try, was, now)
						} else if !wrong && known[try] != "" {
							t.Errorf("%s: no longer called %s; take it off the list", try, known[try])
						}
					}
				}
			})
		}
	})
	t.Logf("asked %d times", asked.Load())
}

// A lookAlike is a cause whose evidence a case or cause has, if one of the signals with this prefix
// is missing.
type lookAlike struct {
	of      string
	called  state.Cause
	without string
}

var untold = []lookAlike{
	// If growth is not measured, an OOM kill is oom_killed by definition.
	{"host_memory_leak", "oom_killed", "container_memory"},
	// Only memory within the hour shows that growth has ended.
	{"oom_killed_batches_have_ended", "host_memory_leak", "container_memory"},
	{"oom_killed_next_batch_is_too_large", "host_memory_leak", "container_memory"},
	{"oom_killed_next_batch_is_too_large", "host_memory_leak", "pod_restarts"},
	// Only an old Xid distinguishes the GPU's fault from a hang.
	{"gpu_fault_old_xid_worker_stands_still", "engine_hang", "gpu_xid"},
	// Only the memory of an hour distinguishes a leak from the allocation that it makes fail.
	{"gpu_memory_leak_of_another_process", "cuda_oom", "gpu_fb_low"},
	// Only the usual prefill time distinguishes a limit from slow prefill.
	{"concurrency_cap_one_worker_drained", "prefill_starvation", "prefill_time_p95"},
	// Without the age of pods, workers that are full look as at a limit that is not known.
	{"cold_start_survivors_queue", "concurrency_cap", "max_num_seqs and pod_"},
	// Only the CPU limit tells why caches fill.
	{"gpu_underutilization_cpu_limit_fills_the_cache", "kv_exhaustion", "cpu_throttled"},
	{"gpu_underutilization_cpu_limit_fills_the_cache", "traffic_surge", "cpu_throttled"},
	// Only the aborted requests tell repeats from new clients, and only tokens that all are slow.
	{"gpu_underutilization_fills_the_cache_without_kubernetes", "traffic_surge", "abort_rate and itl_p50"},
	// After a failed scrape, only the readiness of the pod tells that it loads.
	{"cold_start_the_gateway_fails_nothing", "monitoring_gap", "pod_ready"},
	// Only the rollout tells whose failures the gateway counts.
	{"bad_rollout_new_workers_have_no_past", "gateway_failure", "rollout_age"},
	// Without the restarts, the gateway alone has failures.
	{"gateway_failure_decoy_every_worker_was_killed", "gateway_failure", "pod_"},
	// Only its Xid tells of a GPU whose worker is not known.
	{"gpu_fault_of_an_unknown_worker", "engine_hang", "gpu_xid"},
	{"gpu_fault_since_yesterday_on_an_unknown_worker", "engine_hang", "gpu_xid"},
	// The same without Kubernetes.
	{"gpu_fault_stands_still_without_kubernetes", "engine_hang", "gpu_xid"},
	// Only their running requests tell hung workers from idle ones.
	{"engine_hang_one_worker_is_left", "routing_skew", "requests_running"},
	// Only the small batch tells that slow tokens are no storm.
	{"bad_rollout_hardly_a_token", "retry_storm", "requests_running"},
	{"bad_rollout_hardly_a_token", "retry_storm", "generation_tokens_rate and itl_p50"},
	{"bad_rollout_hardly_a_token", "traffic_surge", "abort_rate and generation_tokens_rate"},
	// Without the GPUs and the batch, only the alert tells that GPUs idle, as they do at night.
	{"gpu_underutilization_less_than_yesterday", "benign_alert", "gpu_util and requests_running"},
	// Without the readiness of the pod, memory that another process holds is a leak.
	{"cuda_oom_beside_a_second_process", "gpu_memory_leak", "pod_ready"},
	// Only the tokens tell what is answered where the count of finished requests is lost.
	{"traffic_surge_at_a_limit_hides_what_finishes", "concurrency_cap", "generation_tokens_rate"},
	{"traffic_surge_at_a_limit_hides_what_finishes", "retry_storm", "generation_tokens_rate"},
	{"traffic_surge_at_a_limit_hides_what_finishes", "concurrency_cap", "finish_rate"},
	// Only the aborted requests tell repeats from new clients.
	{"prefill_starvation_some_ask_again", "traffic_surge", "abort_rate"},
	{"prefill_starvation_clients_ask_again", "traffic_surge", "abort_rate and prefill_time_p95"},
	// Only the cache of a worker that is known to be idle tells who keeps the blocks.
	{"kv_leak_shows_as_aborts", "client_cancellations", "kv_usage"},
	{"kv_leak_shows_as_aborts", "client_cancellations", "requests_"},
	// Only its clock, under load, tells of a slow GPU behind full caches.
	{"gpu_throttle_fills_the_cache", "kv_exhaustion", "gpu_"},
}

// A replayedIncident is an incident of a case that has a named cause, with the case's evidence.
type replayedIncident struct {
	name string
	in   *state.Incident
	ev   state.Evidence
}

// firstIncident returns the first incident of a case, which may have no named cause.
func firstIncident(t *testing.T, c *catalog.Catalog, file string) replayedIncident {
	t.Helper()
	k := runCase(t, c, file)
	return replayedIncident{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), in: k.result.Incidents[0], ev: k.ev}
}

func namedIncidents(t *testing.T, c *catalog.Catalog, file string) []replayedIncident {
	t.Helper()
	k := runCase(t, c, file)
	var out []replayedIncident
	for _, in := range k.result.Incidents {
		if in.Diagnosis.Cause != state.Unknown {
			out = append(out, replayedIncident{name: strings.TrimSuffix(filepath.Base(file), ".txtar"), in: in, ev: k.ev})
		}
	}
	return out
}

func runCase(t *testing.T, c *catalog.Catalog, file string) *caseRun {
	t.Helper()
	ar, err := txtar.ParseFile(file)
	if err != nil {
		t.Fatal(err)
	}
	k := &caseRun{cat: c, dir: filepath.Dir(file), result: &CaseResult{}, short: map[string]state.Worker{}}
	k.run(ar)
	return k
}

func TestUnmeasuredDistinguishingSignalsAreListed(t *testing.T) {
	c := rulestest.MustLoad(t)
	k := namedIncidents(t, c, "testdata/cases/retry_storm_given_up_first.txtar")[0]
	d := diagnose.Diagnose(c, k.in, measured(&k.ev).without(nil, "abort_rate"), rulestest.Now)
	if d.Cause != state.Unknown || len(d.Alternatives) < 2 || d.Alternatives[0].Cause != "traffic_surge" ||
		d.Alternatives[1].Cause != "retry_storm" {
		t.Fatalf("%s: %+v", d.Cause, d.Alternatives)
	}
	if d.Alternatives[0].Confidence != d.Alternatives[1].Confidence {
		t.Errorf("odds are %g and %g", d.Alternatives[0].Confidence, d.Alternatives[1].Confidence)
	}
	for _, want := range []string{"it can also be retry storm", "missing or have no baseline: requests aborted"} {
		if !strings.Contains(d.Story.Why, want) {
			t.Errorf("no %q in %q", want, d.Story.Why)
		}
	}
	if do := fmt.Sprint(d.Story.Do); !strings.Contains(do, "retries of aborted requests") || !strings.Contains(do, "(retry storm)") {
		t.Errorf("it does not say how they are told apart: %s", do)
	}
}
