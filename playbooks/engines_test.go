package playbooks

import (
	"regexp"
	"strings"
	"testing"

	"paramedic/state"
)

func incidentOn(engine string) (state.Incident, state.Evidence) {
	in := state.Incident{Scope: state.Scope{Namespace: "llm", Pool: "pool", Model: "llama", Pods: []string{"pool-0"}}}
	in.Diagnosis.Story = state.Story{Do: []string{"Halve max_num_batched_tokens of the prefill pool tonight"},
		Avoid: []string{"Raising gpu_memory_utilization blindly"}}
	return in, state.Evidence{Workers: []state.Worker{{Namespace: "llm", Pod: "pool-0", Pool: "pool", PoolKind: "Deployment",
		Model: "llama", Engine: engine}}}
}

// People who run another engine get its settings, metrics and ports, in every check by hand and in
// every step.
func TestPlaybooksUseTheEnginesNames(t *testing.T) {
	lib := library(t)
	foreign := regexp.MustCompile(`vllm:[a-z_]+|max_num_seqs|max_num_batched_tokens|max_model_len|gpu_memory_utilization|--gpu-memory-utilization|--max-num-[a-z-]+`)
	for _, engine := range []string{"sglang", "trtllm"} {
		d := dialectOf(engine)
		in, ev := incidentOn(engine)
		for _, pb := range lib.All() {
			r := Run(pb, in, ev)
			for _, a := range r.Answers {
				if w := foreign.FindString(a.ByHand); w != "" {
					t.Errorf("%s on %s: check %s says %s:\n%s", pb.ID, engine, a.Check.ID, w, a.ByHand)
				}
			}
			s := pb.Advise(in, ev)
			for _, l := range append(s.Do, s.Avoid...) {
				if w := foreign.FindString(l); w != "" && !strings.Contains(l, "vLLM") {
					t.Errorf("%s on %s: a step says %s: %s", pb.ID, engine, w, l)
				}
			}
			// Text about vLLM by name is explained at the end.
			for _, name := range settingsIn(r.Body) {
				if !strings.Contains(r.Body, "`"+name+"` is `"+d.settings[name]+"`") {
					t.Errorf("%s on %s: the body does not say what %s is there", pb.ID, engine, name)
				}
			}
			if strings.Contains(r.Body, "grep -E '^vllm:") {
				t.Errorf("%s on %s: the body looks for vLLM's metrics", pb.ID, engine)
			}
		}
	}
}

// The story and its findings use the engine's names, too. Without a verdict, the story lists
// signals by their IDs.
func TestFindingsUseTheEnginesNames(t *testing.T) {
	pb, _ := library(t).Get("concurrency_cap")
	in, ev := incidentOn("trtllm")
	in.Diagnosis.Cause = "concurrency_cap"
	in.Diagnosis.Story.What, in.Diagnosis.Story.Why = "The pool runs as many requests as max_num_seqs allows.", "pool-0 runs 8 of max_num_seqs 8."
	in.Diagnosis.Findings = []state.Finding{{Text: "pool-0 runs 8 of max_num_seqs 8", Signal: "requests_running"},
		{Text: "What vLLM calls max_num_seqs"}}
	s, found := pb.Advise(in, ev), Findings(in, ev)
	if s.What != "The pool runs as many requests as max_batch_size allows." || s.Why != "pool-0 runs 8 of max_batch_size 8." {
		t.Errorf("%q, %q", s.What, s.Why)
	}
	if found[0].Text != "pool-0 runs 8 of max_batch_size 8" || found[0].Signal != "requests_running" ||
		found[1].Text != "What vLLM calls max_num_seqs" {
		t.Errorf("%+v", found)
	}
	in.Diagnosis.Cause, in.Diagnosis.Story.Why = state.Unknown, "Missing: max_num_seqs."
	if s := pb.Advise(in, ev); s.Why != "Missing: max_num_seqs." {
		t.Errorf("the ID of a signal became %q", s.Why)
	}
}

func TestCheckIsRenderedPerEngine(t *testing.T) {
	pb, _ := library(t).Get("kv_exhaustion")
	for engine, want := range map[string][]string{
		"vllm":   {`max by (pod) (vllm:kv_cache_usage_perc{model_name="llama"})`, "Lower max_num_seqs", "pods/pool-0:8000/proxy", "Halve max_num_batched_tokens", "Raising gpu_memory_utilization"},
		"sglang": {`max by (pod) (sglang:token_usage{model_name="llama"})`, "Lower max_running_requests", "Halve chunked_prefill_size", "Raising mem_fraction_static"},
		"trtllm": {`max by (pod) (trtllm_kv_cache_utilization{model_name="llama"})`, "Lower max_batch_size", "Halve max_num_tokens", "Raising kv_cache_config.free_gpu_memory_fraction"},
		"dynamo": {`max by (pod) (dynamo_component_gpu_cache_usage_percent{namespace="llm"})`, "Lower max_num_seqs", "A worker takes the settings of the engine that it runs"},
		"": {"# vLLM\n", "# SGLang, PromQL\nmax by (pod) (sglang:token_usage", "# TensorRT-LLM, PromQL\n", "# Dynamo, PromQL\n",
			"| vLLM | SGLang | TensorRT-LLM |", "| `max_num_seqs` | `max_running_requests` | `max_batch_size` |"},
	} {
		in, ev := incidentOn(engine)
		r, s := Run(pb, in, ev), pb.Advise(in, ev)
		all := r.Body + strings.Join(append(s.Do, s.Avoid...), "\n")
		for _, a := range r.Answers {
			all += "\n" + a.ByHand
		}
		for _, w := range want {
			if !strings.Contains(all, w) {
				t.Errorf("%q on %q is missing in\n%s", w, engine, all)
			}
		}
	}
}

func TestFlagsAndPagesAreTranslated(t *testing.T) {
	in := "Lower --gpu-memory-utilization and --max-num-batched-tokens; --max-model-len 4096"
	for engine, want := range map[string]string{
		"sglang": "Lower --mem-fraction-static and --chunked-prefill-size; --context-length 4096",
		"trtllm": "Lower kv_cache_config.free_gpu_memory_fraction and --max_num_tokens; --max_seq_len 4096",
		"dynamo": in,
	} {
		if got := dialectOf(engine).adapt(in); got != want {
			t.Errorf("%s: %s", engine, got)
		}
	}
	page := `kubectl get --raw "/api/v1/namespaces/llm/pods/p:8000/proxy/metrics" | grep -E '^vllm:(num_requests|kv_cache_usage_perc)'`
	if got := dialectOf("sglang").adapt(page); !strings.Contains(got, "p:30000/proxy") ||
		!strings.Contains(got, "'^sglang:(num_running_reqs") {
		t.Errorf("%s", got)
	}
	about := "vLLM reads max_num_seqs at its start."
	if got := dialectOf("sglang").adapt(about); got != about {
		t.Errorf("what is said of vLLM by name became %q", got)
	}
}

// Older versions of dcgm-exporter export the label Hostname, newer ones hostname. A query with one
// of them is empty on half of the fleets.
func TestBothSpellingsOfTheHostLabelAreRead(t *testing.T) {
	for _, pb := range library(t).All() {
		text := pb.Body
		for _, c := range pb.Checks {
			text += "\n" + c.ByHand
		}
		for line := range strings.Lines(text) {
			if strings.Contains(line, "DCGM_") && strings.Contains(line, "Hostname") != strings.Contains(line, "hostname") {
				t.Errorf("%s: %s", pb.ID, line)
			}
		}
	}
}
