package remediate

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/state"
	"paramedic/state/statetest"
)

var noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// memory is a view that holds incidents and a halt.
type memory struct {
	state.View
	incidents []state.Incident
	evidence  state.Evidence
	halt      *state.Halt
	recorded  *state.Action // the run as it is on record
	actions   []state.Action
}

func (m *memory) Evidence(state.IncidentID) (state.Evidence, bool) { return m.evidence, true }

func (m *memory) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	return statetest.ListIncidents(m.incidents, q)
}

func (m *memory) Incident(id state.IncidentID) (state.Incident, bool) {
	for _, in := range m.incidents {
		if in.ID == id {
			return in, true
		}
	}
	return state.Incident{}, false
}

func (m *memory) Halted(string) (state.Halt, bool) {
	if m.halt == nil {
		return state.Halt{}, false
	}
	return *m.halt, true
}

// calm returns a scene of a sick pool of five ready workers, of which the first is to be restarted,
// or all of which are to be rolled: every guard that it is made for allows.
func calm(kind string) *scene {
	sc := state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm"}
	in := state.Incident{ID: "INC-1", Cluster: "prod", Status: state.StatusOpen, Scope: sc, ActiveAlerts: 1, StartedAt: noon.Add(-10 * time.Minute),
		OpenedAt: noon.Add(-9 * time.Minute), Diagnosis: state.Diagnosis{Cause: "kv_leak", Scope: sc}}
	s := &scene{site: &Site{Rules: Rules{Mode: Auto, ManagedLabel: "paramedic.dev/managed=true", Timing: Timing{}.OrDefaults()}, View: &memory{}}, now: noon, in: in}
	s.act = &state.Action{ID: "ACT-5", Incident: in.ID, Cause: "kv_leak", Kind: kind, Mode: "auto", State: state.Proposed, Params: map[string]string{},
		Target: state.Target{Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "vllm", UID: "dep-1", Pool: "vllm"}}
	s.ns = Namespace{Name: "llm", Labels: map[string]string{"paramedic.dev/managed": "true"}}
	s.w = Workload{Ref: Ref{"llm", "Deployment", "vllm"}, UID: "dep-1", Created: noon.Add(-240 * time.Hour), Replicas: 5, Current: 5, Updated: 5, Ready: 5,
		MaxSurge: 1, Containers: []Container{{Name: "vllm", Image: "vllm", Args: []string{"--max-num-seqs=100"}}}}
	for i := range 5 {
		s.pods = append(s.pods, Pod{Namespace: "llm", Name: fmt.Sprintf("vllm-%d", i), UID: fmt.Sprintf("pod-%d", i), Ready: true, Labels: map[string]string{"app": "vllm"}})
	}
	for _, p := range s.pods {
		s.ev.Workers = append(s.ev.Workers, state.Worker{Namespace: "llm", Pod: p.Name, UID: p.UID, Pool: "vllm"})
	}
	if kind == playbooks.ActionRestartWorker {
		s.pod = s.pods[0]
		s.act.Target.Kind, s.act.Target.Name, s.act.Target.UID = "Pod", s.pod.Name, s.pod.UID
		s.act.Params["pool_kind"] = "Deployment"
	}
	s.kind, _ = actionOf(kind)
	s.rule = s.site.For(s.act.Cause, kind, s.act.Target)
	return s
}

// sample adds a value that a worker reports.
func (s *scene) sample(signal, pod string, value float64, age time.Duration) {
	s.ev.Samples = append(s.ev.Samples, state.Sample{Signal: signal, Value: value, At: s.now.Add(-age),
		Entity: state.Entity{Cluster: "prod", Namespace: "llm", Pool: "vllm", Pod: pod}})
}

// each adds a value that every worker of the pool reports now.
func (s *scene) each(signal string, value float64) {
	for _, p := range s.pods {
		s.sample(signal, p.Name, value, 0)
	}
}

// earlier adds a run of the same kind on the same pool, in another incident, that recorded its
// intent and came to its state so long ago.
func (s *scene) earlier(id state.ActionID, st state.ActionState, intent, last time.Duration) *state.Action {
	a := state.Action{ID: id, Incident: "INC-0", Cause: s.act.Cause, Kind: s.act.Kind, Target: s.act.Target, State: st, Change: "an earlier change",
		Journal: map[string]string{}, Steps: []state.ActionStep{{State: state.Proposed, At: s.now.Add(-intent)}, {State: state.Intent, At: s.now.Add(-intent)}}}
	if st != state.Intent {
		a.Steps = append(a.Steps, state.ActionStep{State: st, At: s.now.Add(-last)})
	}
	s.actions = append(s.actions, a)
	return &s.actions[len(s.actions)-1]
}

// A ruling is a case of a guard: what is different from the calm scene, and what the guard then
// answers.
type ruling struct {
	name string
	kind string // empty: set_engine_arg
	set  func(*scene)
	want state.Decision
	says string
	free time.Duration // of a hold: when to ask again, from now on
}

func runRulings(t *testing.T, guard func(context.Context, *scene) verdict, cases []ruling) {
	t.Helper()
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := calm(cmp.Or(c.kind, setEngineArgKind))
			if c.set != nil {
				c.set(s)
			}
			got := guard(t.Context(), s)
			if got.decision != c.want || !strings.Contains(got.reason, c.says) {
				t.Errorf("%s: %q, want %s with %q", got.decision, got.reason, c.want, c.says)
			}
			if c.free != 0 && !got.retryAt.Equal(noon.Add(c.free)) {
				t.Errorf("asks again at %s", got.retryAt)
			}
		})
	}
}
