package playbooks

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// causes lists the causes of the first catalogue.
var causes = slices.Concat([]string{"kv_exhaustion", "kv_leak", "concurrency_cap", "prefill_starvation", "routing_skew",
	"prefix_cache_collapse",
	"host_memory_leak", "gpu_fault", "engine_hang", "benign_alert",
	"gpu_underutilization", "quality_regression",
	"gateway_failure", "monitoring_gap", "unknown"}, machineCauses, demandCauses, clusterCauses)

// signals lists the signals that evidence can hold.
var signals = strings.Fields(`kv_usage requests_waiting requests_running requests_running_low waiting_capacity waiting_deferred preemption_rate ttft_p50 ttft_p95
	itl_p50 itl_p95 e2e_p95 queue_time_p95 prefill_time_p95 decode_time_p95 arrival_rate finish_rate abort_rate error_rate prompt_tokens_rate
	generation_tokens_rate prompt_length_p95 prompt_length_mean output_length_mean prefix_hit_ratio prefix_query_rate kv_blocks_total
	kv_block_size max_num_seqs kv_idle_usage process_rss container_memory container_memory_limit container_memory_slope container_memory_peak up engine_health
	gpu_util gpu_power gpu_temp gpu_sm_clock gpu_fb_used_ratio gpu_tensor_active gpu_dram_active gpu_xid gpu_xid_changes gpu_xid_count
	gpu_row_remap_failure gpu_clock_event pod_restarts pod_last_terminated pod_waiting_reason pod_unscheduled pod_ready pod_age replicas_desired
	replicas_ready rollout_in_progress rollout_age rollout_image pod_image disruptions_allowed node_ready node_unschedulable node_bad_condition kube_event
	gpu_fb_used gpu_fb_slope gpu_fb_low gpu_fb_changes pod_last_error pod_exit_code gateway_ready_endpoints gateway_error_ratio gateway_reject_rate truncated_ratio
	refusal_ratio empty_ratio cpu_throttled gpu_recovery_action gateway_denied_ratio gateway_timeout_ratio`)

func library(t *testing.T) *Library {
	t.Helper()
	lib, err := Load("")
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

func TestBuiltinLibraryNamesOnlyKnownSignals(t *testing.T) {
	lib := library(t)
	if err := lib.Validate(signals); err != nil {
		t.Error(err)
	}
	for _, cause := range causes {
		if _, ok := lib.Get(cause); !ok {
			t.Errorf("cause %s has no playbook", cause)
		}
	}
	for _, pb := range lib.All() {
		if !hasSection(pb.Body, "Afterwards") {
			t.Errorf("%s has no section Afterwards", pb.ID)
		}
		for _, c := range pb.Checks {
			if c.ByHand == "" {
				t.Errorf("%s: check %s does not say how to answer it by hand", pb.ID, c.ID)
			}
		}
	}
}

// These facts contradict popular advice.
func TestFirstAidDoesWhatTheCauseNeeds(t *testing.T) {
	want := map[string]string{
		"gpu_throttle": "", "node_failure": "", "oom_killed": "", "cuda_oom": "", "gpu_memory_leak": "restart_worker",
		"kv_exhaustion": "set_engine_arg lower", "concurrency_cap": "set_engine_arg raise",
		"kv_leak": "restart_worker", "host_memory_leak": "restart_worker", "engine_hang": "restart_worker",
		// A deleted pod can be scheduled on the same broken GPU. A change of the engines does not
		// fix a router. A healthy pool is left alone.
		"gpu_fault": "", "routing_skew": "", "prefix_cache_collapse": "", "prefill_starvation": "", "benign_alert": "", "unknown": "", "gateway_failure": "", "monitoring_gap": "",
	}
	lib := library(t)
	for id, w := range want {
		pb, ok := lib.ForCause(id)
		if !ok || pb.ID != id {
			t.Fatalf("no playbook for %s", id)
		}
		var got []string
		for _, r := range pb.FirstAid {
			if r.Action != "" {
				got = append(got, strings.TrimSpace(r.Action+" "+r.Params["direction"]))
			}
		}
		if s := strings.Join(got, ","); s != w {
			t.Errorf("%s offers %q, want %q", id, s, w)
		}
	}
	for id, phrase := range map[string]string{
		"gpu_throttle": "restarting the worker while its node is schedulable", "node_failure": "deleting pods by force",
		"gpu_memory_leak": "raising gpu_memory_utilization", "cuda_oom": "raising gpu_memory_utilization", "oom_killed": "lowering max_num_seqs or gpu_memory_utilization",
		"kv_exhaustion": "lowering gpu_memory_utilization", "prefill_starvation": "cutting max_num_seqs",
		"routing_skew": "scaling out", "gpu_fault": "deleting the pod while its node is schedulable", "kv_leak": "lowering max_num_seqs",
		"gateway_failure": "restarting the engines", "monitoring_gap": "restarting",
	} {
		pb, _ := lib.Get(id)
		if !strings.Contains(strings.ToLower(strings.Join(pb.Worse, "\n")), phrase) {
			t.Errorf("%s does not warn against %q", id, phrase)
		}
	}
}

func TestUserDirectoryAddsAndReplaces(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "kv_exhaustion.md", good("kv_exhaustion", "Our own way"))
	write(t, dir, "our_cause.md", good("our_cause", "Ours"))
	write(t, dir, "README.md", "not a playbook")
	lib, err := Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if pb, _ := lib.Get("kv_exhaustion"); pb.Title != "Our own way" {
		t.Errorf("title is %q", pb.Title)
	}
	if pb, ok := lib.ForCause("our_cause"); !ok || pb.Title != "Ours" {
		t.Errorf("got %+v", pb)
	}
	if pb, ok := lib.ForCause("never_heard_of"); !ok || pb.ID != "unknown" {
		t.Errorf("an unheard-of cause should fall back to triage, got %q", pb.ID)
	}
	for named, want := range map[string]string{"kv_exhaustion": "kv_exhaustion", "": "our_cause", "never_heard_of": "our_cause"} {
		if pb, ok := lib.For(state.Diagnosis{Cause: "our_cause", Playbook: named}); !ok || pb.ID != want {
			t.Errorf("our_cause that names %q has the playbook %q, want %q", named, pb.ID, want)
		}
	}
	if _, err := Load(filepath.Join(dir, "absent")); err == nil || !strings.Contains(err.Error(), "playbooks directory") {
		t.Errorf("got %v", err)
	}
}

func TestEveryProblemIsReportedWithItsLine(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "broken.md", strings.Join([]string{
		"---", "id: other", "title: ''", "cause: x", "severity: loud", "colour: red",
		"checks:", "  - id: a", "    ask: q", "    signal: kv_usage", "    warn: 5", "    crit: 1", "    agg: median",
		"  - id: a", "    ask: ''", "    signal: ''",
		"first_aid:", "  - text: do", "    action: reboot", "  - text: do", "    action: set_engine_arg", "    params: {arg: max_num_seks, direction: sideways, force: yes}",
		"escalate: {after: soon}", "---", "## What it means", "```", "## Who is affected", "```", ""}, "\n"))
	write(t, dir, "noyaml.md", "# just text\n")
	write(t, dir, "badyaml.md", "---\nid: [\n---\n")
	write(t, dir, "empty.md", "---\n---\n")
	_, err := Load(dir)
	ps, ok := AsProblems(err)
	if !ok {
		t.Fatalf("got %v", err)
	}
	for _, want := range []string{
		`broken.md:6: the front matter has no key colour; there are cause, checks, `, `broken.md:2: id "other" differs`,
		`broken.md:3: the front matter needs title: `, `broken.md:5: severity "loud"`,
		`broken.md:12: crit 1 is less than warn 5`, `broken.md:13: agg "median"`, `broken.md:14: check id "a" is used twice`,
		`broken.md:15: checks[1] needs ask: The question.`, `broken.md:16: checks[1] needs signal: `, `broken.md:19: action "reboot"`,
		`broken.md:22: set_engine_arg can set only max_num_seqs (Paramedic translates it for each engine), not "max_num_seks"`, `broken.md:22: set_engine_arg needs params.direction`, `broken.md:22: unknown parameter "force"`, `broken.md:2: the front matter needs worse: `,
		`broken.md:23: escalate needs to: The people to call.`, `broken.md:23: escalate.after "soon"`, `no section "## Who is affected"`, `no section "## By hand"`,
		`noyaml.md:1: has no front matter`, `badyaml.md:2: this is not YAML: `, `empty.md:2: front matter is empty`,
	} {
		if !strings.Contains(ps.Error(), want) {
			t.Errorf("missing problem %q in:\n%s", want, ps.Error())
		}
	}
}

func TestValidateNamesTheUndeclaredSignal(t *testing.T) {
	err := library(t).Validate(slices.DeleteFunc(slices.Clone(signals), func(s string) bool { return s == "kv_usage" }))
	ps, _ := AsProblems(err)
	if !strings.Contains(ps.Error(), `library/kv_exhaustion.md:9: check kv_full uses the signal "kv_usage", which is not declared`) {
		t.Errorf("got\n%s", ps.Error())
	}
}

var onset = time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)

func ptr(v float64) *float64 { return &v }

func kvEvidence() (state.Incident, state.Evidence) {
	in := state.Incident{Scope: state.Scope{Cluster: "default", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama",
		Pods: []string{"vllm-llama-7d9f8b6c5-aaaaa"}}}
	ev := state.Evidence{At: onset,
		Workers: []state.Worker{{Pod: "vllm-llama-7d9f8b6c5-aaaaa", Pool: "vllm-llama", PoolKind: "StatefulSet", Node: "gpu-1"}},
		Missing: []state.Missing{{Signal: "kv_idle_usage", Reason: "no worker was idle"}}}
	for i, pod := range []string{"vllm-llama-7d9f8b6c5-aaaaa", "vllm-llama-7d9f8b6c5-bbbbb"} {
		e := state.Entity{Pod: pod}
		ev.Samples = append(ev.Samples,
			state.Sample{Signal: "kv_usage", Entity: e, Value: 0.91 + 0.07*float64(i), Unit: "ratio", Baseline: ptr(0.61), At: onset},
			state.Sample{Signal: "preemption_rate", Entity: e, Value: 2.5, Unit: "1/s", Baseline: ptr(0), At: onset},
			state.Sample{Signal: "rollout_in_progress", Entity: state.Entity{Pool: "vllm-llama"}, Value: 0, At: onset})
	}
	ev.Samples = append(ev.Samples, state.Sample{Signal: "preemption_rate", Value: 5, Unit: "1/s"}) // the pool's own: not counted twice
	return in, ev
}

// A check of the broken worker ignores healthy ones.
func TestBrokenWorkerCheckIgnoresHealthyWorkers(t *testing.T) {
	pb, _ := library(t).Get("engine_hang")
	in := state.Incident{}
	in.Diagnosis.Scope.Pods = []string{"vllm-1"}
	ev := state.Evidence{At: time.Now()}
	for pod, running := range map[string]float64{"vllm-0": 60, "vllm-1": 3} {
		ev.Samples = append(ev.Samples,
			state.Sample{Signal: "requests_running", Value: running, Unit: "requests", Entity: state.Entity{Pod: pod}})
	}
	holds := func() string {
		for _, a := range Run(pb, in, ev).Answers {
			if a.Check.ID == "running" {
				return a.Text
			}
		}
		return ""
	}
	if got := holds(); got != "3 requests on vllm-1" {
		t.Errorf("of the worker that hangs: %q", got)
	}
	if in.Diagnosis.Scope.Pods = nil; holds() != "60 requests on vllm-0" {
		t.Errorf("where none is named: %q", holds())
	}
}

func TestChecksAreAnsweredFromTheEvidence(t *testing.T) {
	lib := library(t)
	pb, _ := lib.Get("kv_exhaustion")
	in, ev := kvEvidence()
	r := Run(pb, in, ev)
	got := map[string]Answer{}
	for _, a := range r.Answers {
		got[a.Check.ID] = a
	}
	for id, want := range map[string]struct {
		state AnswerState
		text  string
	}{
		"kv_full":    {StateBad, "98 % on vllm-llama-7d9f8b6c5-bbbbb (before: 61 %)"},
		"preempting": {StateBad, "5/s in all, most on vllm-llama-7d9f8b6c5-aaaaa (2.5/s) (before: 0/s)"},
		"leak":       {StateUnknown, "not measured: no worker was idle"},
		"queue":      {StateUnknown, "not measured: no source gave requests_waiting"},
		"rollout":    {StateOK, "no on vllm-llama"},
	} {
		if a := got[id]; a.State != want.state || a.Text != want.text {
			t.Errorf("%s: %s %q, want %s %q", id, a.State, a.Text, want.state, want.text)
		}
	}
	if a := got["queue"]; !strings.Contains(a.ByHand, "/namespaces/llm/pods/vllm-llama-7d9f8b6c5-aaaaa:8000/proxy/metrics") {
		t.Errorf("by hand: %s", a.ByHand)
	}
	if a := got["rollout"]; !strings.Contains(a.ByHand, "rollout status statefulset/vllm-llama") {
		t.Errorf("by hand: %s", a.ByHand)
	}
	if text := r.Text(); !strings.Contains(text, "[bad] Are the KV blocks used up?") || !strings.Contains(text, "WHAT IT MEANS") {
		t.Errorf("text:\n%s", text)
	}
}

func TestTextSignalsAreJudgedByText(t *testing.T) {
	c := Check{ID: "killed", Signal: "pod_last_terminated", Bad: []string{"OOMKilled"}}
	s := func(pod, text string) state.Sample {
		return state.Sample{Signal: c.Signal, Text: text, Value: 137, Entity: state.Entity{Pod: pod}}
	}
	if a := answer(c, state.Evidence{Samples: []state.Sample{s("a", "Error"), s("b", "OOMKilled")}}); a.State != StateBad ||
		a.Text != "OOMKilled on b; Error on a" {
		t.Errorf("got %s %q", a.State, a.Text)
	}
	if a := answer(c, state.Evidence{Samples: []state.Sample{s("a", "Completed")}}); a.State != StateOK {
		t.Errorf("got %s %q", a.State, a.Text)
	}
}

// A new image behind many old ones is as visible as they are.
func TestWorkersWithOneWordAreListedTogether(t *testing.T) {
	c := Check{ID: "image", Signal: "pod_image"}
	s := func(pod, text string) state.Sample {
		return state.Sample{Signal: c.Signal, Text: text, Value: 1, Entity: state.Entity{Pod: pod}}
	}
	a := answer(c, state.Evidence{Samples: []state.Sample{s("a", "v1"), s("b", "v1"), s("c", "v1"), s("d", "v1"), s("e", "v2")}})
	if want := "v1 on a, b, c, and 1 more; v2 on e"; a.Text != want {
		t.Errorf("got %q, want %q", a.Text, want)
	}
}

func TestHostileNamesNeverReachACommand(t *testing.T) {
	pb, _ := library(t).Get("gpu_fault")
	in := state.Incident{Scope: state.Scope{Namespace: "x; rm -rf /", Pool: "$(reboot)", Nodes: []string{"n`id`"}, Pods: []string{"--all"}}}
	r := Run(pb, in, state.Evidence{Samples: []state.Sample{{Signal: "gpu_xid_changes", Value: 1, Entity: state.Entity{Pod: "a\nb"}}}})
	all := r.Body
	for _, a := range r.Answers {
		all += a.ByHand
	}
	for _, f := range r.FirstAid {
		all += f.Text
	}
	for _, bad := range []string{"rm -rf", "reboot)", "`id`", "--all\n", "a\nb"} {
		if strings.Contains(all, bad) {
			t.Errorf("%q got into a command", bad)
		}
	}
	if !strings.Contains(all, "{node}") {
		t.Error("a name that is left out should stay as a placeholder")
	}
}

func TestMarkdownCarriesNothingThatRuns(t *testing.T) {
	html, err := HTML("# T\n<script>alert(1)</script>\n\n<b onclick=x>hi</b> [a](javascript:alert(1)) [b]( java\tscript:x) [c](data:text/html,x) <javascript:alert(1)>\n" +
		"![p](https://tracker.example/x.png) [ok](https://example.org/a) [rel](/incidents/1) [dd](//evil.example) <https://example.org>\n\n| a | b |\n|--:|---|\n| 1 | 2 |\n")
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<b ", `href="javascript`, `href="data`, "<img", "style=", `href="//evil`} {
		if strings.Contains(strings.ToLower(html), bad) {
			t.Errorf("%q in\n%s", bad, html)
		}
	}
	for _, good := range []string{`href="https://example.org/a"`, `href="/incidents/1"`, "<table>", `<a href="https://example.org">`} {
		if !strings.Contains(html, good) {
			t.Errorf("no %q in\n%s", good, html)
		}
	}
}

func TestEveryBuiltinRendersToHTMLAndText(t *testing.T) {
	in, ev := kvEvidence()
	for _, pb := range library(t).All() {
		r := Run(pb, in, ev)
		html, err := r.HTML()
		if err != nil || !strings.Contains(html, "<h2>What it means</h2>") || strings.Contains(html, "raw HTML omitted") {
			t.Errorf("%s: %v\n%s", pb.ID, err, html)
		}
		if len(r.Text()) < 1500 {
			t.Errorf("%s: text is short", pb.ID)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(good("x", "t")))
	f.Add([]byte("---\nid: 1\nchecks: {a: b}\n---\n"))
	f.Add([]byte("---\n- [x\n---\n<script>"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pb, problems := Parse("x.md", data)
		if len(problems) > 0 {
			return
		}
		if pb == nil || pb.ID == "" {
			t.Fatal("a playbook with no problems has to be whole")
		}
		r := Run(*pb, state.Incident{}, state.Evidence{})
		if html, err := r.HTML(); err != nil || strings.Contains(html, "<script") {
			t.Fatalf("%v %s", err, html)
		}
		_ = r.Text()
	})
}

func good(id, title string) string {
	return "---\nid: " + id + "\ntitle: " + title + "\ncause: " + id +
		"\nseverity: warning\nchecks:\n  - {id: a, ask: 'is it?', signal: kv_usage, crit: 1}\n" +
		"first_aid:\n  - text: help\nworse: [panic]\nescalate: {after: 5m, to: us}\n---\n## What it means\nx\n## Who is affected\nx\n## By hand\nx\n"
}

func write(t *testing.T, dir, name, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// If a page could not be read, not every worker was seen, however healthy the others are.
func TestUnreadPageIsNoGoodAnswer(t *testing.T) {
	ask := Check{ID: "targets", Ask: "Do we see every worker at all?", Signal: "up", Agg: "min", Crit: new(float64), Below: true,
		Unit: "bool"}
	ev := state.Evidence{Samples: []state.Sample{{Signal: "up", Entity: state.Entity{Pod: "vllm-0"}, Value: 1, Unit: "bool"}}}
	if a := answer(ask, ev); a.State != StateOK {
		t.Errorf("all were read: %+v", a)
	}
	ev.Missing = []state.Missing{{Signal: "engines", Reason: "10.0.0.7:8000: answers 503 to a scrape"}}
	if a := answer(ask, ev); a.State != StateUnknown ||
		!strings.HasSuffix(a.Text, "could not be read: 10.0.0.7:8000: answers 503 to a scrape") {
		t.Errorf("one was not read: %+v", a)
	}
	ev.Samples = append(ev.Samples, state.Sample{Signal: "up", Entity: state.Entity{Pod: "vllm-1"}, Unit: "bool"})
	if a := answer(ask, ev); a.State != StateBad || a.Pod != "vllm-1" {
		t.Errorf("a worker's was not read: %+v", a)
	}
}
