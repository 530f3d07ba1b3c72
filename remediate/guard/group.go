package guard

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/remediate/cluster"
	"paramedic/remediate/engineflag"
	"paramedic/state"
)

// Tensor and pipeline parallelism spread one engine over the pods of a group. If one of them is
// missing, the others wait for it or fail. No action restarts a group as a whole, so its pods are
// refused.

// GroupOf returns why the pod is not an engine by itself, going by the evidence, or "".
func GroupOf(ev state.Evidence, namespace, pod string) string {
	for _, w := range ev.Workers {
		if w.Group == "" || w.Pod != pod || w.Namespace != namespace {
			continue
		}
		var all []string
		for _, o := range ev.Workers {
			if o.Namespace == w.Namespace && o.EngineKey() == w.EngineKey() {
				all = append(all, o.Pod)
			}
		}
		slices.Sort(all)
		return fmt.Sprintf("pod %s belongs to parallel group %s, and its pods run one engine: "+
			"restart them together by hand (%s)", pod, w.Group, strings.Join(all, ", "))
	}
	return ""
}

// multiPod returns why the pod template is not an engine by itself, or "". The evidence knows the
// groups that controllers make. If people build a group of plain workloads, only the flag shows it.
func multiPod(containers []cluster.Container) string {
	for _, c := range containers {
		switch p, ok, err := engineflag.LocateIn(c, "nnodes"); {
		case err != nil:
			return fmt.Sprintf("it is unknown whether the engine runs in this pod alone: %v", err)
		case ok && p.Value > 1:
			return fmt.Sprintf("its engine runs in several pods (--nnodes %d): restart them together by hand",
				p.Value)
		}
	}
	return ""
}

// partOfEngine returns why the action would take a part of an engine, or "" if it is known that it
// does not.
func (s *Scene) partOfEngine() string {
	seen, _ := s.Site.View.Evidence(s.Incident.ID)
	if why := multiPod(s.Workload.Containers); why != "" {
		return why
	}
	pods := s.Pods
	if s.Action.Target.Kind == "Pod" {
		pods = []cluster.Pod{s.Pod}
	}
	for _, p := range pods {
		for _, ev := range []state.Evidence{s.Evidence, seen} {
			if why := GroupOf(ev, p.Namespace, p.Name); why != "" {
				return why
			}
		}
	}
	if s.Action.Target.Kind != "Pod" || inEvidence(s.Evidence, s.Pod) || inEvidence(seen, s.Pod) {
		return ""
	}
	return fmt.Sprintf("it is unknown whether pod %s runs an engine by itself: the evidence from Kubernetes does not list it",
		s.Pod.Name)
}

// inEvidence reports whether the evidence has this very pod from Kubernetes. A worker that was
// guessed from metrics has no UID, and its group may be unknown.
func inEvidence(ev state.Evidence, pod cluster.Pod) bool {
	return slices.ContainsFunc(ev.Workers, func(w state.Worker) bool { return w.UID != "" && w.UID == pod.UID })
}
