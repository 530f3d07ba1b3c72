package api_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"paramedic/state"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/report"
)

// A run may go on before a denial is applied. The answer is the resulting state. It reports that
// nothing was written only if the run ended without a write.
func TestDenialReportsFinalState(t *testing.T) {
	const intent, applied, human = state.Intent, state.Applied, state.NeedsHuman
	tooLate := []string{"it is applied", "Paramedic verifies the write"}
	released := func(a state.Action) state.Action {
		a = hooktest.CalledOff(hooktest.After(human))(a)
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
		"stopped in time":               {"cancel", intent, hooktest.CalledOff(hooktest.After(intent, state.Denied)), 200, []string{`"state":"denied"`}},
		"a drained worker serves again": {"cancel", intent, released, 200, []string{"the worker serves again"}},
		"it was superseded":             {"cancel", intent, hooktest.CalledOff(hooktest.After(intent, state.Superseded)), 200, []string{`"state":"superseded"`}},
		"the write was on its way":      {"cancel", intent, hooktest.CalledOff(hooktest.After(intent, applied)), 409, tooLate},
		"it was written before":         {"cancel", state.Admitted, hooktest.After(intent, applied), 409, tooLate},
		"it is not known yet": {"cancel", intent, hooktest.CalledOff(hooktest.After(intent)), 202,
			[]string{"called off by ana: Paramedic writes nothing more, unless the write is already on its way"}},
		"it goes on and nothing is known": {"cancel", state.Approved, hooktest.After(state.Admitted), 202,
			[]string{"applies it shortly"}},
		"it needs a person meanwhile": {"cancel", intent, hooktest.After(human), 409, []string{"needs a person"}},
		"it is being verified when asked": {"cancel", state.Verifying, nil, 409,
			[]string{"it is verifying", "Paramedic verifies the write"}},
		"it was called off when asked": {"cancel", state.Denied, nil, 409, []string{"it is denied"}},
		"a denial of what went on":     {"deny", state.Proposed, hooktest.After(intent, applied), 409, tooLate},
		"a denial of what is about to go": {"deny", state.Proposed, hooktest.CalledOff(hooktest.After(intent)), 202,
			[]string{"unless the write is already on its way"}},
		"a denial of what goes on unheard": {"deny", state.Proposed, hooktest.After(state.Admitted), 202,
			[]string{"applies it shortly"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := hooktest.NewWorld().Populate()
				w.Then = c.then
				s, _ := hooktest.ServeSlack(t, w, nil)
				a := w.Actions[hooktest.Action]
				a.State, a.Mode, a.ExpiresAt = c.seen, "auto", hooktest.Start.Add(time.Hour)
				w.Actions[hooktest.Action] = a
				hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/"+string(hooktest.Action)+"/"+c.verb, `{"actor":"ana"}`), c.code, c.says...)
				if seen := w.Commands(); len(seen) > 0 && seen[0].Seen != c.seen {
					t.Errorf("the record does not say what the person saw: %+v", seen[0])
				}
				if c.verb != "deny" {
					return
				}
				w.Actions[hooktest.Action] = a
				body := hooktest.SlashCommand("U1", "deny "+string(hooktest.Action), "t1")
				if got := hooktest.SendSlack(s, "/webhook/slack/command", body,
					hooktest.SlackHeaders(body, hooktest.Start)).Body.String(); strings.Contains(got, "Denied") {
					t.Errorf("Slack says %s", got)
				}
			})
		})
	}
}

// A person who saw a run in progress did not see that it needs a person meanwhile.
func TestStaleCancelReleasesNoRun(t *testing.T) {
	for seen, code := range map[string]int{"intent": 409, "needs_human": 200, "": 200} {
		w := hooktest.NewWorld().Populate()
		w.Then = func(a state.Action) state.Action { a.Journal = map[string]string{state.Released: "ana"}; return a }
		s, _ := hooktest.Serve(t, w, nil)
		a := hooktest.After(state.Intent, state.NeedsHuman)(w.Actions[hooktest.Action])
		a.Reason = "the worker does not serve"
		w.Actions[hooktest.Action] = a
		body := `{"actor":"ana","seen":"` + seen + `"}`
		got := hooktest.Do(s, "POST", "/api/v1/actions/"+string(hooktest.Action)+"/cancel", body)
		sent := w.Commands()
		if hooktest.Expect(t, got, code); len(sent) != map[int]int{200: 1}[code] || code == 200 && sent[0].Seen != state.NeedsHuman {
			t.Errorf("seen %q: %+v", seen, sent)
		}
		if code == 409 && !strings.Contains(got.Body.String(), "needs a person: the worker does not serve") {
			t.Errorf("seen %q: %s", seen, got.Body)
		}
	}
}

// Every place that shows an action shows the result of a late call-off.
func TestActionShowsLateCallOff(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, nil)
	w.Actions[hooktest.Action] = hooktest.CalledOff(hooktest.After(state.Intent, state.Applied, state.Verifying,
		state.Succeeded))(w.Actions[hooktest.Action])
	const says = "called off by ana too late: Paramedic has already written, and verifies the change as usual"
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/actions/"+string(hooktest.Action), ""), 200, says)
	hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/incidents/42", ""), 200, says)
	if report := report.Report(report.Case{Incident: w.Incidents[hooktest.Incident], Actions: w.ActionsOf(hooktest.Incident)},
		hooktest.Start); !strings.Contains(report, "- **Cancelled:** by ana too late: Paramedic has already written") {
		t.Errorf("%s", report)
	}
}
