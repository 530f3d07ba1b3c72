package statetest

import (
	"slices"
	"time"

	"paramedic/state"
)

// A Triage holds no rules. An alert's sign is in its labels symptom, severity, pool, pod and node.
// Alerts of one pool or one node are one incident. The verdict is the text of the last sample.
type Triage struct{}

// Classify returns the sign that the labels give.
func (Triage) Classify(a state.Alert, cluster string) state.Sign {
	s := state.Sign{Symptom: state.Symptom(a.Labels["symptom"]), Severity: state.Severity(a.Labels["severity"]),
		By: "name",
		Entity: state.Entity{Cluster: cluster, Namespace: "llm", Pool: a.Labels["pool"], Pod: a.Labels["pod"],
			Node: a.Labels["node"]}}
	if s.Symptom == "" {
		s.Symptom = state.Unclassified
	}
	return s
}

// Correlate returns the first open incident of the sign's pool or node.
func (Triage) Correlate(s state.Sign, _ []state.Worker, open []*state.Incident, _ time.Time) (state.IncidentID, bool) {
	for _, in := range open {
		if in.Scope.Pool == s.Entity.Pool || slices.Contains(in.Scope.Nodes, s.Entity.Node) && s.Entity.Node != "" {
			return in.ID, true
		}
	}
	return "", false
}

// Diagnose returns the last sample's text as the cause, and the samples' pods and node as the
// scope.
func (Triage) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	d := state.Diagnosis{Cause: state.Unknown, At: now, Title: "no idea", Scope: in.Scope}
	d.Scope.Pods = nil
	for _, s := range ev.Samples {
		d.Cause, d.Confidence, d.Title = state.Cause(s.Text), 0.9, s.Text+" on "+in.Scope.Pool
		d.Score += s.Value
		if s.Entity.Pod != "" {
			d.Scope.Pods = append(d.Scope.Pods, s.Entity.Pod)
		}
		if s.Entity.Node != "" {
			d.Scope.Nodes = []string{s.Entity.Node}
		}
	}
	return d
}

// SplitOff returns no alerts: an incident is never split.
func (Triage) SplitOff(*state.Incident, func() []*state.AlertRecord, *state.Evidence) []*state.AlertRecord {
	return nil
}

// Absorbs reports whether root has the cause gpu_fault and other has none.
func (Triage) Absorbs(root, other *state.Incident) bool {
	return root.Cause() == "gpu_fault" && other.Cause() == state.Unknown
}

// A Routing reports critical incidents to all channels, others to Slack and the console, and benign
// alerts to the console.
type Routing struct{}

// Channels returns the channels of an incident.
func (Routing) Channels(in *state.Incident) []state.Channel {
	switch {
	case in.Cause() == state.BenignAlert:
		return []state.Channel{state.ChannelConsole}
	case in.Severity == state.Critical:
		return []state.Channel{state.ChannelPagerDuty, state.ChannelSlack, state.ChannelConsole}
	}
	return []state.Channel{state.ChannelSlack, state.ChannelConsole}
}
