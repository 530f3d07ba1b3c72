package rules

import (
	"slices"
	"time"

	"paramedic/state"
)

// attach adds what an alert says to an incident, as the fold does.
func attach(in *state.Incident, s state.Sign, rule string, at time.Time) {
	i := slices.IndexFunc(in.Symptoms, func(c state.SymptomCount) bool { return c.Symptom == s.Symptom })
	if i < 0 {
		in.Symptoms = append(in.Symptoms, state.SymptomCount{Symptom: s.Symptom, Severity: s.Severity, First: at, Hints: map[string]string{}})
		i = len(in.Symptoms) - 1
	}
	sc := &in.Symptoms[i]
	sc.Alerts++
	sc.Active++
	sc.Last = at
	in.AlertCount++
	in.ActiveAlerts++
	sc.Rules = appendNew(sc.Rules, rule)
	if !slices.Contains(sc.Entities, s.Entity) {
		sc.Entities = append(sc.Entities, s.Entity)
	}
	addHints(sc.Hints, s.Hints)
	if s.Severity.Rank() > in.Severity.Rank() {
		in.Severity = s.Severity
	}
	in.Scope.Namespace, in.Scope.Model = or(in.Scope.Namespace, s.Entity.Namespace), or(in.Scope.Model, s.Entity.Model)
	in.Scope.Pool = or(in.Scope.Pool, s.Entity.Pool)
	in.Scope.Pods = appendNew(in.Scope.Pods, s.Entity.Pod)
	in.Scope.Nodes = appendNew(in.Scope.Nodes, s.Entity.Node)
	in.Scope.GPUs = appendNew(in.Scope.GPUs, s.Entity.GPU)
}

func appendNew(list []string, s string) []string {
	if s == "" || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}
