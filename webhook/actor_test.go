package webhook

import (
	"testing"

	"paramedic/state"
)

// listedApprover gives the action of the world a policy's list of approvers.
func listedApprover(w *world, names ...string) *world {
	a := w.actions[action]
	a.Approvers = names
	w.actions[action] = a
	return w
}

// A token without a name cannot pass for a named approver, and neither can a caller of an API that
// asks for no token.
func TestNamelessTokenIsNoNamedApprover(t *testing.T) {
	for name, c := range map[string]struct {
		change  func(*Config)
		headers []string
	}{
		"shared token": {withTokens(t), []string{"Authorization", "Bearer shared-token"}},
		"no tokens":    {nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			w := listedApprover(newWorld().populate(), "root", "token", "local")
			s, _ := door(t, w, c.change)
			path := "/api/v1/actions/" + string(action) + "/approve"
			for _, actor := range []string{"root", "token", "local", "ROOT"} {
				expect(t, do(s, "POST", path, `{"actor":"`+actor+`","plan_hash":"plan1"}`, c.headers...), 403, "token of their own")
			}
			if got := w.actions[action]; got.State != state.AwaitingApproval {
				t.Fatalf("the action is %s, decided by %s", got.State, got.DecidedBy)
			}
			for _, cmd := range w.commands() {
				if cmd.Refused == "" || !cmd.Actor.Unverified {
					t.Errorf("recorded %+v", cmd)
				}
			}
		})
	}
}

// Where the body names another person than the token, nothing is done, and the attempt is on record
// under the token's name.
func TestActorAndTokenMustAgree(t *testing.T) {
	w := newWorld().populate()
	s, _ := door(t, w, withTokens(t))
	auth := []string{"Authorization", "Bearer responder-token"}
	for _, path := range []string{"/api/v1/incidents/42/ack", "/api/v1/actions/ACT-01KA/approve", "/api/v1/halt"} {
		expect(t, do(s, "POST", path, `{"actor":"root"}`, auth...), 403, "that of ana", "names the actor root", "leave actor out")
	}
	if !w.incidents[incident].AckedAt.IsZero() || w.actions[action].State != state.AwaitingApproval || len(w.halts) > 0 {
		t.Error("a refused request did something")
	}
	for _, cmd := range w.commands() {
		if cmd.Refused == "" || cmd.Actor.ID != "ana" {
			t.Errorf("recorded %+v", cmd)
		}
	}
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", `{"actor":"Ana"}`, auth...), 200, `"acked_by":"ana"`)
}

// A program that may fill in the name itself is told which field is missing.
func TestNamelessTokenIsAskedForAName(t *testing.T) {
	s, _ := door(t, newWorld().populate(), withTokens(t))
	expect(t, do(s, "POST", "/api/v1/incidents/42/ack", ``, "Authorization", "Bearer shared-token"), 400, `"missing":"actor"`)
}
