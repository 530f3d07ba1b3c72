package remediate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"paramedic/remediate/cluster"
	"paramedic/remediate/guard"
	"paramedic/remediate/verify"
	"paramedic/state"
)

// restartWorker replaces one worker. It changes a label that Services select on and the controller
// does not, so that the worker no longer serves. It waits until the worker is idle, evicts it under
// its disruption budget, and waits for the replacement. An eviction cannot be undone. Until then
// the label is put back if the run cannot continue.
type restartWorker struct{}

// isolated is the value of the changed label while the worker does not serve.
const isolated = "isolated-by-paramedic"

// The journal's keys: the time at which a step was found to be done, why the worker is put back,
// and which pod replaced it.
const (
	keyIsolated       = "isolated"
	keyDrained        = "drained"
	keyBlocked        = "blocked"
	keyEvicted        = "evicted"
	keyUndo           = "undo"
	keyReplacement    = "replacement"
	keyReplacementUID = "replacement_uid"
)

func (restartWorker) verbs() []Verb {
	return []Verb{{"", "pods", "patch"}, {"", "pods/eviction", "create"}}
}

func (restartWorker) reversible() bool { return false }

func (restartWorker) Metrics() []verify.Metric {
	return []verify.Metric{
		{Signal: "kv_usage", Also: []string{"kv_idle_usage"}, Unit: "ratio", Agg: verify.AggMax, Target: true, Better: 0.8, Worse: 1.2,
			Noise: 0.05},
		{Signal: "container_memory", Also: []string{"container_memory_slope"}, Unit: "bytes", Agg: verify.AggMax, Target: true,
			Better: 0.85, Worse: 1.2},
		{Signal: "process_rss", Unit: "bytes", Agg: verify.AggMax, Target: true, Better: 0.85, Worse: 1.2},
		{Signal: "gpu_fb_used", Also: []string{"gpu_fb_slope"}, Unit: "MiB", Agg: verify.AggMax, Target: true, Better: 0.98, Worse: 1.02,
			Cause: "gpu_memory_leak"},
		{Signal: "generation_tokens_rate", Unit: "1/s", Agg: verify.AggSum, Target: true, Higher: true, Better: 1.3, Worse: 0.5, Noise: 1,
			Cause: "engine_hang"},
		{Signal: "ttft_p95", Unit: "s", Agg: verify.AggMax, Guardrail: true, Worse: 1.5, Noise: 0.5},
		{Signal: "error_rate", Unit: "ratio", Agg: verify.AggMax, Guardrail: true, Worse: 1.5, Noise: 0.02,
			Rolling: verify.Rolling{Worse: 2, Noise: 0.1}},
		{Signal: readySignal, Unit: "pods", Agg: verify.AggReady, Guardrail: true, Higher: true, Worse: 0.99,
			Rolling: verify.Rolling{Worse: 0.99}},
	}
}

// target chooses the one broken worker, which must be an engine by itself. Of several it takes the
// worker that the strongest finding names. The guard shared_cause then judges whether several fail
// at once.
func (restartWorker) target(in state.Incident, ev state.Evidence, params map[string]string) (state.Target, error) {
	t, err := poolTarget(in, ev)
	if err != nil {
		return t, err
	}
	params["pool_kind"], t.Kind = t.Kind, "Pod"
	pods := guard.BrokenPods(in)
	for _, f := range in.Diagnosis.Findings {
		if f.Weight > 0 && slices.Contains(pods, f.Pod) {
			pods = []string{f.Pod}
			break
		}
	}
	for _, pod := range pods {
		if why := guard.GroupOf(ev, t.Namespace, pod); why != "" {
			return t, errors.New(why)
		}
	}
	if len(pods) != 1 {
		return t, fmt.Errorf("the evidence names %d workers, and a restart needs exactly one", len(pods))
	}
	t.Name = pods[0]
	return t, nil
}

func (restartWorker) draft(s *guard.Scene) error {
	a := s.Action
	a.Change = fmt.Sprintf("restart pod %s/%s", a.Target.Namespace, a.Target.Name)
	if why := s.Stray(); why != "" {
		return errors.New(why)
	}
	labels, err := isolation(s)
	if err != nil {
		return err
	}
	a.Target.UID = s.Pod.UID
	a.Params["pod"] = s.Pod.Name
	a.Params["labels"] = strings.Join(labels, ",")
	a.Why = fmt.Sprintf("A restart frees what only this worker holds. Paramedic takes it out of serving (label %s). "+
		"Its requests may finish for up to %s. Then Paramedic evicts it under its disruption budget. "+
		"Requests that still run then are lost, and so is its prefix cache.",
		a.Params["labels"], state.FormatDuration(drainTime(a, s.Site.Timing)))
	set := make([]string, len(labels))
	for i, l := range labels {
		set[i] = l + "=" + isolated
	}
	a.Command = fmt.Sprintf("kubectl -n %[1]s label pod %[2]s --overwrite %[3]s && sleep %.0[4]f && "+
		"kubectl create --raw /api/v1/namespaces/%[1]s/pods/%[2]s/eviction -f - <<< %[5]s",
		a.Target.Namespace, s.Pod.Name, strings.Join(set, " "), drainTime(a,
			s.Site.Timing).Seconds(), quote(evictionBody(a.Target)))
	return nil
}

// evictionBody returns the request that evicts the pod, for a person to send.
func evictionBody(t state.Target) string {
	b, err := json.Marshal(map[string]any{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata":      map[string]string{"name": t.Name, "namespace": t.Namespace},
		"deleteOptions": map[string]any{"preconditions": map[string]string{"uid": t.UID}}})
	if err != nil { // strings only
		panic(fmt.Sprintf("encoding an eviction: %v", err))
	}
	return string(b)
}

// ownLabels are the labels that Kubernetes' controllers put on pods and restore, or by which they
// know their pods.
var ownLabels = map[string]string{"pod-template-hash": "", "controller-revision-hash": "",
	"statefulset.kubernetes.io/pod-name": "", "apps.kubernetes.io/pod-index": ""}

// isolation returns the labels to change so that no Service selects the worker any more, while its
// controller and its disruption budget still do. A controller without the pod would start another
// one. A budget without it would not protect the pool.
func isolation(s *guard.Scene) ([]string, error) {
	if s.Workload.ComplexSelector {
		return nil, fmt.Errorf("the selector of %s uses more than matchLabels, so Paramedic cannot know which label it "+
			"may change", s.Workload.Name)
	}
	taken := maps.Clone(ownLabels)
	maps.Copy(taken, s.Workload.Selector)
	for _, b := range s.Namespace.Budgets {
		maps.Copy(taken, b.Selector)
	}
	var out []string
	serving := false
	for _, svc := range s.Namespace.Services {
		if !cluster.Selects(svc.Selector, s.Pod.Labels) {
			continue
		}
		serving = true
		free := slices.DeleteFunc(slices.Sorted(maps.Keys(svc.Selector)),
			func(k string) bool { _, is := taken[k]; return is })
		if len(free) == 0 {
			return nil, fmt.Errorf("the controller or a disruption budget of the worker also selects on every label of Service %s: "+
				"add a label such as paramedic.dev/serving=true to the pod template and to that Service's selector", svc.Name)
		}
		if !slices.ContainsFunc(free, func(k string) bool { return slices.Contains(out, k) }) {
			out = append(out, free[0])
		}
	}
	if !serving {
		return nil, errors.New("no Service selects the worker, so Paramedic cannot take it out of serving")
	}
	slices.Sort(out)
	return out, nil
}

func (restartWorker) Write(s *guard.Scene, opID string) (state.Write, error) {
	labels, err := isolation(s)
	if err != nil {
		return state.Write{}, err
	}
	if joined := strings.Join(labels, ","); joined != s.Action.Params["labels"] {
		return state.Write{}, fmt.Errorf("the labels to change were %[2]s when this was planned, and are %[1]s now", joined,
			s.Action.Params["labels"])
	}
	uid := test(pointer("metadata", "uid"), s.Pod.UID)
	ops := []op{uid}
	back := []op{uid, test(pointer("metadata", "annotations", cluster.OpIDAnnotation), opID)}
	old := map[string]string{}
	for _, l := range labels {
		path := pointer("metadata", "labels", l)
		old[l] = s.Pod.Labels[l]
		ops = append(ops, test(path, old[l]), replace(path, isolated))
		back = append(back, test(path, isolated), replace(path, old[l]))
	}
	ops = append(ops, mark(s.Pod.Annotations, opID)...)
	back = append(back, replace(pointer("metadata", "annotations", cluster.OpIDAnnotation), opID+undone))
	was, err := json.Marshal(old)
	if err != nil {
		return state.Write{}, fmt.Errorf("recording the labels: %w", err)
	}
	return state.Write{OpID: opID, UID: s.Pod.UID, Old: string(was), New: isolated, Path: "/metadata/labels",
		Patch: encode(ops...), Inverse: encode(back...)}, nil
}

func (restartWorker) DryRun(ctx context.Context, s *guard.Scene, w state.Write) error {
	if _, err := s.Cluster.PatchPod(ctx, s.Pod.Namespace, s.Pod.Name, []byte(w.Patch), true); err != nil {
		return err
	}
	return s.Cluster.Evict(ctx, s.Pod.Namespace, s.Pod.Name, s.Pod.UID, true)
}
