package guard

import (
	"cmp"
	"strings"
	"testing"
	"time"

	"paramedic/playbooks"
	"paramedic/remediate/cluster"
	"paramedic/remediate/policy"
	"paramedic/remediate/remediatetest"
	"paramedic/state"
)

func TestTargetIsTheObjectThatWasPlanned(t *testing.T) {
	target := func(change func(*state.Target)) func(*Scene) {
		return func(s *Scene) { change(&s.Action.Target) }
	}
	labels := func(l map[string]string, m policy.Mode) func(*Scene) {
		return func(s *Scene) { s.Namespace.Labels, s.Rule.Mode = l, m }
	}
	wanted := func(label string, set func(*Scene)) func(*Scene) {
		return func(s *Scene) { s.Site.ManagedLabel = label; set(s) }
	}
	pod := func(change func(*cluster.Pod)) func(*Scene) { return func(s *Scene) { change(&s.Pod) } }
	runGuardCases(t, targetGuard, []guardCase{
		{name: "a workload", want: state.Allow, says: "UID dep-1"},
		{name: "a worker", kind: playbooks.ActionRestartWorker, want: state.Allow, says: "UID pod-0"},
		{name: "no name", set: target(func(t *state.Target) { t.Name = "" }), want: state.Deny, says: "no object with a UID"},
		{name: "no UID", set: func(s *Scene) { s.Action.Target.UID, s.Workload.UID = "", "" }, want: state.Deny, says: "no object with a UID"},
		{name: "another workload of its name", set: func(s *Scene) { s.Workload.UID = "dep-2" }, want: state.Deny, says: "was replaced since the plan"},
		{name: "another worker of its name", kind: playbooks.ActionRestartWorker, set: pod(func(p *cluster.Pod) { p.UID = "pod-9" }), want: state.Deny, says: "was replaced since the plan"},
		{name: "a worker that was taken out of its pool", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Pods = s.Pods[1:] }, want: state.Deny,
			says: "does not belong to vllm"},
		{name: "kube-system", set: target(func(t *state.Target) { t.Namespace = "kube-system" }), want: state.Deny, says: "belongs to Kubernetes"},
		{name: "kube-public", set: target(func(t *state.Target) { t.Namespace = "kube-public" }), want: state.Deny, says: "belongs to Kubernetes"},
		{name: "kube-node-lease", set: target(func(t *state.Target) { t.Namespace = "kube-node-lease" }), want: state.Deny, says: "belongs to Kubernetes"},
		{name: "where the bot runs", set: func(s *Scene) { s.Site.SelfNamespace = "llm" }, want: state.Deny, says: "Paramedic itself runs in namespace llm"},
		{name: "where the bot does not run", set: func(s *Scene) { s.Site.SelfNamespace = "paramedic" }, want: state.Allow},
		{name: "a worker that terminates", kind: playbooks.ActionRestartWorker, set: pod(func(p *cluster.Pod) { p.Terminating = true }), want: state.Deny, says: "already terminating"},
		{name: "a worker that Kubernetes' evidence lacks", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Evidence.Workers = nil }, want: state.Deny, says: "it is unknown whether"},
		{name: "a worker of another UID in the evidence", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Evidence.Workers[0].UID = "pod-9" }, want: state.Deny,
			says: "it is unknown whether"},
		{name: "a worker without a UID", kind: playbooks.ActionRestartWorker, set: func(s *Scene) {
			s.Evidence.Workers[0].UID, s.Pod.UID, s.Action.Target.UID = "", "pod-0", "pod-0"
		}, want: state.Deny, says: "it is unknown whether"},
		{name: "a worker that was seen before", kind: playbooks.ActionRestartWorker, set: func(s *Scene) {
			s.Site.View.(*remediatetest.View).Seen, s.Evidence = s.Evidence, state.Evidence{}
		}, want: state.Allow},
		{name: "one rank of a group", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Evidence.Workers[0].Group = "tp" }, want: state.Deny, says: "parallel group tp"},
		{name: "one rank of a group, as was seen before", kind: playbooks.ActionRestartWorker, set: func(s *Scene) {
			s.Site.View.(*remediatetest.View).Seen.Workers = []state.Worker{{Namespace: "llm", Pod: "vllm-0", UID: "pod-0", Group: "tp"}}
		}, want: state.Deny, says: "parallel group tp"},
		{name: "one beside a group", kind: playbooks.ActionRestartWorker, set: func(s *Scene) { s.Evidence.Workers[1].Group = "tp" }, want: state.Allow},
		{name: "a group's rank of its name elsewhere", kind: playbooks.ActionRestartWorker, set: func(s *Scene) {
			s.Evidence.Workers = append(s.Evidence.Workers, state.Worker{Namespace: "chat", Pod: "vllm-0", UID: "x", Group: "tp"})
		}, want: state.Allow},
		{name: "a pool of groups", set: func(s *Scene) { s.Evidence.Workers[1].Group = "tp" }, want: state.Deny, says: "parallel group tp"},
		{name: "an engine over two pods", set: func(s *Scene) { s.Workload.Containers[0].Args = []string{"--nnodes=2"} }, want: state.Deny, says: "--nnodes 2"},
		{name: "an engine over one pod", set: func(s *Scene) { s.Workload.Containers[0].Args = []string{"--nnodes=1"} }, want: state.Allow},
		{name: "an engine over what is not told", set: func(s *Scene) { s.Workload.Containers[0].Args = []string{"--nnodes=$(N)"} }, want: state.Deny, says: "it is unknown whether"},
		{name: "a pool whose namespace opted in", set: labels(map[string]string{"paramedic.dev/managed": "true"}, policy.Auto), want: state.Allow},
		{name: "no label, mode auto", set: labels(nil, policy.Auto), want: state.Deny, says: "has not opted in"},
		{name: "no label, mode approve", set: labels(nil, policy.Approve), want: state.Allow},
		{name: "another value, mode approve", set: labels(map[string]string{"paramedic.dev/managed": "no"}, policy.Approve), want: state.Deny, says: "has not opted in"},
		{name: "no label is asked for", set: wanted("-", labels(nil, policy.Auto)), want: state.Allow},
		{name: "any value is asked for", set: wanted("team", labels(map[string]string{"team": "x"}, policy.Auto)), want: state.Allow},
		{name: "any value is asked for and none given", set: wanted("team", labels(nil, policy.Auto)), want: state.Deny, says: "has not opted in"},
	})
}

func TestGroupNamesItsOwnPods(t *testing.T) {
	ev := state.Evidence{Workers: []state.Worker{{Namespace: "llm", Pool: "a", Pod: "a-1", Group: "tp"},
		{Namespace: "llm", Pool: "a", Pod: "a-0", Group: "tp"},
		{Namespace: "chat", Pool: "a", Pod: "x", Group: "tp"}, {Namespace: "llm", Pool: "a", Pod: "y", Group: "other"}}}
	if got := GroupOf(ev, "llm", "a-0"); !strings.HasSuffix(got, "(a-0, a-1)") {
		t.Error(got)
	}
	if inEvidence(state.Evidence{Workers: []state.Worker{{Pod: "a"}}}, cluster.Pod{Name: "a"}) {
		t.Error("a worker without a UID is known")
	}
	if cluster.Selects(map[string]string{"a": ""}, map[string]string{}) ||
		!cluster.Selects(map[string]string{"a": ""}, map[string]string{"a": ""}) {
		t.Error("a label that is not there is not one that is empty")
	}
}

func TestOwnershipHoldsDuringOthersChanges(t *testing.T) {
	rolling := func(change func(*cluster.Workload)) func(*Scene) { return func(s *Scene) { change(&s.Workload) } }
	by := func(m cluster.Manager) func(*Scene) {
		return func(s *Scene) { s.Workload.Managers = append(s.Workload.Managers, m) }
	}
	edit := cluster.Manager{Name: "kubectl-edit", At: noon.Add(-15*time.Minute + moment)}
	as := func(m cluster.Manager, change func(*cluster.Manager)) cluster.Manager { change(&m); return m }
	var list []guardCase
	for _, kind := range []string{playbooks.ActionSetEngineArg, playbooks.ActionRestartWorker} {
		list = append(list, []guardCase{
			{name: "nothing", want: state.Allow},
			{name: "rollout not seen yet", set: rolling(func(w *cluster.Workload) { w.Generation, w.Observed = 2, 1 }), want: state.Hold, says: "a rollout of vllm is in progress", free: time.Minute},
			{name: "rollout that replaces", set: rolling(func(w *cluster.Workload) { w.Updated = 4 }), want: state.Hold, says: "a rollout"},
			{name: "rollout with an old worker left", set: rolling(func(w *cluster.Workload) { w.Current = 6 }), want: state.Hold, says: "a rollout"},
			{name: "rollout that starts more", set: rolling(func(w *cluster.Workload) { w.Updated, w.Current = 4, 4 }), want: state.Hold, says: "a rollout"},
			{name: "paused rollout", set: rolling(func(w *cluster.Workload) { w.Paused = true }), want: state.Hold, says: "a rollout"},
			{name: "edited by hand", set: by(edit), want: state.Hold, says: "kubectl-edit edited vllm at 11:45:00 UTC: Paramedic changes nothing for 15m"},
			{name: "edited by hand just now", set: by(as(edit, func(m *cluster.Manager) { m.At = noon })), want: state.Hold, free: 15 * time.Minute},
			{name: "edited before that", set: by(as(edit, func(m *cluster.Manager) { m.At = m.At.Add(-moment) })), want: state.Allow},
			{name: "a status is no edit", set: by(as(edit, func(m *cluster.Manager) { m.Status = true })), want: state.Allow},
			{name: "a controller is no person", set: by(as(edit, func(m *cluster.Manager) { m.Name = "kube-controller-manager" })), want: state.Allow},
			{name: "the bot is no person", set: by(as(edit, func(m *cluster.Manager) { m.Name = cluster.FieldManager })), want: state.Allow},
			{name: "the second of two is a person", set: func(s *Scene) {
				by(as(edit, func(m *cluster.Manager) { m.Status = true }))(s)
				by(edit)(s)
			}, want: state.Hold},
			{name: "its creation is no edit", set: func(s *Scene) { s.Workload.Created = edit.At.Add(-time.Second); by(edit)(s) }, want: state.Allow},
			{name: "an edit soon after creation", set: func(s *Scene) { s.Workload.Created = edit.At.Add(-time.Second - moment); by(edit)(s) }, want: state.Hold},
		}...)
		for i := range list {
			list[i].kind = cmp.Or(list[i].kind, kind)
		}
	}
	runGuardCases(t, ownership, list)
}

func TestFieldOfAnotherOwnerIsLeftAlone(t *testing.T) {
	by := func(m cluster.Manager) func(*Scene) {
		return func(s *Scene) { m.At = noon; s.Workload.Managers = []cluster.Manager{m} }
	}
	owner := func(o cluster.Owner) func(*Scene) { return func(s *Scene) { s.Workload.Owners = []cluster.Owner{o} } }
	mark := func(key string) func(*Scene) {
		return func(s *Scene) { s.Workload.Labels = map[string]string{key: "x"} }
	}
	mode := func(m policy.Mode, set func(*Scene)) func(*Scene) {
		return func(s *Scene) { s.Rule.Mode = m; set(s) }
	}
	template := []string{"spec.replicas", "spec.template.spec.containers[vllm].args"}
	list := []guardCase{
		{name: "made by a controller", set: owner(cluster.Owner{Kind: "LLMInferenceService", Name: "x", Controller: true}), want: state.Deny, says: "LLMInferenceService x controls vllm"},
		{name: "owned for garbage collection", set: owner(cluster.Owner{Kind: "Thing", Name: "x"}), want: state.Allow},
		{name: "Argo CD wrote the template", set: by(cluster.Manager{Name: "argocd-controller", Owns: template}), want: state.Deny, says: "sets the pod template"},
		{name: "Flux wrote the template", set: by(cluster.Manager{Name: "kustomize-controller", Owns: template}), want: state.Deny, says: "sets the pod template"},
		{name: "Flux wrote what is not told", set: by(cluster.Manager{Name: "Flux-x"}), want: state.Deny, says: "sets the pod template"},
		{name: "KEDA wrote the replicas", set: by(cluster.Manager{Name: "keda-operator", Owns: []string{"spec.replicas"}}), want: state.Allow},
		{name: "Helm wrote it, mode auto", set: mode(policy.Auto, by(cluster.Manager{Name: "helm", Owns: template})), want: state.Deny, says: "next upgrade would undo"},
		{name: "Helm wrote it, mode approve", set: mode(policy.Approve, by(cluster.Manager{Name: "helm", Owns: template})), want: state.Allow, says: "set  in the release's values as well"},
		{name: "the bot wrote it", set: mode(policy.Auto, by(cluster.Manager{Name: cluster.FieldManager, Owns: template})), want: state.Allow},
		{name: "a release is named", set: mode(policy.Auto, func(s *Scene) {
			s.Workload.Annotations = map[string]string{"meta.helm.sh/release-name": "llama"}
		}), want: state.Deny, says: "Helm release llama"},
		{name: "Helm by the label", set: mode(policy.Auto, func(s *Scene) {
			s.Workload.Labels = map[string]string{"app.kubernetes.io/managed-by": "Helm"}
		}), want: state.Deny, says: "a Helm release"},
		{name: "another tool by the label", set: mode(policy.Auto, func(s *Scene) {
			s.Workload.Labels = map[string]string{"app.kubernetes.io/managed-by": "kubectl"}
		}), want: state.Allow},
	}
	for _, key := range []string{"argocd.argoproj.io/tracking-id", "argocd.argoproj.io/instance", "kustomize.toolkit.fluxcd.io/name",
		"helm.toolkit.fluxcd.io/name"} {
		list = append(list, guardCase{name: "the mark " + key, set: mark(key), want: state.Deny, says: "manages vllm"})
	}
	runGuardCases(t, ownership, append(list,
		guardCase{name: "a restart changes no field", kind: playbooks.ActionRestartWorker,
			set: owner(cluster.Owner{Kind: "LLMInferenceService", Name: "x", Controller: true}), want: state.Allow}))
}

func TestSharedFailureForbidsSingleRestart(t *testing.T) {
	// sick adds incidents of the first workers, after the scene's own.
	sick := func(n, of int, change func(*state.Incident)) func(*Scene) {
		return func(s *Scene) {
			for len(s.Pods) < of {
				s.Pods = append(s.Pods, cluster.Pod{Namespace: "llm", Name: "more-" + string(rune('a'+len(s.Pods))), Ready: true})
			}
			s.Incident.Scope.Pods = []string{s.Pods[0].Name}
			in := s.Incident
			in.ID, in.Scope.Pods = "INC-2", nil
			for _, p := range s.Pods[:n] {
				in.Scope.Pods = append(in.Scope.Pods, p.Name)
			}
			if change != nil {
				change(&in)
			}
			s.Site.View.(*remediatetest.View).Incidents = []state.Incident{in}
		}
	}
	list := []guardCase{
		{name: "one of five", set: sick(1, 5, nil), want: state.Allow, says: "1 of 5"},
		{name: "one of one", set: func(s *Scene) { s.Pods = s.Pods[:1]; sick(1, 1, nil)(s) }, want: state.Allow, says: "1 of 1"},
		{name: "two of five", set: sick(2, 5, nil), want: state.Deny, says: "2 of 5"},
		{name: "two of six", set: sick(2, 6, nil), want: state.Deny, says: "2 of 6"},
		{name: "two of seven", set: sick(2, 7, nil), want: state.Allow, says: "2 of 7"},
		{name: "three of ten", set: sick(3, 10, nil), want: state.Deny, says: "3 of 10"},
		{name: "three of twelve", set: sick(3, 12, nil), want: state.Deny, says: "3 of 12"},
		{name: "of another cluster", set: sick(3, 12, func(in *state.Incident) { in.Cluster = "staging" }), want: state.Allow, says: "1 of 12"},
		{name: "of another namespace", set: sick(3, 12, func(in *state.Incident) { in.Scope.Namespace = "chat" }), want: state.Allow, says: "1 of 12"},
		{name: "resolved", set: sick(3, 12, func(in *state.Incident) { in.Status = state.StatusResolved }), want: state.Allow, says: "1 of 12"},
		{name: "named by the diagnosis", set: sick(3, 12, func(in *state.Incident) { in.Diagnosis.Scope.Pods, in.Scope.Pods = in.Scope.Pods, nil }), want: state.Deny, says: "3 of 12"},
		{name: "not ready", set: func(s *Scene) { sick(1, 12, nil)(s); s.Pods[3].Ready, s.Pods[4].Ready = false, false }, want: state.Deny, says: "3 of 12"},
		{name: "not ready, for they end", set: func(s *Scene) {
			sick(1, 12, nil)(s)
			for i := range 3 {
				s.Pods[3+i].Ready, s.Pods[3+i].Terminating = false, true
			}
		}, want: state.Allow, says: "1 of 12"},
		{name: "no workers", set: func(s *Scene) { s.Pods = nil }, want: state.Deny, says: "no workers"},
		{name: "the incident moved elsewhere", set: func(s *Scene) {
			sick(1, 12, nil)(s)
			s.Incident.Scope.Namespace = "chat"
			s.Incident.Scope.Pods = []string{"vllm-1", "vllm-2"}
		},
			want: state.Allow, says: "1 of 12"},
	}
	for i := range list {
		list[i].kind = playbooks.ActionRestartWorker
	}
	runGuardCases(t, sharedCause, append(list, guardCase{name: "a rollout is for all", set: sick(5, 5, nil), want: state.Allow}))
}

func TestResolvedIncidentIsNoSharedFailure(t *testing.T) {
	s := sceneOf(playbooks.ActionRestartWorker)
	s.Incident.Status, s.Incident.Scope.Pods = state.StatusResolved, []string{"vllm-0", "vllm-1", "vllm-2"}
	if got := sharedCause(t.Context(), s); got.decision != state.Allow {
		t.Errorf("%s: %s", got.decision, got.reason)
	}
}
