package notify

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

var onset = time.Date(2026, 11, 20, 3, 12, 0, 0, time.UTC)

func number(f float64) *float64 { return &f }

// sample returns a KV cache exhaustion with offered first aid: the incident in the adapters' tests.
func sample() Facts {
	id := state.NewIncidentID(onset, "sample")
	in := state.Incident{
		ID: id, Number: 42, Cluster: "prod", Status: state.StatusOpen, Severity: state.Critical,
		Title: "KV cache exhausted on llama-70b (3 of 4 workers)",
		Scope: state.Scope{Cluster: "prod", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama",
			Pods: []string{"vllm-llama-a", "vllm-llama-b", "vllm-llama-c"}},
		Symptoms:   []state.SymptomCount{{Symptom: "kv_pressure", Alerts: 3, Active: 3}, {Symptom: "ttft_high", Alerts: 4, Active: 4}},
		AlertCount: 17, ActiveAlerts: 7, StartedAt: onset, OpenedAt: onset.Add(20 * time.Second),
		DiagnosedAt: onset.Add(35 * time.Second), Rev: 3, Entries: 3,
		Diagnosis: state.Diagnosis{
			Cause: "kv_exhaustion", Confidence: 0.93, Score: 11.2, Title: "KV cache exhausted on llama-70b (3 of 4 workers)",
			Playbook: "kv_exhaustion",
			Findings: []state.Finding{
				{Signal: "kv_usage", Pod: "vllm-llama-a", Value: 0.98, Unit: "ratio", Baseline: number(0.61), Weight: 6.2,
					Text: "KV cache 98 % full on 3 of 4 workers, 61 % an hour before"},
				{Signal: "preemption_rate", Value: 4.1, Unit: "1/s", Weight: 4, Text: "4.1 preemptions a second, none before"},
				{Signal: "kv_idle_usage", Value: 0.02, Weight: -2.5, Text: "idle workers free their blocks, so nothing leaks"},
			},
			Alternatives: []state.Alternative{{Cause: "kv_leak", Confidence: 0.04, WouldWinIf: "blocks stayed in use while nothing runs"}},
			Story: state.Story{
				What:  "Requests wait for KV blocks and running ones are thrown out and computed again; users wait 9 s for the first token.",
				Why:   "Three workers have no free KV blocks and preempt, while the fourth is fine.",
				Do:    []string{"Lower max_num_seqs from 256 to 128", "Add a replica"},
				Avoid: []string{"Restarting workers: the queue only moves", "Do not raise gpu_memory_utilization: it ends in CUDA OOM"},
			},
		},
		Actions: []state.ActionID{"ACT-01"},
	}
	var series []state.Point
	for i := range 60 {
		series = append(series, state.Point{At: onset.Add(time.Duration(i-30) * time.Minute), Value: 0.6 + float64(i)/150})
	}
	return Facts{
		Titles: state.Titles{Signals: map[string]string{"preemption_rate": "Preemptions"}, Symptoms: map[state.Symptom]string{"kv_pressure": "KV cache is nearly full",
			"ttft_high": "Time to first token is high"}},
		Incident: in,
		Actions: []state.Action{{
			ID: "ACT-01", Incident: id, Kind: "set_engine_arg", Mode: "approve", State: state.AwaitingApproval, PlanHash: "abc123",
			Target: state.Target{Namespace: "llm", Kind: "Deployment", Name: "vllm-llama"}, Change: "max_num_seqs 256 → 128",
			Params:  map[string]string{"arg": "max_num_seqs", "from": "256", "to": "128"},
			Why:     "128 sequences of the present length fit the cache",
			Command: `kubectl -n llm patch deployment vllm-llama --type=json -p '[{"op":"test"}]'`,
			Guards: []state.GuardResult{{Guard: "capacity", Decision: state.Allow, Reason: "3 workers carry the load"},
				{Guard: "approval", Decision: state.Hold, Reason: "waits for a person"}},
			Approvers: []string{"U1"}, ExpiresAt: onset.Add(30 * time.Minute),
		}},
		Timeline: []state.Entry{
			{Incident: id, N: 1, At: onset.Add(20 * time.Second), Kind: "opened", Text: "opened: VLLMKVCacheHigh on vllm-llama"},
			{Incident: id, N: 2, At: onset.Add(21 * time.Second), Kind: "symptom", Text: "ttft_high", Quiet: true},
			{Incident: id, N: 3, At: onset.Add(35 * time.Second), Kind: "diagnosed", Text: "kv_exhaustion, 93% sure"},
		},
		Evidence: state.Evidence{Incident: id,
			Samples: []state.Sample{{Signal: "kv_usage", Unit: "ratio", Entity: state.Entity{Pod: "vllm-llama-a"}, Series: series}}},
		Playbook: Playbook{
			ID: "kv_exhaustion", Title: "KV cache exhausted",
			Checks:   []Check{{Ask: "How full is the cache?", Answer: "98 %", State: "bad"}},
			Escalate: "after 15 min: the platform team",
		},
		Links: Links{Base: "https://paramedic.example.com/"},
	}
}

// The adapters' tests read this file, so that all of them show the same incident.
func TestSampleFileIsCurrent(t *testing.T) {
	want, err := json.MarshalIndent(sample(), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	const file = "testdata/facts.json"
	if *update {
		if err := os.WriteFile(file, append(want, '\n'), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if strings.TrimSpace(string(got)) != string(want) {
		t.Errorf("%s is not current: run go test ./notify -update", file)
	}
}

func TestComposeHoldsTheWholeStory(t *testing.T) {
	m := Compose(sample())
	if m.URL != "https://paramedic.example.com/incidents/"+string(m.Incident) ||
		m.PlaybookURL != "https://paramedic.example.com/playbooks/kv_exhaustion" {
		t.Errorf("links: %q %q", m.URL, m.PlaybookURL)
	}
	if want := []string{"Lower max_num_seqs from 256 to 128", "Add a replica"}; !cmp.Equal(m.Do, want) {
		t.Errorf("do: %s", cmp.Diff(want, m.Do))
	}
	if len(m.Avoid) != 2 || m.Else != "kv_leak (4 %), if blocks stayed in use while nothing runs" {
		t.Errorf("avoid %q, else %q", m.Avoid, m.Else)
	}
	if m.Where != "prod · llm/vllm-llama · model llama-70b · vllm-llama-a, vllm-llama-b and 1 more" {
		t.Errorf("where %q", m.Where)
	}
	if len(m.Entries) != 2 {
		t.Errorf("entries %v", m.Entries)
	}
}

// After a call to stop, the message no longer claims that first aid is about to start, or that it
// helped.
func TestComposeShowsResultOfCallToStop(t *testing.T) {
	f := sample()
	a := &f.Actions[0]
	a.Journal = map[string]string{state.CalledOff: "asha"}
	a.State = state.Intent
	if o := Compose(f).Actions[0]; !o.Stopping || o.Result != "called off by asha: Paramedic writes nothing more, unless the write is already on its way" {
		t.Errorf("%+v", o)
	}
	a.State, a.Reason, a.Verify.Text = state.Succeeded, "better: preemptions ended", "better: preemptions ended"
	a.Steps = []state.ActionStep{{State: state.Applied}}
	if o := Compose(f).Actions[0]; o.Stopping ||
		o.Result != "called off by asha too late: Paramedic has already written, and verifies the change as usual; better: preemptions ended" {
		t.Errorf("%+v", o)
	}
}

// An offer that expired is made again. The message shows the new one.
func TestRenewedOfferReplacesExpiredOne(t *testing.T) {
	f := sample()
	old, other := f.Actions[0].Clone(), f.Actions[0].Clone()
	old.ID, old.State = "ACT-00", state.Expired
	other.ID, other.State, other.Target.Name = "ACT-02", state.Denied, "another"
	f.Actions = []state.Action{old, other, f.Actions[0]}
	if o := Compose(f).Actions; len(o) != 2 || o[0].ID != "ACT-01" || o[1].ID != "ACT-02" {
		t.Errorf("%+v", o)
	}
	f.Actions = f.Actions[:2] // no later offer
	if o := Compose(f).Actions; len(o) != 2 {
		t.Errorf("%+v", o)
	}
}

func TestUnknownVerdictNamesLikelyCause(t *testing.T) {
	f := sample()
	f.Incident.Diagnosis.Cause = state.Unknown
	f.Incident.Diagnosis.Likely = &state.Likely{Cause: "kv_leak", Confidence: 0.52}
	m := Compose(f)
	if m.Verdict() != "unknown, probably KV leak (52 %)" || m.Gravity() != "critical, probably KV leak (52 %)" {
		t.Errorf("verdict %q, gravity %q", m.Verdict(), m.Gravity())
	}
}

func TestComposeBeforeAnyVerdict(t *testing.T) {
	f := sample()
	f.Incident.Diagnosis, f.Incident.DiagnosedAt, f.Incident.Title = state.Diagnosis{}, time.Time{}, ""
	f.Playbook, f.Evidence, f.Actions = Playbook{}, state.Evidence{}, nil
	m := Compose(f)
	if want := "7 alerts fire in llm/vllm-llama: KV cache is nearly full ×3, Time to first token is high ×4."; m.What != want ||
		m.Cause != state.Unknown {
		t.Errorf("cause %s, what %q", m.Cause, m.What)
	}
	if !strings.Contains(m.Why, "still gathers the evidence") || m.Title == "" {
		t.Errorf("why %q, title %q", m.Why, m.Title)
	}
	if empty := Compose(Facts{}); empty.What == "" || empty.Title == "" || empty.URL != "" {
		t.Errorf("the empty incident: %+v", empty)
	}
}
