package notify

import (
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

func TestOutcomeBeginsWithWhatHelped(t *testing.T) {
	began := time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)
	run := func(change string, in state.ActionState, set func(*state.Action)) state.Action {
		a := state.Action{State: in, Change: change, Params: map[string]string{"from": "256", "to": "64"},
			Steps: []state.ActionStep{{State: state.Intent}, {State: state.Applied}, {State: in}}}
		if set != nil {
			set(&a)
		}
		return a
	}
	const arg = "max_num_seqs 256 → 64"
	verified := func(a *state.Action) {
		a.Verify.Text = "better: preemption_rate 1.6/s → 0/s, kv_usage 99.9 % → 59.2 %"
	}
	for name, c := range map[string]struct {
		by      string
		actions []state.Action
		want    string
	}{
		"lowered": {"alerts", []state.Action{run(arg, state.Succeeded, verified)},
			"Resolved after 19 min. Lowering max_num_seqs 256 → 64 helped: preemptions 1.6/s → 0/s."},
		"raised, no text": {"alerts", []state.Action{run("x 64 → 256", state.Succeeded, func(a *state.Action) {
			a.Params = map[string]string{"from": "64", "to": "256"}
		})}, "Resolved after 19 min. Raising x 64 → 256 helped."},
		"restarted": {"ana", []state.Action{run("restart pod llm/a", state.Succeeded, nil)},
			"Resolved after 19 min by ana. Restarting pod llm/a helped."},
		"rolled back": {"alerts", []state.Action{run(arg, state.RolledBack, nil)},
			"Resolved after 19 min. Paramedic tried lowering max_num_seqs 256 → 64, and rolled it back."},
		"handed over": {"alerts", []state.Action{run(arg, state.NeedsHuman, func(a *state.Action) {
			a.Journal = map[string]string{state.Released: "ana"}
		})}, "Resolved after 19 min. It is not known whether lowering max_num_seqs 256 → 64 helped. ana took care of it."},
		"nothing":        {"alerts", nil, "Resolved after 19 min. The alerts ended; Paramedic took no action."},
		"closed by hand": {"ana", nil, "Resolved after 19 min by ana. Paramedic took no action."},
		"expired": {"alerts", []state.Action{{State: state.Expired, Change: arg}},
			"Resolved after 19 min. The alerts ended; Paramedic took no action."},
	} {
		in := state.Incident{StartedAt: began, ResolvedAt: began.Add(19 * time.Minute), ResolvedBy: c.by}
		got := Outcome(&in, c.actions, func(id string) string {
			return map[string]string{"preemption_rate": "Preemptions", "kv_usage": "KV cache in use"}[id]
		})
		if got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", name, got, c.want)
		}
	}
	for name, in := range map[string]state.Incident{"open": {StartedAt: began},
		"merged": {StartedAt: began, ResolvedAt: began, MergedInto: "INC-1"}} {
		if got := Outcome(&in, nil, strings.ToUpper); got != "" {
			t.Errorf("%s: %s", name, got)
		}
	}
}
