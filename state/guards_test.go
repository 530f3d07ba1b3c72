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
		{[]GuardResult{allow}, Proposed, "1 guard allows it"},
		{[]GuardResult{allow, allow, allow}, Proposed, "3 guards allow it"},
		{[]GuardResult{allow, allow, approval}, AwaitingApproval, "2 of 3 guards allow it; it waits for approval"},
		{[]GuardResult{allow, allow, approval}, Approved, "2 of 3 guards allow it"},
		{[]GuardResult{allow, freeze, approval}, AwaitingApproval, "guard freeze_window holds it: night until 07:00"},
		{[]GuardResult{allow, budget, freeze}, Proposed, "guard budget denies it: 3 of 3 actions in 1 h (and 1 more)"},
		{[]GuardResult{allow, approval}, Proposed, "guard approval holds it: waits for approval"},
	} {
		if got := GuardText(c.guards, c.at); got != c.want {
			t.Errorf("%s: %q, want %q", c.at, got, c.want)
		}
	}
}

func TestEndTextBeginsWithWhatHelped(t *testing.T) {
	onset := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	titles := Titles{Signals: map[string]string{"preemption_rate": "Preemptions", "kv_usage": "KV cache in use"}}
	applied := []ActionStep{{State: Applied}}
	helped := Action{State: Succeeded, Change: "max_num_seqs 256 → 64",
		Verify: Verification{Text: "better: preemption_rate 1.6/s → 0/s, kv_usage 98 % → 70 %"}}
	for want, actions := range map[string][]Action{
		"Resolved after 19 min. Paramedic took no action.": {{State: Denied, Change: "max_num_seqs 256 → 64"}},
		"Resolved after 19 min. Lowering max_num_seqs 256 → 64 helped: preemptions 1.6/s → 0/s, KV cache in use 98 % → 70 %. " +
			"Restarting pod llm/vllm-0 did not help. Paramedic rolled it back.": {
			{State: RolledBack, Change: "restart pod llm/vllm-0", Steps: applied}, helped},
		"Resolved after 19 min. Raising max_num_seqs 64 → 128 was undone from outside.": {
			{State: Superseded, Change: "max_num_seqs 64 → 128", Steps: applied}},
		"Resolved after 19 min. The change image a → b needed a person: Ada took care of it.": {
			{State: NeedsHuman, Change: "image a → b", Journal: map[string]string{Released: "Ada"}}},
	} {
		in := Incident{Status: StatusResolved, StartedAt: onset, ResolvedAt: onset.Add(19 * time.Minute), ResolvedBy: "alerts"}
		if got := EndText(&in, actions, titles); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
	person := Incident{Status: StatusResolved, StartedAt: onset, ResolvedAt: onset.Add(90 * time.Minute), ResolvedBy: "Ada"}
	if got := EndText(&person, nil, titles); got != "Ada resolved it after 1 h 30 min. Paramedic took no action." {
		t.Errorf("%q", got)
	}
	if got := EndText(&Incident{Status: StatusOpen}, []Action{helped}, titles); got != "" {
		t.Errorf("an open incident ended: %q", got)
	}
}

func TestMissingSignalsFoldByReason(t *testing.T) {
	titles := Titles{Signals: map[string]string{"kv_usage": "KV cache in use"}}
	few := MissingLines([]string{"kv_usage (no Prometheus)", "gpu_xid (no Prometheus)", "up"}, titles)
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
	if got := MissingLines(many, titles); len(got) != 1 || got[0] != "36 signals missing: 30 no Prometheus, 6 not exported" {
		t.Errorf("%q", got)
	}
	if got := MissingLines(many[:4], titles); len(got) != 1 || got[0] != "signal, signal, signal, signal: no Prometheus" {
		t.Errorf("%q", got)
	}
}
