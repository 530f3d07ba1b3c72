package guard

import (
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

const moment = time.Nanosecond

func TestLockHoldsWhileAnotherRunIsUnderWay(t *testing.T) {
	other := func(st state.ActionState, change ...func(*state.Action)) func(*Scene) {
		return func(s *Scene) {
			a := s.earlier("ACT-4", st, 3*time.Minute, 2*time.Minute)
			for _, c := range change {
				c(a)
			}
		}
	}
	elsewhere := func(a *state.Action) { a.Target.Pool, a.Target.Name = "other", "other" }
	cases := []guardCase{
		{name: "nothing under way", want: state.Allow},
		{name: "itself", set: func(s *Scene) { s.earlier(s.Action.ID, state.Intent, time.Second, 0) }, want: state.Allow},
		{name: "approved and not begun", set: other(state.Approved), want: state.Allow},
		{name: "another pool of another incident", set: other(state.Verifying, elsewhere), want: state.Allow},
		{name: "another pool of this incident", set: other(state.Verifying, elsewhere, func(a *state.Action) { a.Incident = "INC-1" }), want: state.Hold, says: "in progress"},
		{name: "waits for a person", set: other(state.NeedsHuman), want: state.Deny, says: "waits for a person"},
		{name: "a person took care of it", set: other(state.NeedsHuman, func(a *state.Action) { a.Journal[state.Released] = "asha" }), want: state.Allow},
		{name: "admitted at once, the older goes", set: func(s *Scene) {
			s.Action.State = state.Admitted
			s.earlier("ACT-6", state.Admitted, 0, 0)
		}, want: state.Allow},
		{name: "admitted at once, the younger waits", set: func(s *Scene) {
			s.Action.State = state.Admitted
			s.earlier("ACT-4", state.Admitted, 0, 0)
		}, want: state.Hold},
		{name: "older, but not admitted yet", set: func(s *Scene) {
			s.Action.State = state.Approved
			s.earlier("ACT-6", state.Admitted, 0, 0)
		}, want: state.Hold},
		{name: "older, but the other writes already", set: func(s *Scene) {
			s.Action.State = state.Admitted
			s.earlier("ACT-6", state.Intent, 0, 0)
		}, want: state.Hold},
	}
	for _, st := range []state.ActionState{state.Admitted, state.Intent, state.Applied, state.Verifying, state.RollbackIntent} {
		cases = append(cases, guardCase{name: string(st), set: other(st), want: state.Hold, says: "in progress: " + st.Words(),
			free: time.Minute})
	}
	runGuardCases(t, lockGuard, cases)
}

func TestTargetsAreOneByPoolOrByObject(t *testing.T) {
	pool := state.Target{Cluster: "prod", Namespace: "llm", Kind: "Pod", Name: "vllm-0", Pool: "vllm"}
	bare := state.Target{Cluster: "prod", Namespace: "llm", Kind: "Pod", Name: "vllm-0"}
	with := func(t state.Target, change func(*state.Target)) state.Target { change(&t); return t }
	for name, c := range map[string]struct {
		a, b state.Target
		want bool
	}{
		"same pool, another worker":     {pool, with(pool, func(t *state.Target) { t.Name = "vllm-1" }), true},
		"same pool, another kind":       {pool, with(pool, func(t *state.Target) { t.Kind, t.Name = "Deployment", "vllm" }), true},
		"another cluster":               {pool, with(pool, func(t *state.Target) { t.Cluster = "staging" }), false},
		"another namespace":             {pool, with(pool, func(t *state.Target) { t.Namespace = "chat" }), false},
		"another pool":                  {pool, with(pool, func(t *state.Target) { t.Name, t.Pool = "b-0", "b" }), false},
		"one object, the pool not told": {bare, pool, true},
		"no pool, another object":       {bare, with(bare, func(t *state.Target) { t.Name = "vllm-1" }), false},
		"no pool, another kind":         {bare, with(bare, func(t *state.Target) { t.Kind = "Node" }), false},
	} {
		if got := sameTarget(c.a, c.b); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// If the clock is set forward by an hour, what was done a moment ago still counts.
func TestClockStepKeepsTheHistory(t *testing.T) {
	recent := func(st state.ActionState) func(*Scene) {
		return func(s *Scene) {
			for _, id := range []state.ActionID{"ACT-1", "ACT-2"} {
				a := s.earlier(id, st, 10*time.Minute, 5*time.Minute)
				a.Journal[string(state.Intent)] = s.Now.Add(-10 * time.Minute).Format(time.RFC3339Nano)
				a.Journal[string(st)] = s.Now.Add(-5 * time.Minute).Format(time.RFC3339Nano)
				a.MoveJournal(24 * time.Hour)
			}
			s.Now = s.Now.Add(24 * time.Hour)
		}
	}
	other := func(s *Scene) {
		recent(state.Succeeded)(s)
		s.actions[0].Kind, s.actions[1].Kind = "another kind", "another kind" // so that what helped is not in question
	}
	runGuardCases(t, history, []guardCase{
		{name: "cooldown", set: other, want: state.Hold, says: "the cooldown of 30m", free: 24*time.Hour + 25*time.Minute},
		{name: "failed", set: recent(state.RolledBack), want: state.Deny, says: "did not help"},
	})
	runGuardCases(t, budget, []guardCase{{name: "budget", set: recent(state.Succeeded), want: state.Deny, says: "had 2 rollouts within 6h"}})
	runGuardCases(t, breaker, []guardCase{{name: "breaker", set: recent(state.RolledBack), want: state.Deny, says: "2 actions failed"}})
}

func TestHistoryLimitsActions(t *testing.T) {
	merged := func(s *Scene, id state.IncidentID) {
		v := s.Site.View.(*remediatetest.View)
		v.Incidents = append(v.Incidents, s.Incident, state.Incident{ID: id, Status: state.StatusResolved, MergedInto: s.Incident.ID})
	}
	ok := func(a *state.Action) { a.Kind = "another kind" } // so that what helped or not is not in question
	in := func(a *state.Action) { ok(a); a.Incident = "INC-1" }
	runGuardCases(t, history, []guardCase{
		{name: "nothing was done", want: state.Allow, says: "0 of 2 actions in this incident, 0 of 3 on this pool within 24h"},
		{name: "as many as an incident may have", set: func(s *Scene) {
			in(s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour))
			in(s.earlier("ACT-2", state.Succeeded, 3*time.Hour, 2*time.Hour))
		}, want: state.Deny, says: "this incident had 2 actions already; the limit is 2"},
		{name: "as many, of an incident that was merged into it", set: func(s *Scene) {
			merged(s, "INC-0")
			ok(s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour))
			ok(s.earlier("ACT-2", state.Succeeded, 3*time.Hour, 2*time.Hour))
		}, want: state.Deny, says: "this incident had 2 actions already; the limit is 2"},
		{name: "a merged incident's success did not help", set: func(s *Scene) {
			merged(s, "INC-0")
			s.Incident.ActiveAlerts, s.Incident.OpenedAt = 1, s.Now.Add(-6*time.Hour)
			s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour)
		}, want: state.Deny, says: "did not help"},
		{name: "as many, on other pools of the incident", set: func(s *Scene) {
			for _, id := range []state.ActionID{"ACT-1", "ACT-2"} {
				a := s.earlier(id, state.Succeeded, 3*time.Hour, 2*time.Hour)
				in(a)
				a.Target.Pool, a.Target.Name = "other", "other"
			}
		}, want: state.Deny, says: "this incident had 2 actions already; the limit is 2"},
		{name: "one fewer", set: func(s *Scene) {
			in(s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour))
		}, want: state.Allow, says: "1 of 2 actions in this incident, 1 of 3"},
		{name: "as many, of another incident", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour))
			ok(s.earlier("ACT-2", state.Succeeded, 3*time.Hour, 2*time.Hour))
		}, want: state.Allow, says: "0 of 2"},
		{name: "as many, of which one is this run", set: func(s *Scene) {
			in(s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour))
			in(s.earlier(s.Action.ID, state.Intent, time.Second, 0))
		}, want: state.Allow, says: "1 of 2"},
		{name: "as many, of which one wrote nothing", set: func(s *Scene) {
			in(s.earlier("ACT-1", state.Succeeded, 3*time.Hour, 2*time.Hour))
			in(s.earlier("ACT-2", state.Superseded, 3*time.Minute, 2*time.Minute))
			in(s.earlier("ACT-3", state.Denied, 3*time.Minute, 2*time.Minute))
		}, want: state.Allow, says: "1 of 2"},
		{name: "as many as a pool may have a day", set: func(s *Scene) {
			for _, id := range []state.ActionID{"ACT-1", "ACT-2", "ACT-3"} {
				ok(s.earlier(id, state.Succeeded, 24*time.Hour-moment, 23*time.Hour))
			}
		}, want: state.Deny, says: "this pool had 3 actions within 24h; the limit is 3"},
		{name: "of which one is a day old", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.Succeeded, 24*time.Hour, 23*time.Hour))
			ok(s.earlier("ACT-2", state.Succeeded, 23*time.Hour, 22*time.Hour))
			ok(s.earlier("ACT-3", state.Succeeded, 23*time.Hour, 22*time.Hour))
		}, want: state.Allow, says: "2 of 3"},
		{name: "of which one is of another pool", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.Succeeded, 23*time.Hour, 22*time.Hour))
			ok(s.earlier("ACT-2", state.Succeeded, 23*time.Hour, 22*time.Hour))
			a := s.earlier("ACT-3", state.Succeeded, 3*time.Minute, 2*time.Minute)
			ok(a)
			a.Target.Pool, a.Target.Name = "other", "other"
		}, want: state.Allow, says: "2 of 3"},
		{name: "the same did not help today", set: func(s *Scene) {
			s.earlier("ACT-1", state.RolledBack, 24*time.Hour-moment, 23*time.Hour)
		}, want: state.Deny, says: "did not help"},
		{name: "the same did not help yesterday", set: func(s *Scene) {
			s.earlier("ACT-1", state.RolledBack, 24*time.Hour, 23*time.Hour)
		}, want: state.Allow},
		{name: "the same helped", set: func(s *Scene) { s.earlier("ACT-1", state.Succeeded, 23*time.Hour, 22*time.Hour) }, want: state.Allow},
		{name: "something else did not help", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.RolledBack, 23*time.Hour, 22*time.Hour))
		}, want: state.Allow},
		{name: "the last action ended lately", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.Succeeded, time.Hour, 30*time.Minute-moment))
		}, want: state.Hold, says: "the cooldown of 30m", free: moment},
		{name: "the last action is as old as the cooldown", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.Succeeded, time.Hour, 30*time.Minute))
		}, want: state.Allow},
		{name: "the newest of several decides", set: func(s *Scene) {
			ok(s.earlier("ACT-1", state.Succeeded, time.Hour, 10*time.Minute))
			ok(s.earlier("ACT-2", state.Succeeded, time.Hour, 20*time.Minute))
		}, want: state.Hold, says: "the cooldown of 30m", free: 20 * time.Minute},
		{name: "nothing was written lately", set: func(s *Scene) {
			s.earlier("ACT-1", state.Superseded, time.Minute, time.Second)
		}, want: state.Allow},
	})
}

// If a similar incident opens within an hour, or the alerts continue, the action did not help.
func TestSymptomBackWithinTheHourIsFailure(t *testing.T) {
	const ago = 50 * time.Minute // since the action succeeded
	reopened := func(after time.Duration, change func(*state.Incident)) func(*Scene) {
		return func(s *Scene) {
			in := s.Incident
			in.ID, in.OpenedAt, in.Status = "INC-2", noon.Add(-ago+after), state.StatusResolved
			if change != nil {
				change(&in)
			}
			s.Site.View.(*remediatetest.View).Incidents = []state.Incident{in}
		}
	}
	own := func(change func(*Scene, *state.Incident)) func(*Scene) {
		return func(s *Scene) {
			in := s.Incident
			in.ID, in.OpenedAt = "INC-0", noon.Add(-2*time.Hour)
			change(s, &in)
			s.Site.View.(*remediatetest.View).Incidents = []state.Incident{in}
		}
	}
	for _, c := range []struct {
		name string
		ago  time.Duration
		set  func(*Scene)
		want bool
	}{
		{name: "nothing came", want: false},
		{name: "the same within the hour", set: reopened(time.Hour-moment, nil), want: true},
		{name: "the same at once", set: reopened(moment, nil), want: true},
		{name: "the same an hour later", set: reopened(time.Hour, nil), ago: ago, want: false},
		{name: "the same was there before", set: reopened(0, nil), want: false},
		{name: "in another cluster", set: reopened(time.Minute, func(in *state.Incident) { in.Cluster = "staging" }), want: false},
		{name: "in another namespace", set: reopened(time.Minute, func(in *state.Incident) { in.Scope.Namespace = "chat" }), want: false},
		{name: "in another pool", set: reopened(time.Minute, func(in *state.Incident) { in.Scope.Pool = "b" }), want: false},
		{name: "for another cause", set: reopened(time.Minute, func(in *state.Incident) { in.Diagnosis.Cause = "engine_hang" }), want: false},
		{name: "what is judged now", set: func(s *Scene) { s.Incident.OpenedAt = noon.Add(-time.Minute) }, want: true},
		{name: "what is judged now is something else", set: func(s *Scene) {
			s.Incident.OpenedAt, s.Incident.Scope.Pool = noon.Add(-time.Minute), "b"
		}, want: false},
		{name: "its own alerts go on", set: own(func(*Scene, *state.Incident) {}), want: true},
		{name: "its own alerts end", set: own(func(_ *Scene, in *state.Incident) { in.ActiveAlerts = 0 }), want: false},
		{name: "its own incident is resolved", set: own(func(_ *Scene, in *state.Incident) { in.Status = state.StatusResolved }), want: false},
		{name: "its own alerts had no time to end", set: own(func(*Scene, *state.Incident) {}), ago: 5 * time.Minute, want: false},
		{name: "its own alerts go on a little longer", set: own(func(*Scene, *state.Incident) {}), ago: 5*time.Minute + moment, want: true},
		{name: "its own alerts within the hour", set: own(func(*Scene, *state.Incident) {}), ago: time.Hour - moment, want: true},
		{name: "its own alerts never end", set: own(func(*Scene, *state.Incident) {}), ago: 3 * time.Hour, want: true},
		{name: "alerts of an older incident go on", set: own(func(_ *Scene, in *state.Incident) { in.ID = "INC-9" }), want: false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := sceneOf(playbooks.ActionSetEngineArg)
			s.Incident.OpenedAt = noon.Add(-3 * time.Hour)
			if c.set != nil {
				c.set(s)
			}
			when := c.ago // since it succeeded
			if when == 0 {
				when = ago
			}
			if got := s.failed(*s.earlier("ACT-1", state.Succeeded, 3*time.Hour, when)); got != c.want {
				t.Errorf("did not help: %t", got)
			}
		})
	}
	for st, want := range map[state.ActionState]bool{state.RollbackIntent: true, state.RolledBack: true, state.NeedsHuman: true,
		state.Verifying: false, state.Denied: false} {
		s := sceneOf(playbooks.ActionSetEngineArg)
		s.Incident.OpenedAt = noon.Add(-time.Minute)
		if got := s.failed(*s.earlier("ACT-1", st, time.Hour, 50*time.Minute)); got != want {
			t.Errorf("%s did not help: %t", st, got)
		}
	}
	s := sceneOf(playbooks.ActionSetEngineArg)
	mine := s.Incident
	mine.ID = "INC-0"
	s.Site.View.(*remediatetest.View).Incidents = []state.Incident{mine}
	if s.failed(*s.earlier("ACT-1", state.Verifying, time.Hour, 50*time.Minute)) {
		t.Error("a run that is verified while its alerts go on is said to have failed")
	}
	first := state.Action{Steps: []state.ActionStep{{State: state.Intent, At: noon}}}
	if !FirstStep(first, state.Intent).At.Equal(noon) || !FirstStep(first, state.Applied).At.IsZero() {
		t.Error("the first step is not found, or one that was never reached is")
	}
	if s.failed(state.Action{State: state.NeedsHuman,
		Steps: []state.ActionStep{{State: state.Admitted, At: noon}, {State: state.NeedsHuman, At: noon}}}) {
		t.Error("a run that wrote nothing is said to have failed")
	}
}

func TestBudgetBoundsDisruptions(t *testing.T) {
	elsewhere := func(a *state.Action) { a.Target.Pool, a.Target.Name = "other", "other" }
	evicted := func(n int) func(*Scene) {
		return func(s *Scene) {
			for i := range n {
				s.earlier(state.ActionID("ACT-"+string(rune('a'+i))), state.Succeeded, time.Duration(50-10*i)*time.Minute, time.Minute)
			}
		}
	}
	runGuardCases(t, budget, []guardCase{
		{name: "the pool has no workers", set: func(s *Scene) { s.Pods = nil }, want: state.Deny, says: "size is unknown"},
		{name: "the pool wants no workers", set: func(s *Scene) { s.Workload.Replicas = 0 }, want: state.Deny, says: "size is unknown"},
		{name: "one worker", set: func(s *Scene) { s.Workload.Replicas, s.Pods = 1, s.Pods[:1] }, want: state.Allow},
		{name: "rolled out within six hours", set: func(s *Scene) { s.earlier("ACT-1", state.Succeeded, 6*time.Hour-moment, time.Hour) }, want: state.Deny,
			says: "the budget is 1, and the next is possible at 12:00"},
		{name: "rolled out six hours ago", set: func(s *Scene) { s.earlier("ACT-1", state.Succeeded, 6*time.Hour, time.Hour) }, want: state.Allow, says: "0 of 1"},
		{name: "rolled out by this run", set: func(s *Scene) { s.earlier(s.Action.ID, state.Intent, time.Minute, 0) }, want: state.Allow},
		{name: "another pool was rolled out", set: func(s *Scene) { elsewhere(s.earlier("ACT-1", state.Succeeded, time.Hour, time.Hour)) }, want: state.Allow},
		{name: "a worker was restarted", set: func(s *Scene) {
			s.earlier("ACT-1", state.Succeeded, time.Hour, time.Hour).Kind = playbooks.ActionRestartWorker
		}, want: state.Allow},
		{name: "a rollout that wrote nothing", set: func(s *Scene) { s.earlier("ACT-1", state.Superseded, time.Hour, time.Hour) }, want: state.Allow},
		{name: "one eviction of five workers", kind: playbooks.ActionRestartWorker, set: evicted(1), want: state.Deny, says: "the budget is 1"},
		{name: "one eviction of eight workers", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Workload.Replicas = 8; evicted(1)(s) }, want: state.Allow, says: "1 of 2"},
		{name: "two evictions of eight workers", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Workload.Replicas = 8; evicted(2)(s) }, want: state.Deny, says: "possible at 12:10"},
		{name: "the order of two does not matter", kind: playbooks.ActionRestartWorker, set: func(s *Scene) {
			s.Workload.Replicas = 8
			s.earlier("ACT-1", state.Succeeded, 40*time.Minute, time.Minute)
			s.earlier("ACT-2", state.Succeeded, 50*time.Minute, time.Minute)
		}, want: state.Deny, says: "possible at 12:10"},
		{name: "three evictions of many workers", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Workload.Replicas = 100; evicted(3)(s) }, want: state.Deny, says: "the budget is 3"},
		{name: "evicted an hour ago", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.earlier("ACT-1", state.Succeeded, time.Hour, 0) }, want: state.Allow},
	})
}

func TestBreakerTripsOnTwoFailuresAnHour(t *testing.T) {
	failed := func(n int, ago time.Duration, change func(*state.Action)) func(*Scene) {
		return func(s *Scene) {
			for i := range n {
				a := s.earlier(state.ActionID("ACT-"+string(rune('a'+i))), state.RolledBack, 5*time.Hour, ago)
				if change != nil {
					change(a)
				}
			}
		}
	}
	runGuardCases(t, breaker, []guardCase{
		{name: "none", want: state.Allow, says: "0 actions failed"},
		{name: "one", set: failed(1, time.Minute, nil), want: state.Allow, says: "1 action failed"},
		{name: "two, of whatever pool", set: failed(2, time.Hour-moment, func(a *state.Action) { a.Target.Pool, a.Target.Namespace = "b", "chat" }), want: state.Deny,
			says: "2 actions failed in cluster prod within an hour: the breaker stops new actions there"},
		{name: "two, an hour ago", set: failed(2, time.Hour, nil), want: state.Allow},
		{name: "two of another cluster", set: failed(2, time.Minute, func(a *state.Action) { a.Target.Cluster = "staging" }), want: state.Allow},
		{name: "two that helped", set: failed(2, time.Minute, func(a *state.Action) {
			a.State, a.Steps[len(a.Steps)-1].State, a.Target.Pool = state.Succeeded, state.Succeeded, "b"
		}), want: state.Allow},
	})
}

func TestGuardsCountBegunAndOwnRuns(t *testing.T) {
	begun := []state.ActionStep{{State: state.Intent}}
	of := func(id state.ActionID, in state.IncidentID, steps []state.ActionStep) state.Action {
		return state.Action{ID: id, Incident: in, State: state.AwaitingApproval, Steps: steps}
	}
	m := &remediatetest.View{Actions: []state.Action{of("own, begun", "INC-1", begun), of("own, waits", "INC-1", nil),
		of("other, begun", "INC-2", begun), of("other, waits", "INC-2", nil)}}
	var got []string
	for _, a := range remembered(m, "INC-1") {
		got = append(got, string(a.ID))
	}
	if want := "own, begun; other, begun; own, waits"; strings.Join(got, "; ") != want {
		t.Errorf("%q", got)
	}
}
