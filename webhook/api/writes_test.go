package api_test

import (
	"errors"
	"strings"
	"testing"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

var asResponder = []string{"Authorization", "Bearer responder-token"}

func TestWriteToUnknownTargetIs404(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	for path, word := range map[string]string{
		"/api/v1/incidents/99/ack":                            "99",
		"/api/v1/actions/ACT-01KZZZZZZZZZZZZZZZZZZZZZZZ/deny": "ACT-01KZ",
	} {
		hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, asResponder...), 404, word)
	}
	for _, path := range []string{"/api/v1/halt", "/api/v1/resume"} {
		hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"cluster":"staging"}`, "Authorization", "Bearer admin-token"), 404, "staging", "default, prod")
	}
	if len(w.Inputs) != 0 {
		t.Errorf("%d inputs", len(w.Inputs))
	}
}

func TestWritesRequireAnActor(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	for _, path := range []string{"/api/v1/incidents/42/resolve", "/api/v1/actions/ACT-01KA/approve", "/api/v1/actions/ACT-01KA/cancel",
		"/api/v1/halt", "/api/v1/resume"} {
		hooktest.Expect(t, hooktest.Do(s, "POST", path, ``), 401)
		hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, "Authorization", "Bearer wrong-token"), 401)
	}
	if len(w.Inputs) != 0 || len(w.Halts) != 0 {
		t.Errorf("%d inputs without an actor", len(w.Inputs))
	}
}

func TestLargeWriteIsRefused(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	long := `{"reason":"` + strings.Repeat("x", 70<<10) + `"}`
	for _, path := range []string{"/api/v1/incidents/42/ack", "/api/v1/actions/ACT-01KA/deny", "/api/v1/halt"} {
		hooktest.Expect(t, hooktest.Do(s, "POST", path, long, asResponder...), 413)
	}
	if len(w.Inputs) != 0 {
		t.Errorf("%d inputs", len(w.Inputs))
	}
}

// A person may name a cause by an ID of the catalogue's form, or none.
func TestFeedbackCauseMustBeAnID(t *testing.T) {
	for cause, code := range map[string]int{"": 200, "kv_leak": 200, "KV_leak": 400, "kv leak": 400, "<b>": 400,
		strings.Repeat("a", 65): 400} {
		w := hooktest.NewWorld().Populate()
		s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
		hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/feedback", `{"right":false,"cause":"`+cause+`"}`, asResponder...), code)
		if cmds := w.Commands(); (len(cmds) == 1) != (code == 200) || len(cmds) == 1 && string(cmds[0].Cause) != cause {
			t.Errorf("%q: %+v", cause, cmds)
		}
	}
}

func TestFeedbackNamesAKnownCause(t *testing.T) {
	known := func(c *webhook.Config) { c.Causes = []state.Cause{"gpu_fault", "kv_exhaustion", "kv_leak"} }
	for body, code := range map[string]int{`{"right":false,"cause":"kv_leak"}`: 200, `{"right":false}`: 200,
		`{"right":false,"cause":"kv_leaks"}`: 400, `{"right":false,"cause":"unknown"}`: 400} {
		w := hooktest.NewWorld().Populate()
		s, _ := hooktest.Serve(t, w, known)
		answer := hooktest.Do(s, "POST", "/api/v1/incidents/42/feedback", body)
		hooktest.Expect(t, answer, code)
		if code == 400 && !strings.Contains(answer.Body.String(), "gpu_fault, kv_exhaustion, kv_leak") {
			t.Errorf("%s: the answer names no known cause: %s", body, answer.Body)
		}
		if cmds := w.Commands(); (len(cmds) == 1) != (code == 200) {
			t.Errorf("%s: recorded %+v", body, cmds)
		}
	}
}

// A body that says two things is refused, because only one of them could be done.
func TestContradictionsAreRefused(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	for body, path := range map[string]string{
		`{"duration":"2h","until":"2999-12-01T00:00:00Z"}`: "/api/v1/incidents/42/silence",
		`{"right":true,"cause":"gpu_fault"}`:               "/api/v1/incidents/42/feedback",
		`{"right":false,"cause":"kv_exhaustion"}`:          "/api/v1/incidents/42/feedback",
		`{"plan_hash":"pla"}`:                              "/api/v1/actions/ACT-01KA/approve",
	} {
		hooktest.Expect(t, hooktest.Do(s, "POST", path, body, asResponder...), 400)
	}
	if cmds := w.Commands(); len(cmds) != 0 {
		t.Errorf("recorded %+v", cmds)
	}
	compressed := append([]string{"Content-Encoding", "gzip"}, asResponder...)
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{}`, compressed...), 400, "without Content-Encoding")
}

// Denying is the safe side: it needs a responder, but no approver.
func TestDenialNeedsNoApprover(t *testing.T) {
	for _, verb := range []string{"deny", "cancel"} {
		w := hooktest.ListApprovers(hooktest.NewWorld().Populate(), "U0LIN")
		s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
		hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/actions/ACT-01KA/"+verb, ``, asResponder...), 200)
		if got := w.Actions[hooktest.Action]; got.State == state.AwaitingApproval {
			t.Errorf("%s: it still waits for approval", verb)
		}
	}
}

func TestHaltNeedsResponderAndTakesOneCluster(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/halt", `{"cluster":"prod"}`, "Authorization", "Bearer viewer-token"), 403, "responder")
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/halt", `{"cluster":"prod"}`, asResponder...), 200, `"clusters":["prod"]`)
	if _, ok := w.Halts["prod"]; !ok || len(w.Halts) != 1 {
		t.Errorf("halted: %v", w.Halts)
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/halt", ``, asResponder...), 200, `"clusters":["default","prod"]`)
}

// A command that was not appended is reported as failed, and one that is not applied yet as
// accepted.
func TestPendingAndFailedWritesAreReported(t *testing.T) {
	for _, path := range []string{"/api/v1/incidents/42/ack", "/api/v1/actions/ACT-01KA/deny", "/api/v1/halt"} {
		w := hooktest.NewWorld().Populate()
		s, _ := hooktest.Serve(t, w, func(c *webhook.Config) { hooktest.WithTokens(t)(c); c.Limits.ApplyWait = 1 })
		w.Err = errors.New("no quorum")
		hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, asResponder...), 503)
		w.Err, w.Idle = nil, true
		hooktest.Expect(t, hooktest.Do(s, "POST", path, ``, asResponder...), 202, `"status":"accepted"`)
	}
}
