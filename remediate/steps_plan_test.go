package remediate

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/policy"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

// planned returns a planner of one remedy, and its view.
func planned(remember ...state.Action) (*Planner, *remediatetest.View) {
	s := sceneOf(setEngineArgKind)
	m := s.Site.View.(*remediatetest.View)
	s.Incident.Diagnosis.Playbook = "pb"
	m.Incidents, m.Actions = []state.Incident{s.Incident}, remember
	cfg := &Config{Site: *s.Site, Logger: quietLogger}
	cfg.Clock, cfg.Gauge = fixedClock{noon}, fixedGauge{&s.Evidence}
	cfg.Clusters = map[string]cluster.Cluster{"prod": &fakeCluster{w: s.Workload, pods: s.Pods, ns: s.Namespace}}
	cfg.Playbook = func(state.Diagnosis) (playbooks.Playbook, bool) {
		return playbooks.Playbook{FirstAid: []playbooks.Remedy{{Action: setEngineArgKind,
			Params: map[string]string{"arg": "max_num_seqs", "direction": "lower"}}}}, true
	}
	return &Planner{cfg: cfg}, m
}

// waiting returns a plan of the pool that waits for approval.
func waiting(change func(*state.Action)) state.Action {
	a := state.Action{ID: "ACT-1", Incident: "INC-1", Kind: setEngineArgKind, Mode: "approve", State: state.AwaitingApproval,
		ExpiresAt: noon.Add(time.Minute),
		Target:    state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "vllm", UID: "dep-1", Pool: "vllm"},
		Params:    map[string]string{"from": "100", "to": "80", "labels": "a"}, Steps: []state.ActionStep{{State: state.AwaitingApproval,
			At: noon}}}
	if change != nil {
		change(&a)
	}
	return a
}

func TestPlanIsSameByTargetModeAndValue(t *testing.T) {
	denied := func(names ...string) func(*state.Action) {
		return func(a *state.Action) {
			a.State = state.Denied
			for _, n := range names {
				a.Guards = append(a.Guards, state.GuardResult{Guard: n, Decision: state.Deny},
					state.GuardResult{Guard: "x" + n, Decision: state.Hold})
			}
		}
	}
	for name, c := range map[string]struct {
		old, fresh func(*state.Action)
		refused    bool
		stands     bool // there is one of the remedy
		same       bool
	}{
		"the same":               {stands: true, same: true},
		"another remedy":         {old: func(a *state.Action) { a.Kind = restartWorkerKind }},
		"another object":         {old: func(a *state.Action) { a.Target.Name = "b" }},
		"another verdict":        {old: func(a *state.Action) { a.Cause = "engine_hang" }, stands: true},
		"another UID":            {old: func(a *state.Action) { a.Target.UID = "dep-2" }, stands: true},
		"another mode":           {old: func(a *state.Action) { a.Mode = "auto" }, stands: true},
		"another value before":   {old: func(a *state.Action) { a.Params["from"] = "128" }, stands: true},
		"other labels":           {old: func(a *state.Action) { a.Params["labels"] = "b" }, stands: true},
		"nearly the value":       {fresh: func(a *state.Action) { a.Params["to"] = "60" }, stands: true, same: true},
		"far from the value":     {fresh: func(a *state.Action) { a.Params["to"] = "59" }, stands: true},
		"far above the value":    {fresh: func(a *state.Action) { a.Params["to"] = "107" }, stands: true},
		"no value any more":      {fresh: func(a *state.Action) { a.Params["to"] = "" }, stands: true},
		"no value before":        {old: func(a *state.Action) { a.Params["to"] = "" }, stands: true},
		"no value at all":        {old: func(a *state.Action) { a.Params["to"] = "" }, fresh: func(a *state.Action) { a.Params["to"] = "" }, stands: true, same: true},
		"expired":                {old: func(a *state.Action) { a.ExpiresAt = noon }, stands: true},
		"about to expire":        {old: func(a *state.Action) { a.ExpiresAt = noon.Add(moment) }, stands: true, same: true},
		"approved":               {old: func(a *state.Action) { a.State, a.ExpiresAt = state.Approved, noon }, stands: true, same: true},
		"under way":              {old: func(a *state.Action) { a.State = state.Verifying }, stands: true},
		"denied alike":           {old: denied("budget"), fresh: denied("budget"), refused: true, stands: true, same: true},
		"denied otherwise":       {old: denied("budget"), fresh: denied("capacity"), refused: true, stands: true},
		"denied, and not now":    {old: denied("budget"), stands: true},
		"denied, nothing denies": {old: denied(), stands: true},
	} {
		p, m := planned(waiting(c.old))
		got, same := p.currentRun(waiting(c.fresh), c.refused)
		if (got.ID != "") != c.stands || same != c.same {
			t.Errorf("%s: %q stands, same %t", name, got.ID, same)
		}
		if m.Actions = nil; !c.stands {
			continue
		}
		if _, same := p.currentRun(waiting(c.fresh), c.refused); same {
			t.Errorf("%s: nothing stands, and is the same", name)
		}
	}
}

func TestPlanningStopsWithoutAUsefulRemedy(t *testing.T) {
	overtaken := func(id state.ActionID) state.Action {
		return waiting(func(a *state.Action) {
			a.ID, a.State, a.Target.Name = id, state.Superseded, "b"
			a.Steps = []state.ActionStep{{State: state.Intent, At: noon}, {State: state.Superseded, At: noon}}
		})
	}
	never := func(a state.Action) state.Action { a.Steps = a.Steps[1:]; return a }
	wrote := func(a state.Action) state.Action { a.State = state.Succeeded; return a }
	for name, c := range map[string]struct {
		set      func(*Planner, *remediatetest.View)
		remember []state.Action
		planned  int
	}{
		"a remedy":              {planned: 1},
		"no verdict's playbook": {set: func(_ *Planner, m *remediatetest.View) { m.Incidents[0].Diagnosis.Playbook = "" }},
		"no such playbook": {set: func(p *Planner, _ *remediatetest.View) {
			was := p.cfg.Playbook
			p.cfg.Playbook = func(d state.Diagnosis) (playbooks.Playbook, bool) { pb, _ := was(d); return pb, false }
		}},
		"the incident is resolved":         {set: func(_ *Planner, m *remediatetest.View) { m.Incidents[0].Status = state.StatusResolved }},
		"the incident is forgotten":        {set: func(_ *Planner, m *remediatetest.View) { m.Incidents = nil }},
		"overtaken thrice":                 {remember: []state.Action{overtaken("A"), overtaken("B"), overtaken("C")}},
		"overtaken twice":                  {remember: []state.Action{overtaken("A"), overtaken("B")}, planned: 1},
		"superseded before any intent":     {remember: []state.Action{overtaken("A"), overtaken("B"), never(overtaken("C"))}, planned: 1},
		"written thrice":                   {remember: []state.Action{wrote(overtaken("A")), wrote(overtaken("B")), wrote(overtaken("C"))}, planned: 1},
		"no cluster, in a mode that reads": {set: func(p *Planner, _ *remediatetest.View) { p.cfg.Clusters, p.cfg.Mode = nil, policy.Suggest }},
		"a person said no": {remember: []state.Action{waiting(func(a *state.Action) {
			a.State, a.Journal = state.Succeeded, map[string]string{state.CalledOff: "asha"}
		})}},
		"a person said no to another": {remember: []state.Action{waiting(func(a *state.Action) {
			a.State, a.Target.Name, a.Journal = state.Succeeded, "b", map[string]string{state.CalledOff: "asha"}
		})}, planned: 1},
		"it was done": {remember: []state.Action{waiting(func(a *state.Action) {
			a.State, a.Steps = state.Succeeded, []state.ActionStep{{State: state.Intent, At: noon}}
		})}},
		"it is approved": {remember: []state.Action{waiting(func(a *state.Action) { a.State, a.Params["from"] = state.Approved, "128" })}},
		"it is about to be done, for another value": {remember: []state.Action{waiting(func(a *state.Action) { a.State, a.Params["from"] = state.Admitted, "128" })}},
	} {
		p, m := planned(c.remember...)
		if c.set != nil {
			c.set(p, m)
		}
		out := p.Deliver(t.Context(), state.Effect{ID: "plan", Incident: "INC-1"})
		fresh := 0
		for _, in := range out.Inputs {
			if in.Action.From == "" {
				fresh++
			}
		}
		if fresh != c.planned || out.Outcome.Done != (c.planned == 0) || out.Outcome.RetryAt.IsZero() != (c.planned == 0) {
			t.Errorf("%s: %d planned, done %t, again at %s", name, fresh, out.Outcome.Done, out.Outcome.RetryAt)
		}
	}
	// An interrupted plan is made again, and nothing of it is recorded.
	p, _ := planned()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if out := p.Deliver(ctx, state.Effect{ID: "plan", Incident: "INC-1"}); out.Outcome.Done || len(out.Inputs) > 0 ||
		!out.Outcome.RetryAt.Equal(noon.Add(poll)) {
		t.Errorf("%+v", out)
	}
}

// A waiting run ends with its reason. A run that has written, or that is kept, continues.
func TestCallOffEndsOnlyWhatWaits(t *testing.T) {
	for st, ends := range map[state.ActionState]bool{state.Proposed: true, state.AwaitingApproval: true, state.Approved: true,
		state.Admitted: true,
		state.Intent:   false, state.Verifying: false, state.Succeeded: false, state.Denied: false} {
		p, m := planned(waiting(func(a *state.Action) { a.State = st }))
		m.Incidents[0].Status = state.StatusResolved
		out := p.Deliver(t.Context(), state.Effect{ID: "plan", Incident: "INC-1"})
		if (len(out.Inputs) == 1) != ends || ends && out.Inputs[0].Action.Action.State != state.Cancelled {
			t.Errorf("%s: %+v", st, out.Inputs)
		}
	}
	for _, st := range []state.ActionState{state.Intent, state.Applied, state.Verifying, state.RollbackIntent} {
		p, m := planned(waiting(func(a *state.Action) { a.State = st }))
		if got := p.cancelPlans(m.Incidents[0], nil, state.Superseded, "the plan changed"); len(got) != 0 {
			t.Errorf("%s: a run under way was superseded by a plan", st)
		}
	}
	p, m := planned(waiting(nil))
	if got := p.cancelPlans(m.Incidents[0], map[state.ActionID]bool{"ACT-1": true}, state.Superseded, "why"); len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestDryRunRefusedIsNoPlan(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(*runCase, *guard.Scene)
		want state.Decision
		says string
	}{
		"passes":                {func(*runCase, *guard.Scene) {}, state.Allow, "the dry run passed"},
		"only reads":            {func(b *runCase, s *guard.Scene) { s.Rule.Mode, b.p.dry = policy.Suggest, cluster.ErrForbidden }, state.Allow, "only reads"},
		"forbidden":             {func(b *runCase, _ *guard.Scene) { b.p.dry = cluster.ErrForbidden }, state.Deny, "apply the namespaced Role"},
		"blocked":               {func(b *runCase, _ *guard.Scene) { b.p.dry = cluster.ErrBlocked }, state.Hold, "refuses a dry run of the eviction now"},
		"failed":                {func(b *runCase, _ *guard.Scene) { b.p.dry = errAway }, state.Deny, "the dry run failed"},
		"nothing to read":       {func(_ *runCase, s *guard.Scene) { s.Evidence.Samples = nil }, state.Deny, "would show an improvement"},
		"only guardrails":       {func(_ *runCase, s *guard.Scene) { s.Evidence.Samples = nil; each(s, "ttft_p95", 1) }, state.Deny, "would show an improvement"},
		"the value moved on":    {func(_ *runCase, s *guard.Scene) { s.Action.Params["from"] = "64" }, state.Deny, "cannot prepare the write"},
		"the plan has no value": {func(_ *runCase, s *guard.Scene) { s.Action.Params["to"] = "" }, state.Deny, "cannot prepare the write"},
		"the value is unsure":   {func(_ *runCase, s *guard.Scene) { s.Workload.Containers = nil }, state.Deny, "cannot prepare the write"},
	} {
		b, s := newRun(setEngineArgKind, state.Admitted), sceneOf(setEngineArgKind)
		s.Cluster, s.Action.Params = b.p, map[string]string{"arg": "max_num_seqs", "direction": "lower", "from": "100", "to": "50"}
		each(s, "kv_usage", .99)
		each(s, "preemption_rate", 5)
		c.set(b, s)
		if got := answer(t.Context(), s, "verifiability"); got.Decision != c.want || !strings.Contains(got.Reason, c.says) {
			t.Errorf("%s: %s %q", name, got.Decision, got.Reason)
		}
	}
}

func TestIsolationTakesOnlyFreeLabels(t *testing.T) {
	service := func(labels ...string) cluster.Selection {
		sel := map[string]string{}
		for _, l := range labels {
			sel[l] = "1"
		}
		return cluster.Selection{Name: "svc", Selector: sel}
	}
	for name, c := range map[string]struct {
		set  func(*guard.Scene)
		want []string
		says string
	}{
		"one label":                  {func(*guard.Scene) {}, []string{"serving"}, ""},
		"a selector that is odd":     {func(s *guard.Scene) { s.Workload.ComplexSelector = true }, nil, "more than matchLabels"},
		"no service":                 {func(s *guard.Scene) { s.Namespace.Services = nil }, nil, "no Service selects"},
		"a service of other workers": {func(s *guard.Scene) { s.Namespace.Services = append(s.Namespace.Services, service("other")) }, []string{"serving"}, ""},
		"only a service of others":   {func(s *guard.Scene) { s.Namespace.Services = []cluster.Selection{service("other")} }, nil, "no Service selects"},
		"a service of everything":    {func(s *guard.Scene) { s.Namespace.Services = []cluster.Selection{service()} }, nil, "no Service selects"},
		"the budget's label": {func(s *guard.Scene) {
			s.Namespace.Budgets = []cluster.Budget{{Selector: map[string]string{"serving": "1"}}}
		}, nil, "also selects on every label of Service svc"},
		"a controller without labels": {func(s *guard.Scene) { s.Workload.Selector = nil }, []string{"app"}, ""},
		"one label for two services":  {func(s *guard.Scene) { s.Namespace.Services = append(s.Namespace.Services, service("serving", "zone")) }, []string{"serving"}, ""},
		"two labels for two services": {func(s *guard.Scene) { s.Namespace.Services = append(s.Namespace.Services, service("zone")) }, []string{"serving", "zone"}, ""},
		"labels of the controllers": {func(s *guard.Scene) {
			s.Namespace.Services = append(s.Namespace.Services, service("statefulset.kubernetes.io/pod-name"))
			s.Pod.Labels["statefulset.kubernetes.io/pod-name"] = "1"
		}, nil, "also selects on every label of Service svc"},
		"a hash beside a free label": {func(s *guard.Scene) {
			s.Namespace.Services = append(s.Namespace.Services, service("pod-template-hash", "zone"))
			s.Pod.Labels["pod-template-hash"] = "1"
		}, []string{"serving", "zone"}, ""},
		"a value that is not the pod's": {func(s *guard.Scene) { s.Pod.Labels["serving"] = "2" }, nil, "no Service selects"},
	} {
		s := sceneOf(restartWorkerKind)
		s.Pod.Labels = map[string]string{"app": "1", "serving": "1", "zone": "1"}
		s.Workload.Selector = map[string]string{"app": "1"}
		s.Namespace.Services = []cluster.Selection{service("app", "serving")}
		c.set(s)
		got, err := isolation(s)
		if !slices.Equal(got, c.want) || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v %v", name, got, err)
		}
		// The write changes exactly the planned labels.
		s.Action.Params["labels"] = "serving"
		if _, err := (restartWorker{}).Write(s, "op"); (err == nil) != slices.Equal(c.want, []string{"serving"}) {
			t.Errorf("%s: writes %v", name, err)
		}
	}
}

func TestRestartNeedsOneKnownWorker(t *testing.T) {
	f := func(pod string, weight float64) state.Finding { return state.Finding{Pod: pod, Weight: weight} }
	for name, c := range map[string]struct {
		set  func(*state.Incident)
		want string
	}{
		"the only one":               {func(in *state.Incident) { in.Diagnosis.Scope.Pods = []string{"a"} }, "a"},
		"the only one of the alerts": {func(in *state.Incident) { in.Scope.Pods = []string{"a"} }, "a"},
		"none":                       {func(*state.Incident) {}, ""},
		"several":                    {func(in *state.Incident) { in.Diagnosis.Scope.Pods = []string{"a", "b"} }, ""},
		"the finding's of several": {func(in *state.Incident) {
			in.Diagnosis.Scope.Pods, in.Diagnosis.Findings = []string{"a", "b"}, []state.Finding{f("b", 2)}
		}, "b"},
		"a finding against it": {func(in *state.Incident) {
			in.Diagnosis.Scope.Pods, in.Diagnosis.Findings = []string{"a", "b"}, []state.Finding{f("b", -2), f("b", 0)}
		}, ""},
		"a finding of another": {func(in *state.Incident) {
			in.Diagnosis.Scope.Pods, in.Diagnosis.Findings = []string{"a", "b"}, []state.Finding{f("c", 2)}
		}, ""},
		"no pool": {func(in *state.Incident) {
			in.Diagnosis.Scope, in.Scope = state.Scope{Namespace: "llm", Pods: []string{"a"}}, state.Scope{}
		}, ""},
		"no namespace": {func(in *state.Incident) {
			in.Diagnosis.Scope, in.Scope = state.Scope{Pool: "vllm", Pods: []string{"a"}}, state.Scope{}
		}, ""},
	} {
		in := sceneOf(restartWorkerKind).Incident
		c.set(&in)
		got, err := restartWorker{}.target(in, state.Evidence{}, map[string]string{})
		if (err == nil) != (c.want != "") || err == nil && got.Name != c.want {
			t.Errorf("%s: %q %v", name, got.Name, err)
		}
	}
	// It has to be a pod of the pool, by its UID.
	s := sceneOf(restartWorkerKind)
	s.Pod.UID = "pod-9"
	if err := (restartWorker{}).draft(s); err == nil || !strings.Contains(err.Error(), "does not belong to vllm") {
		t.Errorf("%v", err)
	}
}

func TestPoolKindComesFromItsWorkers(t *testing.T) {
	for name, c := range map[string]struct {
		workers []state.Worker
		want    string
	}{
		"nothing known": {nil, "Deployment"},
		"its own":       {[]state.Worker{{Pool: "vllm", PoolKind: "StatefulSet"}}, "StatefulSet"},
		"another's":     {[]state.Worker{{Pool: "b", PoolKind: "StatefulSet"}}, "Deployment"},
		"not told last": {[]state.Worker{{Pool: "vllm", PoolKind: "StatefulSet"}, {Pool: "vllm"}}, "StatefulSet"},
	} {
		if got, err := poolTarget(sceneOf(setEngineArgKind).Incident, state.Evidence{Workers: c.workers}); err != nil ||
			got.Kind != c.want {
			t.Errorf("%s: %s %v", name, got.Kind, err)
		}
	}
}
