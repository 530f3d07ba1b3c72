package state

import (
	"slices"
	"time"
)

// Count adds an alert's new episode to the incident's symptoms and scope, and reports whether its
// symptom is new. If counted is set, an older episode of the alert already counts as active. Count
// does not update the incident's severity and status.
func (in *Incident) Count(rec *AlertRecord, counted bool, now time.Time) bool {
	s := rec.Sign
	i := in.symptomAt(s.Symptom)
	fresh := i < 0
	if fresh {
		i = len(in.Symptoms)
		in.Symptoms = append(in.Symptoms, SymptomCount{Symptom: s.Symptom})
	}
	c := &in.Symptoms[i]
	in.AlertCount++
	c.Alerts++
	c.Last = now
	c.Learn(rec)
	if !counted {
		in.ActiveAlerts++
		c.Active++
	}
	if rec.Alert.StartsAt.Before(in.StartedAt) && !rec.Alert.StartsAt.IsZero() {
		in.StartedAt = rec.Alert.StartsAt
	}
	widen(&in.Scope, s.Entity)
	return fresh
}

// Learn adds an alert's rule, entity, severity and hints to its symptom.
func (c *SymptomCount) Learn(rec *AlertRecord) {
	s := rec.Sign
	if s.Severity.Rank() > c.Severity.Rank() {
		c.Severity = s.Severity
	}
	if c.First.IsZero() || rec.Alert.StartsAt.Before(c.First) {
		c.First = rec.Alert.StartsAt
	}
	c.Rules = addTo(c.Rules, rec.Alert.Name(), 16)
	if len(c.Entities) < 32 && !slices.Contains(c.Entities, s.Entity) {
		c.Entities = append(c.Entities, s.Entity)
	}
	c.hint(s.Hints)
}

// hint adds the hints that the symptom does not have yet.
func (c *SymptomCount) hint(hints map[string]string) {
	for k, v := range hints {
		if c.Hints[k] == "" {
			if c.Hints == nil {
				c.Hints = map[string]string{}
			}
			c.Hints[k] = v
		}
	}
}

func addTo(list []string, s string, most int) []string {
	if s == "" || len(list) >= most || slices.Contains(list, s) {
		return list
	}
	return append(list, s)
}

// widen adds an entity to a scope. The scope keeps its own names if they differ; the verdict's
// scope replaces them anyway.
func widen(s *Scope, e Entity) {
	for _, f := range []struct {
		to   *string
		from string
	}{{&s.Cluster, e.Cluster}, {&s.Namespace, e.Namespace}, {&s.Model, e.Model}, {&s.Pool, e.Pool}} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	s.Pods = addTo(s.Pods, e.Pod, 64)
	s.Nodes = addTo(s.Nodes, e.Node, 64)
	s.GPUs = addTo(s.GPUs, e.GPU, 64)
}

func (in *Incident) symptomAt(s Symptom) int {
	return slices.IndexFunc(in.Symptoms, func(c SymptomCount) bool { return c.Symptom == s })
}

// MergeSymptom adds the counts and facts of another incident's symptom.
func (in *Incident) MergeSymptom(s SymptomCount) {
	i := in.symptomAt(s.Symptom)
	if i < 0 {
		in.Symptoms = append(in.Symptoms, s.clone())
		return
	}
	c := &in.Symptoms[i]
	c.Alerts += s.Alerts
	c.Active += s.Active
	if s.First.Before(c.First) {
		c.First = s.First
	}
	if s.Last.After(c.Last) {
		c.Last = s.Last
	}
	if s.Severity.Rank() > c.Severity.Rank() {
		c.Severity = s.Severity
	}
	for _, rule := range s.Rules {
		c.Rules = addTo(c.Rules, rule, 16)
	}
	for _, e := range s.Entities {
		if len(c.Entities) < 32 && !slices.Contains(c.Entities, e) {
			c.Entities = append(c.Entities, e)
		}
	}
	c.hint(s.Hints)
}

// Symptom returns the incident's count of a symptom, or nil.
func (in *Incident) Symptom(s Symptom) *SymptomCount {
	if i := in.symptomAt(s); i >= 0 {
		return &in.Symptoms[i]
	}
	return nil
}
