package web

import (
	"cmp"
	"context"
	"html/template"
	"math"
	"slices"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/statetest"
)

var now = time.Date(2026, 11, 21, 3, 12, 0, 0, time.UTC)

type stopped struct{ at time.Time }

func (c stopped) Now() time.Time                       { return c.at }
func (c stopped) After(time.Duration) <-chan time.Time { return nil }

// fakeView is a view of a few incidents made by hand.
type fakeView struct {
	incidents []state.Incident
	actions   []state.Action
	evidence  map[state.IncidentID]state.Evidence
	alerts    map[state.IncidentID][]state.AlertRecord
	timeline  map[state.IncidentID][]state.Entry
	halted    map[string]state.Halt
}

func (v *fakeView) Incident(id state.IncidentID) (state.Incident, bool) {
	i := slices.IndexFunc(v.incidents, func(in state.Incident) bool { return in.ID == id })
	if i < 0 {
		return state.Incident{}, false
	}
	return v.incidents[i], true
}
func (v *fakeView) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	return statetest.ListIncidents(v.incidents, q)
}
func (v *fakeView) Tally() state.Tally {
	open := len(v.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents}).Incidents)
	return state.Tally{Open: open, Resolved: len(v.incidents) - open, Actions: len(v.actions)}
}
func (v *fakeView) Action(id state.ActionID) (state.Action, bool) {
	i := slices.IndexFunc(v.actions, func(a state.Action) bool { return a.ID == id })
	if i < 0 {
		return state.Action{}, false
	}
	return v.actions[i], true
}
func (v *fakeView) ListActions(q state.ActionQuery) state.ActionPage {
	return statetest.ListActions(v.actions, q)
}
func (v *fakeView) ActionsOf(id state.IncidentID) []state.Action {
	return v.ListActions(state.ActionQuery{Match: func(a *state.Action) bool { return a.Incident == id }}).Actions
}
func (v *fakeView) BegunActions() []state.Action {
	return v.ListActions(state.ActionQuery{Match: (*state.Action).Begun}).Actions
}
func (v *fakeView) Evidence(id state.IncidentID) (state.Evidence, bool) {
	ev, ok := v.evidence[id]
	return ev, ok
}
func (v *fakeView) Alerts(id state.IncidentID) []state.AlertRecord { return v.alerts[id] }
func (v *fakeView) Timeline(_ context.Context, id state.IncidentID) ([]state.Entry, error) {
	return v.timeline[id], nil
}
func (v *fakeView) Halted(cluster string) (state.Halt, bool) {
	h, ok := v.halted[cluster]
	return h, ok
}
func (v *fakeView) Subscribe(context.Context) <-chan state.Entry {
	return nil
}

func at(minutes float64) time.Time { return now.Add(time.Duration(minutes * float64(time.Minute))) }
func ptr(v float64) *float64       { return &v }

var pods = []string{"vllm-llama-7d9f8b6c5-x2k4p", "vllm-llama-7d9f8b6c5-9qwzt", "vllm-llama-7d9f8b6c5-b7hnd", "vllm-llama-7d9f8b6c5-m4cvs"}

// ramp returns a series that rises from low to high at the onset, in minutes within an hour.
func ramp(low, high, onset float64, wobble float64) []state.Point {
	var out []state.Point
	for i := range 61 {
		m := float64(i) - 60
		f := 1 / (1 + math.Exp(-(m-onset)*0.6))
		out = append(out, state.Point{At: at(m), Value: low + (high-low)*f + wobble*math.Sin(float64(i)*1.7)})
	}
	return out
}

func kvIncident() (state.Incident, state.Evidence, state.Action) {
	scope := state.Scope{Cluster: "default", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama", Pods: pods[:3]}
	in := state.Incident{ID: "INC-01KA1B2C3D4E5F6G7H8J9K0M1N", Number: 42, Cluster: "default", Status: state.StatusOpen,
		Severity: state.Critical,
		Title:    "KV cache exhausted on llama-70b (3 of 4 workers)", Scope: scope, AlertCount: 17, ActiveAlerts: 9, StartedAt: at(-14),
		OpenedAt:    at(-12),
		DiagnosedAt: at(-11), Actions: []state.ActionID{"ACT-01KA1B2C3D4E5F6G7H8J9K0ACT"},
		Symptoms: []state.SymptomCount{
			{Symptom: "kv_pressure", Severity: state.Critical, Alerts: 6, Active: 3, First: at(-14), Last: at(-2),
				Rules: []string{"KVCacheNearFull"}},
			{Symptom: "preemptions", Severity: state.Warning, Alerts: 4, Active: 3, First: at(-12), Last: at(-3)},
			{Symptom: "ttft_high", Severity: state.Warning, Alerts: 7, Active: 3, First: at(-11), Last: at(-1)}},
		Diagnosis: state.Diagnosis{Cause: "kv_exhaustion", Confidence: 0.96, Prior: -3, Score: 14.2, Margin: 9.1,
			Title: "KV cache exhausted", Scope: scope, Playbook: "kv_exhaustion",
			Findings: []state.Finding{
				{Signal: "kv_usage", Pod: pods[0], Value: 0.98, Unit: "ratio", Baseline: ptr(0.61), Weight: 8,
					Text: "KV cache is 98% full on 3 of 4 workers", Why: "A full cache is needed; an efficient engine shows it too",
					At: at(-1)},
				{Signal: "preemption_rate", Pod: pods[1], Value: 2.4, Unit: "1/s", Baseline: ptr(0), Weight: 7.5,
					Text: "Requests are preempted 2.4 times a second; normally never", At: at(-1)},
				{Signal: "requests_waiting", Value: 74, Unit: "requests", Baseline: ptr(0), Weight: 4.2, Text: "74 requests wait",
					At: at(-1)},
				{Signal: "prompt_length_p95", Value: 2100, Unit: "tokens", Baseline: ptr(1980), Weight: -2.5,
					Text: "Prompts are no longer than usual, so it is not only a few long ones", At: at(-1)}},
			Alternatives: []state.Alternative{{Cause: "concurrency_cap", Confidence: 0.08, Score: 5.1,
				WouldWinIf: "KV usage were below 90% and nothing were preempted"},
				{Cause: "kv_leak", Confidence: 0.01, Score: -8.4, WouldWinIf: "an idle worker still held blocks"}},
			Anomalies: []state.Anomaly{{Signal: "kv_usage", Value: 0.98, Unit: "ratio", Baseline: ptr(0.61), DayAgo: ptr(0.6), Z: ptr(31),
				Text: "KV cache in use 98 %: ×1.6 of an hour ago and ×1.6 of this hour yesterday (31 σ above its usual)"},
				{Signal: "error_rate", Value: 0.2, Unit: "ratio", Baseline: ptr(0),
					Text: "Failed requests (5xx) 20 %: from 0 % an hour ago"}},
			Correlations: []state.Correlation{{Signal: "kv_usage", With: "ttft_p95", R: 0.94, Points: 51, Lead: 240,
				Text: "KV cache in use rose 4 min before time to first token (p95) rose (r = 0.94 over 51 points)"}},
			Chain: []state.Link{
				{Role: state.LinkCause, Signal: "kv_usage", Value: 0.98, Baseline: ptr(0.61), Unit: "ratio", At: at(-16),
					Text: "KV cache in use rose to 98 % (usual 61 %) at 02:44 UTC"},
				{Role: state.LinkMechanism, Signal: "preemption_rate", Value: 2.4, Baseline: ptr(0), Unit: "1/s", At: at(-14),
					Text: "Preemptions rose to 2.4/s (usual 0/s) at 02:46 UTC"},
				{Role: state.LinkSymptom, Signal: "requests_waiting", Value: 74, Baseline: ptr(0), Unit: "requests",
					Text: "Requests waiting rose to 74 (usual 0)"}},
			Missing: []string{"kv_idle_usage", "gpu_tensor_active"},
			Story: state.Story{What: "Three of four llama-70b workers have no free KV blocks. They throw running requests out and " +
				"compute them again, so 74 requests wait and the first token takes 6.8 s.",
				Why: "KV usage is 98% (61% an hour ago), preemptions went from 0 to 2.4 a second, and the queue grew at the same " +
					"moment; prompts are as long as ever.",
				Time: "queue 62 %, prefill 9 %, decode 29 % of a request: queue_saturation, from latency histograms; 120 traces say the " +
					"same. The slowest traced request took 41.2 s: 3100 prompt tokens, queue 33.0 s, prefill 1.9 s, decode 6.3 s, trace " +
					"4bf92f3577b34da6a3ce929d0e0e4736.",
				Else: "A concurrency limit would look similar, but then KV would have room and nothing would be preempted.",
				Do: []string{"Shed or reroute batch traffic at the gateway",
					"Lower max_num_seqs from 256 to 128 by a rolling restart (approve below)", "Add a replica if a GPU is free"},
				Avoid: []string{"Restarting workers all at once", "Lowering gpu_memory_utilization: it shrinks the cache",
					"Raising max_num_seqs"}},
			At: at(-11), EvidenceAt: at(-1)}}
	ev := state.Evidence{Incident: in.ID, At: at(-1), Missing: []state.Missing{{Signal: "kv_idle_usage", Reason: "no worker was idle"},
		{Signal: "gpu_tensor_active", Reason: "DCGM is not scraped"}}}
	for i, p := range pods {
		hot := 1.0
		if i == 3 {
			hot = 0.7
		}
		e := state.Entity{Pod: p, Pool: "vllm-llama", Namespace: "llm"}
		add := func(signal, unit string, low, high, wobble float64) {
			s := ramp(low, high*hot, -14, wobble)
			ev.Samples = append(ev.Samples,
				state.Sample{Signal: signal, Entity: e, Value: s[60].Value, Unit: unit, Baseline: ptr(low), At: at(-1), Series: s})
		}
		add("kv_usage", "ratio", 0.58+0.02*float64(i), 0.975, 0.012)
		add("requests_waiting", "requests", 0, 24+float64(i), 0.8)
		add("preemption_rate", "1/s", 0, 0.8, 0.03)
		add("ttft_p95", "s", 0.35, 6.8, 0.1)
		add("requests_running", "requests", 90, 150, 3)
		add("generation_tokens_rate", "1/s", 2400, 1500, 40)
		ev.Workers = append(ev.Workers, state.Worker{Namespace: "llm", Pod: p, Pool: "vllm-llama", PoolKind: "Deployment",
			Model: "llama-70b", Node: "gpu-" + string(rune('a'+i)), Engine: "vllm", Ready: true})
	}
	act := state.Action{ID: in.Actions[0], Incident: in.ID, Cause: "kv_exhaustion", Kind: "set_engine_arg", Mode: "approve",
		Params: map[string]string{"arg": "max_num_seqs", "from": "256", "to": "128"},
		State:  state.AwaitingApproval,
		Target: state.Target{Cluster: "default", Namespace: "llm", Kind: "Deployment", Name: "vllm-llama"},
		Change: "max_num_seqs 256 → 128", PlanHash: "9f2c41d07be3",
		Why:     "15,000 blocks of 16 tokens carry 128 requests of 1,590 tokens at 85%. A rolling restart replaces one worker at a time.",
		Command: "kubectl -n llm set args deployment/vllm-llama -- --max-num-seqs=128", ExpiresAt: at(18), Approvers: []string{"U02ABC"},
		Guards: []state.GuardResult{{Guard: "kill_switch", Decision: state.Allow, Reason: "first aid is not halted"},
			{Guard: "target", Decision: state.Allow, Reason: "Deployment llm/vllm-llama is the one that was diagnosed"},
			{Guard: "ownership", Decision: state.Allow, Reason: "no GitOps controller, no rollout in progress"},
			{Guard: "capacity", Decision: state.Allow, Reason: "3 workers carry the load of 4 at 88%"},
			{Guard: "approval", Decision: state.Hold, Reason: "a person has to approve this plan", RetryAt: at(18)}},
		Steps: []state.ActionStep{{State: state.Proposed, At: at(-11), Text: "planned from playbook kv_exhaustion"},
			{State: state.AwaitingApproval, At: at(-11)}}}
	return in, ev, act
}

func fixture() *fakeView {
	v := &fakeView{evidence: map[state.IncidentID]state.Evidence{}, alerts: map[state.IncidentID][]state.AlertRecord{},
		timeline: map[state.IncidentID][]state.Entry{}, halted: map[string]state.Halt{}}
	kv, ev, act := kvIncident()
	for i, name := range []string{"KVCacheNearFull", "KVCacheNearFull", "VLLMHighTTFT"} {
		sym := state.Symptom("kv_pressure")
		if i == 2 {
			sym = "ttft_high"
		}
		v.alerts[kv.ID] = append(v.alerts[kv.ID], state.AlertRecord{Active: i != 1, FirstAt: at(-14 + float64(i)), Episodes: 1,
			Sign: state.Sign{Symptom: sym, Severity: state.Critical, By: "name"},
			Alert: state.Alert{Fingerprint: state.Fingerprint(name), StartsAt: at(-14),
				Labels:      map[string]string{"alertname": name, "pod": pods[i], "namespace": "llm", "severity": "critical"},
				Annotations: map[string]string{"summary": "KV cache above 95% for 2 minutes"}}})
	}
	for i, e := range []state.Entry{{Kind: "opened", Text: "KVCacheNearFull on vllm-llama-7d9f8b6c5-x2k4p"},
		{Kind: "symptom", Text: "ttft_high joined (VLLMHighTTFT, 3 alerts)"},
		{Kind: "diagnosed", Text: "kv_exhaustion, 96% sure, 9.1 dB before concurrency_cap"}, {Kind: "notified",
			Text: "paged through PagerDuty", Quiet: true}, {Kind: "action", Text: "max_num_seqs 256 → 128 waits for approval"}} {
		e.N, e.At, e.Incident = i+1, at(-12+float64(i)/2), kv.ID
		v.timeline[kv.ID] = append(v.timeline[kv.ID], e)
	}
	v.evidence[kv.ID] = ev

	gpu := state.Incident{ID: "INC-01KA1B2D3D4E5F6G7H8J9K0M1N", Number: 43, Cluster: "default", Status: state.StatusAcked,
		Severity: state.Critical, Title: "GPU fault on node gpu-b (Xid 79)", StartedAt: at(-31), OpenedAt: at(-30), DiagnosedAt: at(-29),
		AckedAt: at(-25), AckedBy: &state.Actor{ID: "ana", Name: "Ana"}, AlertCount: 4, ActiveAlerts: 2,
		Scope: state.Scope{Cluster: "default", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama", Pods: pods[1:2],
			Nodes: []string{"gpu-b"}, GPUs: []string{"3"}},
		Symptoms: []state.SymptomCount{{Symptom: "gpu_hardware", Severity: state.Critical, Alerts: 3, Active: 2, First: at(-31),
			Rules: []string{"GPUXid"}}, {Symptom: "worker_down", Severity: state.Warning, Alerts: 1, First: at(-30)}},
		Diagnosis: state.Diagnosis{Cause: "gpu_fault", Confidence: 0.99, Prior: -6, Score: 20, Margin: 24, Playbook: "gpu_fault",
			At: at(-29), Findings: []state.Finding{{Signal: "gpu_xid_changes", Pod: pods[1], Value: 1, Unit: "changes", Weight: 14,
				Text: "A new Xid in the last 15 minutes"},
				{Signal: "gpu_xid", Pod: pods[1], Value: 79, Unit: "code", Weight: 12, Text: "Xid 79: the GPU fell off the bus"}},
			Story: state.Story{What: "GPU 3 of node gpu-b fell off the bus (Xid 79). The worker on it fails.",
				Why: "The driver reported a new Xid 79 at the moment when the worker stopped.", Do: []string{"Cordon gpu-b",
					"Drain it and restart the machine"}, Avoid: []string{"Deleting the pod while gpu-b is schedulable"}}}}
	v.evidence[gpu.ID] = state.Evidence{Incident: gpu.ID, At: at(-29),
		Samples: []state.Sample{{Signal: "gpu_xid_changes", Value: 1, Entity: state.Entity{Pod: pods[1], Node: "gpu-b", GPU: "3"}},
			{Signal: "gpu_xid", Value: 79, Entity: state.Entity{Pod: pods[1], Node: "gpu-b", GPU: "3"}}}}

	unknown := state.Incident{ID: "INC-01KA1B2E3D4E5F6G7H8J9K0M1N", Number: 44, Cluster: "default", Status: state.StatusOpen,
		Severity: state.Warning, Title: "Slow answers on qwen-32b, cause not known", StartedAt: at(-6), OpenedAt: at(-5),
		DiagnosedAt: at(-4), AlertCount: 2, ActiveAlerts: 2,
		Scope: state.Scope{Cluster: "default", Namespace: "llm", Model: "qwen-32b"}, Symptoms: []state.SymptomCount{{Symptom: "e2e_high",
			Severity: state.Warning, Alerts: 2, Active: 2, First: at(-6), Rules: []string{"VLLMLatencySLABreach"}}},
		Diagnosis: state.Diagnosis{Cause: state.Unknown, Confidence: 0.41,
			Likely: &state.Likely{Cause: "kv_leak", Confidence: 0.52, Lacks: []string{"blocks held while idle"}}, Prior: -4, Score: 1.5, Margin: 0.6, Playbook: "unknown",
			Findings: []state.Finding{{Signal: "e2e_p95", Value: 34, Unit: "s", Baseline: ptr(12), Weight: 5.5,
				Text: "Requests take 34 s (12 s an hour ago)"}},
			Alternatives: []state.Alternative{{Cause: "prefill_starvation", Confidence: 0.41, Score: 1.5,
				WouldWinIf: "prefill time were known and high"},
				{Cause: "routing_skew", Confidence: 0.38, Score: 0.9, WouldWinIf: "one worker were much busier than its peers"}},
			Missing: []string{"prefill_time_p95", "requests_waiting", "requests_running"},
			Story: state.Story{What: "Answers on qwen-32b take three times as long as an hour ago. The evidence does not say why.",
				Why: "Prometheus did not answer for three signals that would decide it."}}}
	v.evidence[unknown.ID] = state.Evidence{Incident: unknown.ID, At: at(-4), Missing: []state.Missing{{Signal: "prefill_time_p95",
		Reason: "Prometheus timed out after 5 s"}, {Signal: "requests_waiting", Reason: "Prometheus timed out after 5 s"}}}

	done, _, ran := kvIncident()
	done.ID, done.Number, done.Status, done.ActiveAlerts = "INC-01K91B2C3D4E5F6G7H8J9K0M1N", 40, state.StatusResolved, 0
	done.StartedAt, done.ResolvedAt, done.ResolvedBy = at(-2930), at(-2900), "alerts"
	done.Title, done.Actions = "KV cache exhausted on llama-70b (4 of 4 workers)", []state.ActionID{"ACT-01K91B2C3D4E5F6G7H8J9K0ACT"}
	ran.ID, ran.Incident, ran.State, ran.Reason = done.Actions[0], done.ID, state.Succeeded, "kept: the queue drained in 4 minutes"
	ran.Guards = ran.Guards[:4]
	ran.Steps = nil
	for i, s := range []state.ActionState{state.Proposed, state.AwaitingApproval, state.Approved, state.Admitted, state.Intent,
		state.Applied, state.Verifying, state.Succeeded} {
		step := state.ActionStep{State: s, At: at(-2920 + float64(i))}
		if s == state.Approved {
			step.Actor, step.Text = state.Actor{ID: "ana", Name: "Ana"}, "looks right"
		}
		ran.Steps = append(ran.Steps, step)
	}
	ran.Verify = state.Verification{Verdict: state.Better, Text: "Preemptions 2.4/s → 0, waiting 74 → 0; untouched peers did not change.",
		Baseline: map[string]float64{"preemption_rate": 2.4, "requests_waiting": 74},
		Samples:  map[string][]float64{"preemption_rate": {0.4, 0}, "requests_waiting": {12, 0}}, Until: at(-2905)}
	v.incidents = []state.Incident{unknown, kv, gpu, done}
	v.actions = []state.Action{act, ran}
	slices.SortStableFunc(v.incidents, func(a, b state.Incident) int { return cmp.Compare(b.Number, a.Number) })
	return v
}

// testPlaybook returns a rendered playbook in the form that cmd makes.
func testPlaybook(id string, in *state.Incident, _ *state.Evidence) (Playbook, bool) {
	if id == "absent" {
		return Playbook{}, false
	}
	pb := Playbook{ID: id, Title: "KV cache exhausted", Cause: id, Severity: "critical",
		Body: template.HTML("<h2>What it means</h2><p>Full.</p>"), Worse: []string{"Panic"}, Escalate: "After 20m, call us.",
		Checks: []Check{{ID: "kv_full", Ask: "Are the KV blocks used up?", Signal: "kv_usage", Limit: "bad from 95%",
			Threshold: ptr(0.95), ByHand: "max(vllm:kv_cache_usage_perc)"}},
		FirstAid: []Step{{Text: "Shed load", When: "always"}, {Text: "Lower max_num_seqs", Action: "set_engine_arg"}}}
	if in != nil {
		pb.Checks[0].State, pb.Checks[0].Answer = "bad", "98% on "+pods[0]
	}
	return pb, true
}

func handler(t *testing.T, v *fakeView, change func(*Config)) *Handler {
	t.Helper()
	cfg := Config{View: v, Clock: stopped{now}, Mode: "approve", Version: "test", Playbook: testPlaybook,
		Playbooks: func() []string { return []string{"kv_exhaustion"} }}
	if change != nil {
		change(&cfg)
	}
	h, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}
