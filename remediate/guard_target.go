package remediate

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/playbooks"
	"paramedic/state"
)

// targetGuard allows exactly one object: the one that was planned for, no part of a larger engine,
// in a namespace that opted in.
func targetGuard(_ context.Context, s *scene) verdict {
	t := s.act.Target
	uid := s.w.UID
	if t.Kind == "Pod" {
		uid = s.pod.UID
	}
	switch {
	case t.Name == "" || t.UID == "":
		return deny("the target is not one known object")
	case uid != t.UID:
		return deny("%s is not the object that was planned for", t)
	case t.Namespace == "kube-system" || t.Namespace == "kube-public" || t.Namespace == "kube-node-lease":
		return deny("namespace %s belongs to the cluster itself", t.Namespace)
	case s.site.SelfNamespace != "" && t.Namespace == s.site.SelfNamespace:
		return deny("namespace %s is the bot's own", t.Namespace)
	case t.Kind == "Pod" && s.pod.Terminating:
		return deny("%s is terminating already", t)
	case t.Kind == "Pod" && s.pod.Labels["leaderworkerset.sigs.k8s.io/name"] != "":
		return deny("%s is one of a gang: its whole group would restart", t)
	}
	if why := s.entire(); why != "" {
		return deny("%s", why)
	}
	if !s.site.OptedIn(s.ns.Labels, s.rule.mode) {
		return deny("namespace %s has not opted in: kubectl label namespace %s %s", t.Namespace, t.Namespace, s.site.ManagedLabel)
	}
	return allow("%s, uid %s", t, t.UID)
}

// evidenceGuard: the trouble is still there, and enough independent signals, read just now, still
// speak for the cause: as many as the policy asks where nobody is asked, one fewer, but one at
// least, where a person has judged the rest.
func evidenceGuard(_ context.Context, s *scene) verdict {
	switch {
	case !s.in.Open():
		return deny("the incident is resolved")
	case s.in.ActiveAlerts == 0:
		return deny("no alert of the incident fires any more")
	case s.in.Cause() != s.act.Cause:
		return deny("the verdict is now %s", s.in.Cause())
	}
	var yes, no, blind []string
	seen := map[string]bool{}
	for _, f := range s.in.Diagnosis.Findings {
		if f.Weight <= 0 || seen[f.Signal] || fromAlert(f) {
			continue
		}
		now, still, ok := s.recheck(f)
		switch {
		case !ok:
			blind = append(blind, f.Signal)
			continue
		case still:
			yes = append(yes, fmt.Sprintf("%s %s", f.Signal, state.FormatValue(now, f.Unit)))
		default:
			no = append(no, fmt.Sprintf("%s is %s, was %s", f.Signal, state.FormatValue(now, f.Unit), state.FormatValue(f.Value, f.Unit)))
		}
		seen[f.Signal] = true
	}
	if len(no) > len(yes) {
		return deny("no longer true: %s", strings.Join(no, ", "))
	}
	need := s.rule.Signals
	if s.rule.mode != Auto {
		need = max(1, need-1)
	}
	if len(yes) < need {
		return deny("only %d signals still speak for %s, it takes %d: %s; no longer true: %s; not fresh: %s", len(yes), s.act.Cause, need,
			orNone(yes), orNone(no), orNone(blind))
	}
	return allow("still true within %s: %s", state.FormatDuration(s.rule.EvidenceAge), strings.Join(yes, ", "))
}

// recheck reads a finding's signal again. A finding of the pool as a whole, where no value of the
// whole is given, is judged by the workers' extreme on its side, or by their sum where the unit can
// be summed.
func (s *scene) recheck(f state.Finding) (now float64, still, ok bool) {
	if v, ok := s.newest(f.Signal, f.Pod); ok && v.Text == "" {
		return v.Value, holds(f, v.Value), true
	}
	all := s.of(f.Signal)
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

// holds says whether a finding is still true: the value is on the finding's side of the middle
// between it and its baseline, or, where there is none, at least half of it.
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

func orNone(l []string) string {
	if len(l) == 0 {
		return "none"
	}
	return strings.Join(l, ", ")
}

// sharedCause: workers that fail together have a cause in common, which no restart of one of them
// heals.
func sharedCause(_ context.Context, s *scene) verdict {
	if s.act.Target.Kind != "Pod" {
		return allow("the action is for the pool as a whole")
	}
	sick := map[string]bool{}
	near := func(in *state.Incident) bool {
		return in.Open() && in.Cluster == s.in.Cluster && in.Scope.Namespace == s.act.Target.Namespace
	}
	for _, in := range append(s.site.View.ListIncidents(state.IncidentQuery{Which: state.OpenIncidents, Match: near}).Incidents, s.in) {
		if !near(&in) {
			continue
		}
		for _, p := range append(slices.Clone(in.Scope.Pods), in.Diagnosis.Scope.Pods...) {
			sick[p] = true
		}
	}
	var names []string
	for _, p := range s.pods {
		if sick[p.Name] || !p.Ready && !p.Terminating {
			names = append(names, p.Name)
		}
	}
	n := len(names)
	if len(s.pods) == 0 {
		return deny("the pool has no workers")
	}
	if n > 1 && (n >= 3 || n*100 >= 30*len(s.pods)) {
		return deny("%d of %d workers are in trouble at once (%s): look for what they share", n, len(s.pods), strings.Join(names, ", "))
	}
	return allow("%d of %d workers are in trouble", n, len(s.pods))
}

// ownership holds during a rollout, while an autoscaler resizes the pool, and after a person's
// edit. It denies a write to a field that something else sets.
func ownership(_ context.Context, s *scene) verdict {
	if s.w.RollingOut() {
		return hold(s.now.Add(time.Minute), "a rollout of %s is in progress", s.w.Name)
	}
	if why := s.scaling(); why != "" {
		return hold(s.now.Add(time.Minute), "%s", why)
	}
	if m, ok := s.w.HumanEdit(s.now.Add(-s.rule.HumanEdit)); ok {
		return hold(m.At.Add(s.rule.HumanEdit), "%s changed %s at %s: hands off for %s", m.Name, s.w.Name, m.At.Format("15:04:05 MST"), state.FormatDuration(s.rule.HumanEdit))
	}
	if s.act.Kind != playbooks.ActionSetEngineArg {
		return allow("no rollout, and no edit by hand within %s", state.FormatDuration(s.rule.HumanEdit))
	}
	for _, o := range s.w.Owners {
		if o.Controller {
			return deny("%s is made by %s %s: set %s there", s.w.Name, o.Kind, o.Name, s.act.Change)
		}
	}
	if owner := s.w.Declared(); owner != "" {
		return deny("%s, which would undo the change: set %s in its source", owner, s.act.Change)
	}
	if release := s.w.HelmRelease(); release != "" {
		if s.rule.mode == Auto {
			return deny("%s: its next upgrade would undo the change: set %s in the release's values", release, s.act.Change)
		}
		return allow("%s: set %s in the release's values as well, or its next upgrade undoes it", release, s.act.Change)
	}
	return allow("no rollout, no edit by hand within %s, and nothing else sets the args", state.FormatDuration(s.rule.HumanEdit))
}

// scaling returns why the pool may be changing its size, or "". An autoscaler that does not report
// what it wants may be about to.
func (s *scene) scaling() string {
	for _, a := range s.ns.Autoscalers {
		switch {
		case a.Target != s.w.Ref:
		case !a.Known:
			return fmt.Sprintf("%s %s sets the replicas of %s, and does not report how many it wants", a.Kind, a.Name, s.w.Name)
		case a.Desired != a.Current || a.Desired != s.w.Replicas:
			return fmt.Sprintf("%s %s is scaling %s: it wants %d replicas, saw %d, and %d are set", a.Kind, a.Name, s.w.Name, a.Desired, a.Current, s.w.Replicas)
		}
	}
	return ""
}
