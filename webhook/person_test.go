package webhook_test

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
	"paramedic/webhook/report"
)

// The API, Slack's command and Slack's button accept a person's report that a run is taken care of.
// They do so also for a state that only a newer version knows.
func TestPeopleReleaseRunsThroughAPIAndSlack(t *testing.T) {
	for _, as := range []state.ActionState{state.NeedsHuman, "evacuating"} {
		for name, say := range map[string]func(s *webhook.Server) *httptest.ResponseRecorder{
			"API": func(s *webhook.Server) *httptest.ResponseRecorder {
				return hooktest.Do(s, "POST", "/api/v1/actions/"+string(hooktest.Action)+"/cancel", `{"actor":"ana"}`)
			},
			"Slack's command": func(s *webhook.Server) *httptest.ResponseRecorder {
				body := hooktest.SlashCommand("U1", "cancel "+string(hooktest.Action)+" drained by hand", "t1")
				return hooktest.SendSlack(s, "/webhook/slack/command", body, hooktest.SlackHeaders(body, hooktest.Start))
			},
			"Slack's button": func(s *webhook.Server) *httptest.ResponseRecorder {
				body := hooktest.Click("U1", "paramedic.cancel", string(hooktest.Action)+"|plan1", "t1", "")
				return hooktest.SendSlack(s, "/webhook/slack/interaction", body, hooktest.SlackHeaders(body, hooktest.Start))
			},
		} {
			t.Run(name+", "+string(as), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := hooktest.NewWorld().Populate()
					w.Then = func(a state.Action) state.Action {
						a.Journal = map[string]string{state.Released: "ana"}
						return a
					}
					s, _ := hooktest.ServeSlack(t, w, nil)
					a := hooktest.After(as)(w.Actions[hooktest.Action])
					w.Actions[hooktest.Action] = a
					hooktest.Expect(t, hooktest.Do(s, "GET", "/api/v1/actions/"+string(hooktest.Action), ""), 200, `"needs_person":true`)
					in := w.Incidents[hooktest.Incident]
					in.Status = state.StatusResolved // ending the incident does not release its runs
					w.Incidents[hooktest.Incident] = in
					got := say(s)
					hooktest.Expect(t, got, 200)
					if c := w.Commands(); len(c) != 1 || c[0].Verb != state.VerbCancel || c[0].Seen != as || c[0].Refused != "" {
						t.Fatalf("%+v", c)
					}
					if body := got.Body.String(); name == "API" && !strings.Contains(body, `"released_by":"ana"`) || name == "Slack's command" && !strings.Contains(body, "Taken care of") {
						t.Errorf("%s", body)
					}
					hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/"+string(hooktest.Action)+"/cancel", `{"actor":"ben"}`), 409)
				})
			})
		}
	}
}

func TestReportListsRunsThatNeedAPerson(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	a := hooktest.After(state.Intent, state.Applied, state.NeedsHuman)(w.Actions[hooktest.Action])
	says := func(a state.Action, want string) {
		t.Helper()
		if got := report.Report(report.Case{Incident: w.Incidents[hooktest.Incident], Actions: []state.Action{a}},
			hooktest.Start); !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	says(a, "still needs a person")
	a.Journal[state.Released] = "ana"
	says(a, "needed a person: ana took care of it")
	says(hooktest.After(state.Intent, state.Applied, state.Superseded)(a), "ended as superseded")
}
