package state

import (
	"strings"
	"testing"
	"time"
)

var responder = Actor{ID: "ana"}

func TestStatesAllowTheirTransitions(t *testing.T) {
	for st, want := range map[ActionState]struct {
		before, running, done bool
		need                  int
	}{
		Proposed: {before: true, need: 1}, AwaitingApproval: {before: true, need: 3}, Approved: {before: true, running: true, need: 2},
		Admitted: {before: true, running: true, need: 2}, Intent: {running: true, need: 2}, Applied: {running: true, need: 2},
		Verifying: {running: true, need: 2}, RollbackIntent: {running: true, need: 2}, NeedsHuman: {done: true, need: 3},
		Succeeded: {done: true}, RolledBack: {done: true}, Denied: {done: true}, Expired: {done: true}, Cancelled: {done: true},
		Superseded:           {done: true},
		"of a newer version": {need: 3},
	} {
		a := Action{State: st}
		if st.BeforeEffect() != want.before || st.Running() != want.running || st.Done() != want.done || a.Need() != want.need {
			t.Errorf("%s: nothing written %t, running %t, done %t, need %d", st, st.BeforeEffect(), st.Running(), st.Done(), a.Need())
		}
		if known := st != "of a newer version"; st.Known() != known || a.NeedsPerson() != (st == NeedsHuman || !known) {
			t.Errorf("%s: known %t, needs a person %t", st, st.Known(), a.NeedsPerson())
		}
		if a.Journal = map[string]string{Released: "ana"}; a.NeedsPerson() || st == "of a newer version" && a.Need() != 0 {
			t.Errorf("%s: a person took care of it, and it needs one", st)
		}
	}
}

func TestIllegalMoveChangesNothing(t *testing.T) {
	a := Action{ID: "ACT-1", State: Approved}
	if err := a.Move(Applied, time.Time{}, "x", responder); err == nil || a.State != Approved || len(a.Steps) != 0 || a.Reason != "" {
		t.Errorf("%+v %v", a, err)
	}
	if err := a.Move(Admitted, time.Time{}, "all guards allow", responder); err != nil || a.State != Admitted || a.Reason != "" {
		t.Errorf("a step that is no end gives the reason %q (%v)", a.Reason, err)
	}
	if err := a.Move(Denied, time.Time{}, "frozen", responder); err != nil || a.Reason != "frozen" || len(a.Steps) != 2 {
		t.Errorf("an end gives the reason %q (%v)", a.Reason, err)
	}
}

func TestBegunCoversAdmittedAndIntended(t *testing.T) {
	steps := func(all ...ActionState) (a Action) {
		for _, st := range all {
			a.State = st
			a.Steps = append(a.Steps, ActionStep{State: st})
		}
		return a
	}
	for _, c := range []struct {
		a    Action
		want bool
	}{
		{steps(Proposed), false}, {steps(AwaitingApproval, Approved), false}, {steps(Proposed, Admitted),
			true}, {steps(Proposed, Admitted, Denied), false},
		{steps(Proposed, Admitted, Intent), true}, {steps(Proposed, Admitted, Intent, Superseded), true},
		{steps(Proposed, "of a newer version"), true},
	} {
		if got := c.a.Begun(); got != c.want {
			t.Errorf("%+v: %t", c.a.Steps, got)
		}
	}
}

func TestSameRemedyComparesKindAndObject(t *testing.T) {
	a := Action{Kind: "restart_worker", Target: Target{Namespace: "llm", Name: "vllm-0"}}
	for name, change := range map[string]func(*Action){
		"kind": func(a *Action) { a.Kind = "set_engine_arg" }, "namespace": func(a *Action) { a.Target.Namespace = "chat" },
		"name": func(a *Action) { a.Target.Name = "vllm-1" },
	} {
		b := a
		if change(&b); a.SameRemedy(&b) {
			t.Errorf("another %s is the same remedy", name)
		}
	}
	if b := a; !a.SameRemedy(&b) {
		t.Error("the same is another remedy")
	}
}

// Neither a guard's denial nor a run that went on after its approval is a person's refusal.
func TestDeclinedNeedsAPersonsRefusal(t *testing.T) {
	by := func(st ActionState, who Actor) []ActionStep {
		return []ActionStep{{State: Proposed}, {State: st, Actor: who}}
	}
	for name, c := range map[string]struct {
		a    Action
		want bool
	}{
		"denied by a guard":     {Action{State: Denied}, false},
		"cancelled by the bot":  {Action{State: Cancelled}, false},
		"cancelled by a person": {Action{State: Cancelled, DecidedBy: responder, Steps: by(Cancelled, responder)}, true},
		"denied by a person":    {Action{State: Denied, DecidedBy: responder, Steps: by(Denied, responder)}, true},
		"approved, then denied": {Action{State: Denied, DecidedBy: responder, Steps: by(Denied, Actor{ID: "paramedic"})}, false},
		"approved and done":     {Action{State: Succeeded, DecidedBy: responder, Steps: by(Succeeded, responder)}, false},
		"decided by nobody":     {Action{State: Denied, Steps: by(Denied, Actor{})}, false},
		"of no known steps":     {Action{State: Denied, DecidedBy: responder}, false},
		"called off":            {Action{State: NeedsHuman, Journal: map[string]string{CalledOff: "ana"}}, true},
	} {
		if got := c.a.Declined(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestRanOutExcludesDeclined(t *testing.T) {
	no := []ActionStep{{State: Denied, Actor: responder}}
	for name, c := range map[string]struct {
		a    Action
		want bool
	}{
		"expired": {Action{State: Expired}, true}, "denied by a guard": {Action{State: Denied},
			true}, "denied by a person": {Action{State: Denied, DecidedBy: responder, Steps: no}, false},
		"cancelled": {Action{State: Cancelled}, false}, "done": {Action{State: Succeeded}, false},
	} {
		if got := c.a.RanOut(); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestCallOffDescribesOnlyKnownFacts(t *testing.T) {
	by := map[string]string{CalledOff: "ana"}
	for name, c := range map[string]struct {
		a    Action
		want string
	}{
		"not called off":      {Action{State: Intent}, ""},
		"about to be written": {Action{State: Intent, Journal: by}, "writes nothing more, unless the write is already on its way"},
		"written": {Action{State: Verifying, Journal: by, Steps: []ActionStep{{State: Intent}, {State: Applied}}},
			"too late"},
		"ended without a write":    {Action{State: Superseded, Journal: by, Steps: []ActionStep{{State: Intent}, {State: Superseded}}}, ""},
		"denied, never called off": {Action{State: Denied, Steps: []ActionStep{{State: Intent}, {State: Applied}}}, ""},
	} {
		if got := c.a.CallOff(); c.want == "" && got != "" || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q", name, got)
		}
	}
}

func TestTargetStringIsKindAndName(t *testing.T) {
	if a, b := (Target{Kind: "Pod", Namespace: "llm", Name: "x"}).String(), (Target{Kind: "Node", Name: "n1"}).String(); a != "Pod llm/x" ||
		b != "Node n1" {
		t.Errorf("%q %q", a, b)
	}
}
