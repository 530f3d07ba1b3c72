package webhook

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/state"
	"paramedic/webhook/report"
)

// after is what a run has become by the time that a no takes effect.
func after(states ...state.ActionState) func(state.Action) state.Action {
	return func(a state.Action) state.Action {
		a.Steps, a.Journal = nil, map[string]string{}
		for _, s := range states {
			a.State = s
			a.Steps = append(a.Steps, state.ActionStep{State: s, At: start})
		}
		return a
	}
}

func calledOff(next func(state.Action) state.Action) func(state.Action) state.Action {
	return func(a state.Action) state.Action {
		a = next(a)
		a.Journal[state.CalledOff] = "ana"
		return a
	}
}

// A run goes on by itself while a person's no is on its way. The answer is what came of it: that
// nothing was written is said only of what has ended so.
func TestANoIsAnsweredWithWhatItCameTo(t *testing.T) {
	const intent, applied, human = state.Intent, state.Applied, state.NeedsHuman
	tooLate := []string{"it is applied", "what was written is verified"}
	released := func(a state.Action) state.Action {
		a = calledOff(after(human))(a)
		a.Journal[state.Released], a.Reason = "ana", "called off by ana; the worker serves again"
		return a
	}
	for name, c := range map[string]struct {
		verb string
		seen state.ActionState
		then func(state.Action) state.Action
		code int
		says []string
	}{
		"stopped in time":                  {"cancel", intent, calledOff(after(intent, state.Denied)), 200, []string{`"state":"denied"`}},
		"a drained worker serves again":    {"cancel", intent, released, 200, []string{"the worker serves again"}},
		"it was superseded":                {"cancel", intent, calledOff(after(intent, state.Superseded)), 200, []string{`"state":"superseded"`}},
		"the write was on its way":         {"cancel", intent, calledOff(after(intent, applied)), 409, tooLate},
		"it was written before":            {"cancel", state.Admitted, after(intent, applied), 409, tooLate},
		"it is not known yet":              {"cancel", intent, calledOff(after(intent)), 202, []string{"called off by ana; nothing is written any more, unless it was on its way"}},
		"it goes on and nothing is known":  {"cancel", state.Approved, after(state.Admitted), 202, []string{"will be applied shortly"}},
		"it needs a person meanwhile":      {"cancel", intent, after(human), 409, []string{"needs a person"}},
		"it is being verified when asked":  {"cancel", state.Verifying, nil, 409, []string{"it is verifying", "what was written is verified"}},
		"it was called off when asked":     {"cancel", state.Denied, nil, 409, []string{"it is denied"}},
		"a denial of what went on":         {"deny", state.Proposed, after(intent, applied), 409, tooLate},
		"a denial of what is about to go":  {"deny", state.Proposed, calledOff(after(intent)), 202, []string{"unless it was on its way"}},
		"a denial of what goes on unheard": {"deny", state.Proposed, after(state.Admitted), 202, []string{"will be applied shortly"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld().populate()
				w.then = c.then
				s, _ := slackDoor(t, w, nil)
				a := w.actions[action]
				a.State, a.Mode, a.ExpiresAt = c.seen, "auto", start.Add(time.Hour)
				w.actions[action] = a
				expect(t, do(s, "POST", "/api/v1/actions/"+string(action)+"/"+c.verb, `{"actor":"ana"}`), c.code, c.says...)
				if seen := w.commands(); len(seen) > 0 && seen[0].Seen != c.seen {
					t.Errorf("the record does not say what the person saw: %+v", seen[0])
				}
				if c.verb != "deny" {
					return
				}
				w.actions[action] = a
				body := slash("U1", "deny "+string(action), "t1")
				if got := slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start)).Body.String(); strings.Contains(got, "Denied") {
					t.Errorf("Slack says %s", got)
				}
			})
		})
	}
}

// What came of a no is told wherever the action is.
func TestAnActionSaysThatItWasCalledOffTooLate(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, nil)
	w.actions[action] = calledOff(after(state.Intent, state.Applied, state.Verifying, state.Succeeded))(w.actions[action])
	const says = "called off by ana too late: it was done already, and is verified as usual"
	expect(t, do(s, "GET", "/api/v1/actions/"+string(action), ""), 200, says)
	expect(t, do(s, "GET", "/api/v1/incidents/42", ""), 200, says)
	if report := report.Report(report.Case{Incident: w.incidents[incident], Actions: w.ActionsOf(incident)}, start); !strings.Contains(report, "- **Called off:** by ana too late: it was done already") {
		t.Errorf("%s", report)
	}
}
