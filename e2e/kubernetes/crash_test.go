package kubernetes

import (
	"fmt"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/remediate/cluster"
	"paramedic/state"
	"paramedic/webhook/api"
)

// approvedBehindGate runs a scene up to the approval. Before that, arm sets what the gate does to
// the write. After the kill, the channel gets the state that the API had when the write was sent.
func approvedBehindGate(t *testing.T, arm func(s *scene, kill func())) (*scene, api.ActionJSON, <-chan state.ActionState) {
	t.Helper()
	// The bot is away for a part of the window. It takes five samples in the rest, even on a slow
	// machine.
	s := setting(t, options{mode: "approve", engines: exhausted(), gated: true, window: "25s"})
	s.alert("firing", exhaustion...)
	s.diagnosed("kv_exhaustion")
	a := s.offered("set_engine_arg", state.AwaitingApproval)
	at := make(chan state.ActionState, 1)
	arm(s, func() {
		now, err := s.action(a.ID)
		if err != nil {
			now.State = state.ActionState(err.Error())
		}
		s.bot.Kill()
		at <- now.State
	})
	s.approve()
	return s, a, at
}

// killedAt waits for the kill. At that moment the run must be recorded as an intent.
func killedAt(t *testing.T, at <-chan state.ActionState) {
	t.Helper()
	select {
	case got := <-at:
		if got != state.Intent {
			t.Fatalf("the write was sent in the state %q, not after a recorded intent", got)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the bot sent no write within 30s of the approval")
	}
}

func TestWritesOnceWhenKilledBeforeTheWrite(t *testing.T) {
	t.Parallel()
	s, a, at := approvedBehindGate(t, func(s *scene, kill func()) {
		s.gate.once(func() bool { kill(); return false }, nil)
	})
	killedAt(t, at)
	if got := writes(t, s.namespace); len(got) != 0 {
		t.Fatalf("before the restart the API server has taken %v", got)
	}
	s.bot.Start()
	s.becomes(a.ID, 90*time.Second, state.Succeeded)
	s.wroteOnce(a)
}

func TestWritesOnceWhenKilledBeforeRecordAndInVerify(t *testing.T) {
	t.Parallel()
	s, a, at := approvedBehindGate(t, func(s *scene, kill func()) { s.gate.once(nil, kill) })
	killedAt(t, at)
	if got := writes(t, s.namespace); len(got) != 1 {
		t.Fatalf("before the restart the API server has taken %v", got)
	}
	s.bot.Start()
	s.becomes(a.ID, 30*time.Second, state.Verifying)
	seen := time.Now()
	bot.Eventually(t, 30*time.Second, "verification takes samples", func() error {
		looks := 0
		for _, e := range audit(t, s.namespace, seen) {
			if e.Verb == "get" && e.ObjectRef.Resource == "deployments" {
				looks++
			}
		}
		if looks < 6 { // two for each sample
			return fmt.Errorf("%d reads of the Deployment", looks)
		}
		return nil
	})
	s.bot.Kill()
	s.bot.Start()
	if now, err := s.action(a.ID); err != nil || now.State != state.Verifying {
		t.Errorf("after the restart the action is %s (%v)", now.State, err)
	}
	s.becomes(a.ID, 90*time.Second, state.Succeeded)
	s.wroteOnce(a)
}

// wroteOnce checks that the API server accepted one write and that it is in force.
func (s *scene) wroteOnce(a api.ActionJSON) {
	s.Helper()
	if got := writes(s.T, s.namespace); len(got) != 1 {
		s.Errorf("the bot wrote %d times: %v", len(got), got)
	}
	if s.deployment().Annotations[cluster.OpIDAnnotation] == "" {
		s.Error("the Deployment does not carry the run's op-id")
	}
	if err := s.rolledOut(s.proposed(a.Change)); err != nil {
		s.Error(err)
	}
	s.settled()
}
