// Package remediatetest holds the fixture that the tests of guards and of actions share.
package remediatetest

import (
	"fmt"
	"slices"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
	"paramedic/state/statetest"
)

// Noon is the time of every case, on a Monday.
var Noon = time.Date(2026, 3, 2, 12, 0, 0, 0, time.UTC)

// A View holds incidents, runs, one evidence and a halt.
type View struct {
	state.View
	Incidents []state.Incident
	Seen      state.Evidence
	Halt      *state.Halt
	Recorded  *state.Action // the run as it is on record
	Actions   []state.Action
}

// Evidence returns Seen.
func (m *View) Evidence(state.IncidentID) (state.Evidence, bool) { return m.Seen, true }

// ListIncidents lists the incidents that the query asks for.
func (m *View) ListIncidents(q state.IncidentQuery) state.IncidentPage {
	return statetest.ListIncidents(m.Incidents, q)
}

// Incident returns the incident with the ID.
func (m *View) Incident(id state.IncidentID) (state.Incident, bool) {
	for _, in := range m.Incidents {
		if in.ID == id {
			return in, true
		}
	}
	return state.Incident{}, false
}

// Halted returns the halt, if there is one.
func (m *View) Halted(string) (state.Halt, bool) {
	if m.Halt == nil {
		return state.Halt{}, false
	}
	return *m.Halt, true
}

// BegunActions returns the runs that began.
func (m *View) BegunActions() []state.Action {
	return slices.DeleteFunc(slices.Clone(m.Actions), func(a state.Action) bool { return !a.Begun() })
}

// ActionsOf returns the incident's runs.
func (m *View) ActionsOf(id state.IncidentID) []state.Action {
	return slices.DeleteFunc(slices.Clone(m.Actions), func(a state.Action) bool { return a.Incident != id })
}

// Action returns the recorded run. It ignores the ID.
func (m *View) Action(state.ActionID) (state.Action, bool) {
	if m.Recorded == nil {
		return state.Action{}, false
	}
	return *m.Recorded, true
}

// A Case holds the parts of a scene.
type Case struct {
	Rules     policy.Rules
	View      *View
	Incident  state.Incident
	Action    *state.Action
	Namespace cluster.Namespace
	Workload  cluster.Workload
	Pods      []cluster.Pod
	Pod       cluster.Pod // the one to restart
	Evidence  state.Evidence
}

// NewCase returns a case that every guard allows: a failing pool of five ready workers. For
// restart_worker the first worker is the target, otherwise the whole pool.
func NewCase(kind string) Case {
	sc := state.Scope{Cluster: "prod", Namespace: "llm", Pool: "vllm"}
	in := state.Incident{
		ID: "INC-1", Cluster: "prod", Status: state.StatusOpen, Scope: sc, ActiveAlerts: 1,
		StartedAt: Noon.Add(-10 * time.Minute), OpenedAt: Noon.Add(-9 * time.Minute),
		Diagnosis: state.Diagnosis{Cause: "kv_leak", Scope: sc},
	}
	c := Case{View: &View{}, Incident: in}
	c.Rules = policy.Rules{
		Mode: policy.Auto, ManagedLabel: "paramedic.dev/managed=true", Timing: policy.Timing{}.OrDefaults(),
	}
	c.Action = &state.Action{
		ID: "ACT-5", Incident: in.ID, Cause: "kv_leak", Kind: kind, Mode: "auto", State: state.Proposed,
		Params: map[string]string{},
		Target: state.Target{
			Cluster: "prod", Namespace: "llm", Kind: "Deployment", Name: "vllm", UID: "dep-1", Pool: "vllm",
		},
	}
	c.Namespace = cluster.Namespace{Name: "llm", Labels: map[string]string{"paramedic.dev/managed": "true"}}
	c.Workload = cluster.Workload{
		Ref: cluster.Ref{Namespace: "llm", Kind: "Deployment", Name: "vllm"}, UID: "dep-1",
		Created: Noon.Add(-240 * time.Hour), Replicas: 5, Current: 5, Updated: 5, Ready: 5, MaxSurge: 1,
		Containers: []cluster.Container{{Name: "vllm", Image: "vllm", Args: []string{"--max-num-seqs=100"}}},
	}
	for i := range 5 {
		c.Pods = append(c.Pods, cluster.Pod{Namespace: "llm", Name: fmt.Sprintf("vllm-%d", i),
			UID: fmt.Sprintf("pod-%d", i), Ready: true, Labels: map[string]string{"app": "vllm"}})
	}
	for _, p := range c.Pods {
		c.Evidence.Workers = append(c.Evidence.Workers,
			state.Worker{Namespace: "llm", Pod: p.Name, UID: p.UID, Pool: "vllm"})
	}
	if kind == playbooks.ActionRestartWorker {
		c.Pod = c.Pods[0]
		c.Action.Target.Kind, c.Action.Target.Name, c.Action.Target.UID = "Pod", c.Pod.Name, c.Pod.UID
		c.Action.Params["pool_kind"] = "Deployment"
	}
	return c
}

// AddSample adds a value that a worker of the pool reports.
func AddSample(ev *state.Evidence, signal, pod string, value float64, at time.Time) {
	ev.Samples = append(ev.Samples, state.Sample{Signal: signal, Value: value, At: at,
		Entity: state.Entity{Cluster: "prod", Namespace: "llm", Pool: "vllm", Pod: pod}})
}
