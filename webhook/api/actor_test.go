package api_test

import (
	"testing"

	"paramedic/state"
	"paramedic/webhook"
	"paramedic/webhook/hooktest"
)

// A token without a name cannot act as a named approver. Neither can a caller of an API that asks
// for no token.
func TestNamelessTokenCannotBeNamedApprover(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*webhook.Config)
		headers []string
	}{
		"shared token": {hooktest.WithTokens(t), []string{"Authorization", "Bearer shared-token"}},
		"no tokens":    {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := hooktest.ListApprovers(hooktest.NewWorld().Populate(), "root", "token", "local")
			s, _ := hooktest.Serve(t, w, c.change)
			path := "/api/v1/actions/" + string(hooktest.Action) + "/approve"
			for _, actor := range []string{"root", "token", "local", "ROOT"} {
				hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"actor":"`+actor+`","plan_hash":"plan1"}`, c.headers...), 403, "token of their own")
			}
			if got := w.Actions[hooktest.Action]; got.State != state.AwaitingApproval {
				t.Fatalf("the action is %s, decided by %s", got.State, got.DecidedBy)
			}
			for _, cmd := range w.Commands() {
				if cmd.Refused == "" || !cmd.Actor.Unverified {
					t.Errorf("recorded %+v", cmd)
				}
			}
		})
	}
}

// If the body names another person than the token, nothing is done, and the attempt is recorded
// under the token's name.
func TestActorAndTokenMustAgree(t *testing.T) {
	w := hooktest.NewWorld().Populate()
	s, _ := hooktest.Serve(t, w, hooktest.WithTokens(t))
	auth := []string{"Authorization", "Bearer responder-token"}
	for _, path := range []string{"/api/v1/incidents/42/ack", "/api/v1/actions/ACT-01KA/approve", "/api/v1/halt"} {
		hooktest.Expect(t, hooktest.Do(s, "POST", path, `{"actor":"root"}`, auth...), 403, "belongs to ana", "names the actor root", "omit actor")
	}
	if !w.Incidents[hooktest.Incident].AckedAt.IsZero() || w.Actions[hooktest.Action].State != state.AwaitingApproval || len(w.Halts) > 0 {
		t.Error("a refused request did something")
	}
	for _, cmd := range w.Commands() {
		if cmd.Refused == "" || cmd.Actor.ID != "ana" {
			t.Errorf("recorded %+v", cmd)
		}
	}
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", `{"actor":"Ana"}`, auth...), 200, `"acked_by":"ana"`)
}

// A client that can fill in the name reads which field is missing.
func TestNamelessTokenMustNameActor(t *testing.T) {
	s, _ := hooktest.Serve(t, hooktest.NewWorld().Populate(), hooktest.WithTokens(t))
	hooktest.Expect(t, hooktest.Do(s, "POST", "/api/v1/incidents/42/ack", ``, "Authorization", "Bearer shared-token"), 400, `"missing":"actor"`)
}
