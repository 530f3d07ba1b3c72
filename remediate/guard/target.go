package guard

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/state"
)

// targetGuard allows exactly one object: the one that was planned for. It must not be part of a
// larger engine, a worker must still belong to its pool, and its namespace must have opted in.
func targetGuard(_ context.Context, s *Scene) verdict {
	t := s.Action.Target
	uid := s.Workload.UID
	if t.Kind == "Pod" {
		uid = s.Pod.UID
	}
	switch {
	case t.Name == "" || t.UID == "":
		return deny("the plan names no object with a UID")
	case uid != t.UID:
		return deny("%s was replaced since the plan: its UID was %s, and is %s", t, t.UID, cmp.Or(uid, "unknown"))
	case t.Namespace == "kube-system" || t.Namespace == "kube-public" || t.Namespace == "kube-node-lease":
		return deny("namespace %s belongs to Kubernetes, and Paramedic never writes there", t.Namespace)
	case s.Site.SelfNamespace != "" && t.Namespace == s.Site.SelfNamespace:
		return deny("Paramedic itself runs in namespace %s, and never writes there", t.Namespace)
	case t.Kind == "Pod" && s.Pod.Terminating:
		return deny("%s is already terminating", t)
	case t.Kind == "Pod" && s.Pod.Labels["leaderworkerset.sigs.k8s.io/name"] != "":
		return deny("%s belongs to a LeaderWorkerSet: its whole group would restart", t)
	}
	if t.Kind == "Pod" {
		if why := s.Stray(); why != "" {
			return deny("%s, so nothing would replace it", why)
		}
	}
	if why := s.partOfEngine(); why != "" {
		return deny("%s", why)
	}
	if !s.Site.OptedIn(s.Namespace.Labels, s.Rule.Mode) {
		return deny("namespace %s has not opted in: run kubectl label namespace %s %s", t.Namespace, t.Namespace,
			s.Site.ManagedLabel)
	}
	return allow("%s has the planned UID %s", t, t.UID)
}

// Stray returns why the pod is no worker of the pool, or "". A person may take a pod out of its
// controller at any time, to keep it for a look.
func (s *Scene) Stray() string {
	if slices.ContainsFunc(s.Pods, func(p cluster.Pod) bool { return p.UID == s.Pod.UID }) {
		return ""
	}
	return fmt.Sprintf("pod %s does not belong to %s", s.Pod.Name, s.Workload.Name)
}

// evidenceGuard allows if an alert still fires, the verdict is still about the target, and enough
// independent signals, read just now, still support the cause. In mode auto that takes as many as
// the limit signals, and no caution may hold the action back. If a person approves, it takes one
// signal fewer, and at least one.
func evidenceGuard(_ context.Context, s *Scene) verdict {
	switch {
	case !s.Incident.Open():
		return deny("the incident is resolved")
	case s.Incident.ActiveAlerts == 0:
		return deny("no alert of the incident fires now")
	case s.Incident.Cause() != s.Action.Cause:
		return deny("the verdict changed to %s", s.Incident.Cause())
	case s.Action.Target.Kind == "Pod" && !slices.Contains(BrokenPods(s.Incident), s.Action.Target.Name):
		return deny("the verdict is now about %s, and no longer about %s", orNone(BrokenPods(s.Incident)), s.Action.Target.Name)
	}
	var yes, no, blind []string
	seen := map[string]bool{}
	for _, f := range s.Incident.Diagnosis.Findings {
		if f.Weight <= 0 || seen[f.Signal] || fromAlert(f) {
			continue
		}
		if f.Pod != "" && s.Action.Target.Kind == "Pod" {
			f.Pod = s.Action.Target.Name // of several broken workers, only this one would be restarted
		}
		now, still, ok := s.recheck(f)
		switch {
		case !ok:
			blind = append(blind, s.title(f.Signal))
			continue
		case still:
			yes = append(yes, fmt.Sprintf("%s %s", s.title(f.Signal), state.FormatValue(now, f.Unit)))
		default:
			no = append(no, fmt.Sprintf("%s is %s, was %s", s.title(f.Signal), state.FormatValue(now, f.Unit),
				state.FormatValue(f.Value, f.Unit)))
		}
		seen[f.Signal] = true
	}
	if len(no) > len(yes) {
		return deny("the evidence no longer holds: %s", strings.Join(no, ", "))
	}
	need := s.Rule.Signals
	if s.Rule.Mode != policy.Auto {
		need = max(1, need-1)
	}
	if len(yes) < need {
		return deny("%d of %d needed signals still support %s: %s; no longer true: %s; no fresh value: %s",
			len(yes), need, s.Action.Cause, orNone(yes), orNone(no), orNone(blind))
	}
	held, doubts := s.cautions()
	if s.Rule.Mode == policy.Auto && held != nil {
		return *held
	}
	return allow("still true in the last %s: %s%s", state.FormatDuration(s.Rule.EvidenceAge), strings.Join(yes, ", "), doubts)
}

// BrokenPods returns the pods that the verdict is about, or those of the alerts if it names none.
func BrokenPods(in state.Incident) []string {
	if len(in.Diagnosis.Scope.Pods) > 0 {
		return in.Diagnosis.Scope.Pods
	}
	return in.Scope.Pods
}

// cautions returns the answer of the verdict's cautions about this action if no person decides, or
// nil, and what a person has to know about them.
func (s *Scene) cautions() (answer *verdict, doubts string) {
	for _, c := range (playbooks.Remedy{Action: s.Action.Kind, Params: s.Action.Params}).HeldBack(s.Incident.Diagnosis.Story.Cautions) {
		switch {
		case c.Cause != "":
			v := deny("%s is not ruled out, and this makes it worse: a person has to decide", c.Cause.Words())
			return &v, "; not ruled out: " + c.Cause.Words() + ", which this makes worse"
		case c.Until.After(s.Now):
			v := hold(c.Until, "the verdict is young: it has to stand until %s", c.Until.UTC().Format("15:04:05 MST"))
			answer, doubts = &v, "; the verdict is young until "+c.Until.UTC().Format("15:04:05 MST")
		}
	}
	return answer, doubts
}

// recheck reads a finding's signal again. For a finding of the whole pool without a value of the
// pool, it takes the workers' extreme on the finding's side. If that no longer holds, it takes
// their sum, unless the unit is a ratio.
func (s *Scene) recheck(f state.Finding) (now float64, still, ok bool) {
	if v, ok := s.Newest(f.Signal, f.Pod); ok && v.Text == "" {
		return v.Value, holds(f, v.Value), true
	}
	all := s.Of(f.Signal)
	if f.Pod != "" || len(all) == 0 {
		return 0, false, false
	}
	if f.Baseline != nil && f.Value < *f.Baseline || f.Baseline == nil && f.Value <= 0 {
		now = slices.Min(all)
		return now, holds(f, now), true
	}
	now = slices.Max(all)
	if t := sum(all); !holds(f, now) && f.Unit != "ratio" {
		now = t
	}
	return now, holds(f, now), true
}

// holds reports whether a finding is still true. Its value must be on the finding's side of the
// middle between the finding and its baseline. Without a baseline it must be at least half of the
// finding.
func holds(f state.Finding, now float64) bool {
	if f.Baseline != nil && math.Abs(*f.Baseline-f.Value) > 1e-9 {
		middle := (*f.Baseline + f.Value) / 2
		return f.Value > *f.Baseline && now >= middle || f.Value < *f.Baseline && now <= middle
	}
	if f.Value <= 0 {
		return now <= 0
	}
	return now >= f.Value/2
}

// orNone joins a list for a message.
func orNone(l []string) string {
	if len(l) == 0 {
		return "none"
	}
	return strings.Join(l, ", ")
}

// sharedCause denies the restart of one worker if several are failing at once: they share a cause,
// which no restart of one of them removes.
func sharedCause(_ context.Context, s *Scene) verdict {
	if s.Action.Target.Kind != "Pod" {
		return allow("the action treats the whole pool")
	}
	sick := map[string]bool{}
	nearby := func(in *state.Incident) bool {
		return in.Open() && in.Cluster == s.Incident.Cluster && in.Scope.Namespace == s.Action.Target.Namespace
	}
	open := s.Site.View.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents, Match: nearby}).Incidents
	for _, in := range append(open, s.Incident) {
		if !nearby(&in) {
			continue
		}
		for _, p := range append(slices.Clone(in.Scope.Pods), in.Diagnosis.Scope.Pods...) {
			sick[p] = true
		}
	}
	var names []string
	for _, p := range s.Pods {
		if sick[p.Name] || !p.Ready && !p.Terminating {
			names = append(names, p.Name)
		}
	}
	n := len(names)
	if len(s.Pods) == 0 {
		return deny("the pool has no workers")
	}
	if n > 1 && (n >= 3 || n*100 >= 30*len(s.Pods)) {
		return deny("%d of %d workers fail at once (%s): find their shared cause first", n, len(s.Pods),
			strings.Join(names, ", "))
	}
	return allow("%d of %d workers have an incident or are not ready", n, len(s.Pods))
}

// ownership holds during a rollout, while an autoscaler resizes the pool, and after a person's
// edit. It denies a write to a field that another tool sets.
func ownership(_ context.Context, s *Scene) verdict {
	if s.Workload.RollingOut() {
		return hold(s.Now.Add(time.Minute), "a rollout of %s is in progress", s.Workload.Name)
	}
	if why := s.scaling(); why != "" {
		return hold(s.Now.Add(time.Minute), "%s", why)
	}
	if m, ok := s.Workload.HumanEdit(s.Now.Add(-s.Rule.HumanEdit)); ok {
		return hold(m.At.Add(s.Rule.HumanEdit), "%s edited %s at %s: Paramedic changes nothing for %s", m.Name, s.Workload.Name,
			m.At.Format("15:04:05 MST"), state.FormatDuration(s.Rule.HumanEdit))
	}
	if s.Action.Kind != playbooks.ActionSetEngineArg {
		return allow("no rollout now, and no edit by hand within %s", state.FormatDuration(s.Rule.HumanEdit))
	}
	for _, o := range s.Workload.Owners {
		if o.Controller {
			return deny("%s %s controls %s: set %s there", o.Kind, o.Name, s.Workload.Name, s.Action.Change)
		}
	}
	if owner := s.Workload.Declared(); owner != "" {
		return deny("%s and would undo the change: set %s in its source", owner, s.Action.Change)
	}
	if release := s.Workload.HelmRelease(); release != "" {
		if s.Rule.Mode == policy.Auto {
			return deny("%s, and its next upgrade would undo the change: set %s in the release's values", release,
				s.Action.Change)
		}
		return allow("%s: set %s in the release's values as well, or its next upgrade undoes it", release,
			s.Action.Change)
	}
	return allow("no rollout now, no edit by hand within %s, and no other tool sets the args",
		state.FormatDuration(s.Rule.HumanEdit))
}

// scaling returns why the pool may be changing its size, or "". An autoscaler that does not report
// its wanted replicas may be about to change them.
func (s *Scene) scaling() string {
	for _, a := range s.Namespace.Autoscalers {
		switch {
		case a.Target != s.Workload.Ref:
		case !a.Known:
			return fmt.Sprintf("%s %s sets the replicas of %s, but does not report how many it wants", a.Kind, a.Name,
				s.Workload.Name)
		case a.Desired != a.Current || a.Desired != s.Workload.Replicas:
			return fmt.Sprintf("%s %s is scaling %s: it wants %d replicas, last saw %d, and %d are set", a.Kind, a.Name,
				s.Workload.Name, a.Desired, a.Current, s.Workload.Replicas)
		}
	}
	return ""
}
