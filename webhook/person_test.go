package webhook

import (
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"paramedic/state"
	"paramedic/webhook/report"
)

// Every door takes a person's word that a run is taken care of, also for a state that only a newer
// version knows.
func TestEveryDoorReleasesWhatNeedsHuman(t *testing.T) {
	for _, as := range []state.ActionState{state.NeedsHuman, "evacuating"} {
		for name, say := range map[string]func(s *Server) *httptest.ResponseRecorder{
			"API": func(s *Server) *httptest.ResponseRecorder {
				return do(s, "POST", "/api/v1/actions/"+string(action)+"/cancel", `{"actor":"ana"}`)
			},
			"Slack's command": func(s *Server) *httptest.ResponseRecorder {
				body := slash("U1", "cancel "+string(action)+" drained by hand", "t1")
				return slackSend(s, "/webhook/slack/command", body, slackHeaders(body, start))
			},
			"Slack's button": func(s *Server) *httptest.ResponseRecorder {
				body := click("U1", "paramedic.cancel", string(action)+"|plan1", "t1", "")
				return slackSend(s, "/webhook/slack/interaction", body, slackHeaders(body, start))
			},
		} {
			t.Run(name+", "+string(as), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					w := newWorld().populate()
					w.then = func(a state.Action) state.Action {
						a.Journal = map[string]string{state.Released: "ana"}
						return a
					}
					s, _ := slackDoor(t, w, nil)
					a := after(as)(w.actions[action])
					w.actions[action] = a
					expect(t, do(s, "GET", "/api/v1/actions/"+string(action), ""), 200, `"needs_person":true`)
					in := w.incidents[incident]
					in.Status = state.StatusResolved // a person's end of the incident is no word on its runs
					w.incidents[incident] = in
					got := say(s)
					expect(t, got, 200)
					if c := w.commands(); len(c) != 1 || c[0].Verb != state.VerbCancel || c[0].Seen != as || c[0].Refused != "" {
						t.Fatalf("%+v", c)
					}
					if body := got.Body.String(); name == "API" && !strings.Contains(body, `"released_by":"ana"`) || name == "Slack's command" && !strings.Contains(body, "Taken care of") {
						t.Errorf("%s", body)
					}
					expect(t, do(s, "POST", "/api/v1/actions/"+string(action)+"/cancel", `{"actor":"ben"}`), 409)
				})
			})
		}
	}
}

func TestReportSaysWhatStillNeedsHuman(t *testing.T) {
	w := newWorld().populate()
	a := after(state.Intent, state.Applied, state.NeedsHuman)(w.actions[action])
	says := func(a state.Action, want string) {
		t.Helper()
		if got := report.Report(report.Case{Incident: w.incidents[incident], Actions: []state.Action{a}}, start); !strings.Contains(got, want) {
			t.Errorf("it lacks %q:\n%s", want, got)
		}
	}
	says(a, "still waits for a person")
	a.Journal[state.Released] = "ana"
	says(a, "was taken care of by ana")
	says(after(state.Intent, state.Applied, state.Superseded)(a), "ended as superseded")
}
