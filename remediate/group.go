package remediate

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/state"
)

// Tensor and pipeline parallelism spread one engine over the pods of a group. Without one of them
// the others wait for it, or fail. No action restarts a group as a whole: its pods are refused.

// groupOf returns why the pod is not an engine by itself, as the evidence shows it, or "".
func groupOf(ev state.Evidence, namespace, pod string) string {
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
		return fmt.Sprintf("pod %s is one of parallel group %s, whose pods run one engine: restart them together by hand (%s)", pod, w.Group, strings.Join(all, ", "))
	}
	return ""
}

// spans returns why the pod template is not an engine by itself, or "". The evidence knows the
// groups that controllers make; where people make them of plain workloads, only the flag tells.
func spans(containers []Container) string {
	for _, c := range containers {
		switch p, ok, err := locateIn(c, "nnodes"); {
		case err != nil:
			return fmt.Sprintf("whether the engine runs on this pod alone is not known: %v", err)
		case ok && p.value > 1:
			return fmt.Sprintf("its engine runs over several pods (--nnodes %d): restart them together by hand", p.value)
		}
	}
	return ""
}

// entire returns why the action would take a part of an engine, or "" where it is known that it
// does not.
func (s *scene) entire() string {
	seen, _ := s.site.View.Evidence(s.in.ID)
	if why := spans(s.w.Containers); why != "" {
		return why
	}
	pods := s.pods
	if s.act.Target.Kind == "Pod" {
		pods = []Pod{s.pod}
	}
	for _, p := range pods {
		for _, ev := range []state.Evidence{s.ev, seen} {
			if why := groupOf(ev, p.Namespace, p.Name); why != "" {
				return why
			}
		}
	}
	if s.act.Target.Kind != "Pod" || listed(s.ev, s.pod) || listed(seen, s.pod) {
		return ""
	}
	return fmt.Sprintf("whether pod %s runs an engine by itself is not known: Kubernetes' part of the evidence lacks it", s.pod.Name)
}

// listed reports whether the evidence has this very pod from Kubernetes. A worker that was guessed
// from metrics has no UID, and its group may be unknown.
func listed(ev state.Evidence, pod Pod) bool {
	return slices.ContainsFunc(ev.Workers, func(w state.Worker) bool { return w.UID != "" && w.UID == pod.UID })
}
