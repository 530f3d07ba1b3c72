package state

import (
	"testing"
	"time"
)

func TestGuardsAreCountedOnce(t *testing.T) {
	allow := GuardResult{Guard: "scope", Decision: Allow}
	approval := GuardResult{Guard: "approval", Decision: Hold, Reason: "waits for approval"}
	freeze := GuardResult{Guard: "freeze_window", Decision: Hold, Reason: "night until 07:00"}
	budget := GuardResult{Guard: "budget", Decision: Deny, Reason: "3 of 3 actions in 1 h"}
	for _, c := range []struct {
		guards []GuardResult
		at     ActionState
		want   string
	}{
		{nil, Proposed, ""},
		{[]GuardResult{allow}, Proposed, "1 guard allows it."},
		{[]GuardResult{allow, allow, allow}, Proposed, "All 3 guards allow it."},
		{[]GuardResult{allow, allow, approval}, AwaitingApproval, "2 of 3 guards allow it. Only the approval is missing."},
		{[]GuardResult{allow, allow, approval}, Approved, "2 of 3 guards allow it."},
		{[]GuardResult{allow, freeze, approval}, AwaitingApproval, "Guard freeze_window holds it: night until 07:00."},
		{[]GuardResult{allow, budget, freeze}, Proposed, "Guard budget denies it: 3 of 3 actions in 1 h (and 1 more)."},
		{[]GuardResult{allow, approval}, Proposed, "Guard approval holds it: waits for approval."},
	} {
		if got := GuardText(c.guards, c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.at, got, c.want)
		}
	}
}

func TestEndTextNamesTheChangeThatHelpedFirst(t *testing.T) {
	onset := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	titles := Titles{Signals: map[string]string{"preemption_rate": "Preemptions"}}
	in := Incident{StartedAt: onset, ResolvedAt: onset.Add(19 * time.Minute), ResolvedBy: "alerts"}
	const want = "Resolved after 19 min. Lowering max_num_seqs 256 → 64 helped: preemptions 1.6/s → 0/s. " +
		"Paramedic tried restarting pod llm/vllm-0, and rolled it back."
	for _, text := range []string{"better: preemption_rate 1.6/s → 0/s, kv_usage 98 % → 70 %",
		"Preemptions 1.6/s → 0/s, KV cache in use 98 % → 70 %"} {
		actions := []Action{{State: RolledBack, Change: "restart pod llm/vllm-0"},
			{State: Succeeded, Change: "max_num_seqs 256 → 64", Params: map[string]string{"from": "256", "to": "64"},
				Verify: Verification{Text: text}}}
		if got := EndText(&in, actions, titles.Signal); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestMoreThanFiveMissingSignalsFold(t *testing.T) {
	titles := Titles{Signals: map[string]string{"kv_usage": "KV cache in use"}}
	few := Diagnosis{Missing: []string{"kv_usage (no Prometheus)", "gpu_xid (no Prometheus)", "up"}}.MissingLines(titles)
	if len(few) != 2 || few[0] != "KV cache in use, gpu xid: no Prometheus" || few[1] != "up: no data" {
		t.Errorf("%q", few)
	}
	var many []string
	for i := range 36 {
		reason := "no Prometheus"
		if i%6 == 5 {
			reason = "not exported"
		}
		many = append(many, "signal ("+reason+")")
	}
	if got := (Diagnosis{Missing: many}).MissingLines(titles); len(got) != 1 || got[0] != "36 signals missing: 30 no Prometheus, 6 not exported" {
		t.Errorf("%q", got)
	}
	if got := (Diagnosis{Missing: many[:4]}).MissingLines(titles); len(got) != 1 || got[0] != "signal, signal, signal, signal: no Prometheus" {
		t.Errorf("%q", got)
	}
}

func TestEveryGuardIsCounted(t *testing.T) {
	allow, hold := GuardResult{Guard: "mode", Decision: Allow}, GuardResult{Guard: "approval", Decision: Hold}
	deny := GuardResult{Guard: "capacity", Decision: Deny}
	for _, c := range []struct {
		in     ActionState
		guards []GuardResult
		want   string
	}{
		{AwaitingApproval, nil, ""},
		{AwaitingApproval, []GuardResult{allow, allow, hold}, "2 of 3 guards allow it. Only the approval is missing."},
		{AwaitingApproval, []GuardResult{allow, deny, hold}, "1 of 3 guards allow it."},
		{Approved, []GuardResult{allow, allow, hold}, "2 of 3 guards allow it."},
		{Admitted, []GuardResult{allow, allow, allow}, "All 3 guards allow it."},
		{Admitted, []GuardResult{allow}, "1 guard allows it."},
		{Succeeded, []GuardResult{allow, allow}, "All 2 guards allowed it."},
		{Expired, []GuardResult{allow, hold}, "1 of 2 guards allowed it."},
	} {
		if got := GuardsSay(c.guards, c.in); got != c.want {
			t.Errorf("%s, %d guards: %q, want %q", c.in, len(c.guards), got, c.want)
		}
	}
}
