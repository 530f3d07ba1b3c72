package kubernetes

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/notify/slack"
	"paramedic/remediate/cluster"
	"paramedic/state"
)

func TestApprovedRolloutEndsKVExhaustion(t *testing.T) {
	t.Parallel()
	s := setting(t, options{mode: "approve", engines: exhausted()})
	s.alert("firing", exhaustion...)
	in := s.diagnosed("kv_exhaustion")
	a := s.offered("set_engine_arg", state.AwaitingApproval)
	if got := writes(t, s.namespace); len(got) > 0 {
		t.Fatalf("the bot wrote before the approval: %v", got)
	}

	s.click(stranger, slack.ActionApprove)
	bot.Eventually(t, 10*time.Second, "the stranger's click is on the timeline", func() error {
		if line := s.timeline(in.ID); !strings.Contains(line, `"refused"`) || !strings.Contains(line, stranger.Name) {
			return fmt.Errorf("the timeline has no refusal: %s", line)
		}
		return nil
	})
	bot.Eventually(t, 10*time.Second, "the stranger gets an answer", func() error {
		if said := s.slack.Whispers(); len(said) != 1 || !strings.Contains(said[0], "not among the approvers") {
			return fmt.Errorf("they got: %q", said)
		}
		return nil
	})
	if now, err := s.action(a.ID); err != nil || now.State != state.AwaitingApproval || now.DecidedBy != "" {
		t.Fatalf("after an unlisted person's click the action is %s, decided by %q (%v)", now.State, now.DecidedBy, err)
	}

	s.approve()
	to := s.proposed(a.Change)
	ended := s.becomes(a.ID, 90*time.Second, state.Succeeded)
	if ended.Verdict != state.Better || !strings.Contains(ended.DecidedBy, approver.Name) {
		t.Errorf("it ended with the verdict %q, approved by %q", ended.Verdict, ended.DecidedBy)
	}
	if err := s.rolledOut(to); err != nil {
		t.Errorf("after success: %v", err)
	}
	got := writes(t, s.namespace)
	if len(got) != 1 || got[0].Verb != "patch" || got[0].ObjectRef.Resource != "deployments" {
		t.Fatalf("the bot's writes are %v, not one patch of the Deployment", got)
	}
	op := s.deployment().Annotations[cluster.OpIDAnnotation]
	if op == "" || !strings.Contains(string(got[0].RequestObject), op) || !strings.Contains(string(got[0].RequestObject), `"test"`) {
		t.Errorf("the op-id %q was not written by the same, guarded patch: %s", op, got[0].RequestObject)
	}

	s.alert("resolved", exhaustion...)
	bot.Eventually(t, 30*time.Second, "the incident resolves", func() error {
		list, err := s.bot.Incidents()
		if err != nil || len(list) != 1 || list[0].Status != state.StatusResolved {
			return fmt.Errorf("incidents: %s (%v)", describe(nil, list), err)
		}
		return nil
	})
	if n := len(s.slack.Messages()); n != 1 {
		t.Errorf("%d messages in Slack for one incident", n)
	}
	s.settled()
}

// proposed parses the new value of an action's change.
func (s *scene) proposed(change string) (to int) {
	s.Helper()
	if _, err := fmt.Sscanf(change, "max_num_seqs 256 → %d", &to); err != nil || to >= 256 {
		s.Fatalf("the change is %q", change)
	}
	return to
}

func TestHarmfulFixIsRolledBack(t *testing.T) {
	t.Parallel()
	s := setting(t, options{mode: "approve", engines: worsening()})
	s.alert("firing", exhaustion...)
	s.diagnosed("kv_exhaustion")
	a := s.offered("set_engine_arg", state.AwaitingApproval)
	to := s.proposed(a.Change)
	s.approve()
	ended := s.becomes(a.ID, 90*time.Second, state.RolledBack)
	if ended.Verdict != state.Worse {
		t.Errorf("the verdict is %q: %s", ended.Verdict, ended.Reason)
	}
	if err := s.rolledOut(256); err != nil {
		t.Errorf("after the rollback: %v", err)
	}
	got := writes(t, s.namespace)
	if len(got) != 2 || !strings.Contains(string(got[0].RequestObject), fmt.Sprintf("--max-num-seqs=%d", to)) ||
		!strings.Contains(string(got[1].RequestObject), `"--max-num-seqs=256"`) {
		t.Errorf("the bot's writes are %v, not the change and its inverse", got)
	}
	s.settled()
}
