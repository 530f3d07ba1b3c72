package kubernetes

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// builder makes workers and samples of a snapshot.
type builder struct {
	q       enrich.Query
	snap    *snapshot
	wanted  map[string]bool
	units   map[string]string
	deploys map[string]string // namespace/replicaset → its Deployment
	ours    map[string]*corev1.Pod
	pools   []pool
	found   []state.Worker
	samples []state.Sample
}

// poolKey names one workload; pool has the workers of it that were found.
type poolKey struct{ namespace, kind, name string }

type pool struct {
	key  poolKey
	pods []*corev1.Pod
}

func newBuilder(q enrich.Query, snap *snapshot, wanted map[string]bool) *builder {
	b := &builder{q: q, snap: snap, wanted: wanted, units: map[string]string{}, deploys: map[string]string{}, ours: map[string]*corev1.Pod{}}
	for _, s := range q.Signals {
		b.units[s.ID] = s.Unit
	}
	for _, rs := range snap.replicaSets {
		if o := metav1.GetControllerOf(&rs); o != nil && o.Kind == "Deployment" {
			b.deploys[rs.Namespace+"/"+rs.Name] = o.Name
		}
	}
	return b
}

func (b *builder) add(signal string, e state.Entity, value float64, text string) {
	if !b.wanted[signal] {
		return
	}
	e.Cluster = b.q.Cluster
	b.samples = append(b.samples, state.Sample{Signal: signal, Entity: e, Value: value, Text: text, Unit: b.units[signal], At: b.q.Now})
}

const lwsName = "leaderworkerset.sigs.k8s.io/name"

// ownerOf is the workload that a pod belongs to, past the ReplicaSet between.
func (b *builder) ownerOf(p *corev1.Pod) (kind, name string) {
	if lws := p.Labels[lwsName]; lws != "" {
		return "LeaderWorkerSet", lws
	}
	o := metav1.GetControllerOf(p)
	if o == nil {
		return "", ""
	}
	if o.Kind != "ReplicaSet" {
		return o.Kind, o.Name
	}
	if d := b.deploys[p.Namespace+"/"+o.Name]; d != "" {
		return "Deployment", d
	}
	// The ReplicaSets could not be listed: its name is the Deployment's and the template's hash.
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; hash != "" && strings.HasSuffix(o.Name, "-"+hash) {
		return "Deployment", strings.TrimSuffix(o.Name, "-"+hash)
	}
	return "ReplicaSet", o.Name
}

// workers finds the pods that are engines, or that the scope names.
func (b *builder) workers() {
	s := b.q.Scope
	index := map[poolKey]int{}
	for i := range b.snap.pods {
		p := &b.snap.pods[i]
		if p.Status.Phase == corev1.PodSucceeded || s.Namespace != "" && p.Namespace != s.Namespace {
			continue
		}
		kind, name := b.ownerOf(p)
		c, engine := engineContainer(p.Spec)
		if engine == "" && !slices.Contains(s.Pods, p.Name) && (s.Pool == "" || name != s.Pool) {
			continue
		}
		model := cmp.Or(modelOf(c), p.Labels["model"])
		w := state.Worker{Namespace: p.Namespace, Pod: p.Name, UID: string(p.UID), Pool: name, PoolKind: kind, Model: model,
			Node: p.Spec.NodeName, Instance: instanceOf(p, c), Engine: engine, Ready: ready(p)}
		b.found = append(b.found, w)
		b.ours[p.Namespace+"/"+p.Name] = p
		if name == "" {
			continue
		}
		key := poolKey{p.Namespace, kind, name}
		if _, ok := index[key]; !ok {
			index[key] = len(b.pools)
			b.pools = append(b.pools, pool{key: key})
		}
		at := &b.pools[index[key]]
		at.pods = append(at.pods, p)
	}
}

func instanceOf(p *corev1.Pod, c corev1.Container) string {
	if p.Status.PodIP == "" {
		return ""
	}
	port := p.Annotations["prometheus.io/port"]
	for _, cp := range c.Ports {
		if port == "" || cp.Name == "metrics" && p.Annotations["prometheus.io/port"] == "" {
			port = fmt.Sprint(cp.ContainerPort)
		}
	}
	if port == "" {
		return p.Status.PodIP
	}
	return p.Status.PodIP + ":" + port
}

func ready(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue && p.DeletionTimestamp == nil
		}
	}
	return false
}

func entityOf(w state.Worker) state.Entity {
	return state.Entity{Namespace: w.Namespace, Pool: w.Pool, Pod: w.Pod, Node: w.Node, Model: w.Model}
}

// recent is how far before the onset a container's end still says something about the incident.
const recent = 6 * time.Hour

func (b *builder) podSamples() {
	for _, w := range b.found {
		p := b.ours[w.Namespace+"/"+w.Pod]
		e := entityOf(w)
		if w.Node != "" {
			b.add("pod_node", e, 1, w.Node)
		}
		b.add("pod_ready", e, truth(w.Ready), "")
		if t := p.Status.StartTime; t != nil {
			b.add("pod_age", e, b.q.Now.Sub(t.Time).Seconds(), "")
		}
		b.containers(p, e)
		c, _ := engineContainer(p.Spec)
		if n, ok := MaxNumSeqs(c); ok {
			b.add("max_num_seqs", e, float64(n), "")
		}
		if limit, ok := c.Resources.Limits[corev1.ResourceMemory]; ok {
			total := limit.AsApproximateFloat64()
			for _, other := range p.Spec.Containers {
				if l, ok := other.Resources.Limits[corev1.ResourceMemory]; ok && other.Name != c.Name {
					total += l.AsApproximateFloat64()
				}
			}
			b.add("container_memory_limit", e, total, "")
		}
	}
}

// containers tells of restarts, ends and waits. The API server keeps the count of all restarts and the time of the last, so that the
// restarts of the last hour are known to be at least one, and exactly only for a young pod.
func (b *builder) containers(p *corev1.Pod, e state.Entity) {
	restarts := 0.0
	for _, s := range append(slices.Clone(p.Status.InitContainerStatuses), p.Status.ContainerStatuses...) {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			b.add("pod_waiting_reason", e, 1, w.Reason)
		}
		if t := s.LastTerminationState.Terminated; t != nil && b.q.Now.Sub(t.FinishedAt.Time) <= time.Hour {
			if young := p.Status.StartTime; young != nil && b.q.Now.Sub(young.Time) <= time.Hour {
				restarts += float64(s.RestartCount)
			} else {
				restarts++
			}
		}
	}
	b.add("pod_restarts", e, restarts, "")
	if d, ok := deathOf(p); ok && d.end.FinishedAt.After(b.q.Onset.Add(-recent)) {
		b.add("pod_last_terminated", e, float64(d.end.ExitCode), cmp.Or(d.end.Reason, "Error"))
		b.add("pod_exit_code", e, float64(d.end.ExitCode), "")
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

func (b *builder) poolSamples() {
	for _, p := range b.pools {
		e := state.Entity{Namespace: p.key.namespace, Pool: p.key.name}
		for i := range b.snap.deployments {
			if d := &b.snap.deployments[i]; p.key.kind == "Deployment" && d.Namespace == p.key.namespace && d.Name == p.key.name {
				b.deployment(d, e)
			}
		}
		for i := range b.snap.statefulSets {
			if s := &b.snap.statefulSets[i]; p.key.kind == "StatefulSet" && s.Namespace == p.key.namespace && s.Name == p.key.name {
				want := replicas(s.Spec.Replicas)
				rolling := s.Status.ObservedGeneration < s.Generation || s.Status.UpdateRevision != s.Status.CurrentRevision && s.Status.UpdatedReplicas < want
				b.replicas(e, want, s.Status.ReadyReplicas, rolling)
				b.image(e, s.Spec.Template.Spec)
			}
		}
		b.budget(p, e)
	}
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func (b *builder) replicas(e state.Entity, want, ready int32, rolling bool) {
	b.add("replicas_desired", e, float64(want), "")
	b.add("replicas_ready", e, float64(ready), "")
	b.add("rollout_in_progress", e, truth(rolling), "")
}

func (b *builder) image(e state.Entity, spec corev1.PodSpec) {
	if c, _ := engineContainer(spec); c.Image != "" {
		b.add("rollout_image", e, 1, c.Image)
	}
}

func (b *builder) deployment(d *appsv1.Deployment, e state.Entity) {
	want, st := replicas(d.Spec.Replicas), d.Status
	b.replicas(e, want, st.ReadyReplicas, st.ObservedGeneration < d.Generation || st.UpdatedReplicas < want || st.Replicas > st.UpdatedReplicas)
	b.image(e, d.Spec.Template.Spec)
	var newest time.Time
	for i := range b.snap.replicaSets {
		rs := &b.snap.replicaSets[i]
		if rs.Namespace == d.Namespace && b.deploys[rs.Namespace+"/"+rs.Name] == d.Name && rs.CreationTimestamp.After(newest) {
			newest = rs.CreationTimestamp.Time
		}
	}
	if !newest.IsZero() {
		b.add("rollout_age", e, b.q.Now.Sub(newest).Seconds(), "")
	}
}

// budget is the fewest evictions that any PDB of the pool's pods allows now.
func (b *builder) budget(p pool, e state.Entity) {
	least, found := int32(0), false
	for i := range b.snap.budgets {
		d := &b.snap.budgets[i]
		sel, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err != nil || d.Namespace != p.key.namespace || len(p.pods) == 0 || !sel.Matches(labels.Set(p.pods[0].Labels)) {
			continue
		}
		if !found || d.Status.DisruptionsAllowed < least {
			least, found = d.Status.DisruptionsAllowed, true
		}
	}
	if found {
		b.add("disruptions_allowed", e, float64(least), "")
	}
}

func (b *builder) nodeSamples() {
	ours := map[string]bool{}
	for _, w := range b.found {
		ours[w.Node] = true
	}
	for _, n := range b.q.Scope.Nodes {
		ours[n] = true
	}
	for _, n := range b.snap.nodes {
		if !ours[n.Name] {
			continue
		}
		e := state.Entity{Node: n.Name}
		b.add("node_unschedulable", e, truth(n.Spec.Unschedulable), "")
		for _, c := range n.Status.Conditions {
			good := corev1.ConditionFalse
			if c.Type == corev1.NodeReady {
				good = corev1.ConditionTrue
				b.add("node_ready", e, truth(c.Status == good), "")
			}
			if c.Status != good {
				b.add("node_bad_condition", e, 1, string(c.Type)+"="+string(c.Status))
			}
		}
	}
}

// eventsWithin is how old a warning may be.
const eventsWithin = time.Hour

func (b *builder) eventSamples() {
	type what struct{ kind, namespace, name, reason string }
	counts := map[what]float64{}
	for _, ev := range b.snap.events {
		at := ev.LastTimestamp.Time
		if ev.Series != nil {
			at = ev.Series.LastObservedTime.Time
		} else if at.IsZero() {
			at = ev.EventTime.Time
		}
		n := float64(max(ev.Count, 1))
		if ev.Series != nil {
			n = float64(max(ev.Series.Count, 1))
		}
		if o := ev.InvolvedObject; b.q.Now.Sub(at) <= eventsWithin && b.concerns(o) {
			counts[what{o.Kind, o.Namespace, o.Name, ev.Reason}] += n
		}
	}
	for w, n := range counts {
		e := state.Entity{Namespace: w.namespace}
		switch w.kind {
		case "Pod":
			e.Pod = w.name
			if p := b.ours[w.namespace+"/"+w.name]; p != nil {
				_, e.Pool = b.ownerOf(p)
				e.Node = p.Spec.NodeName
			}
		case "Node":
			e.Namespace, e.Node = "", w.name
		default:
			e.Pool = w.name
		}
		b.add("kube_event", e, n, w.reason)
	}
}

func (b *builder) concerns(o corev1.ObjectReference) bool {
	switch o.Kind {
	case "Pod":
		return b.ours[o.Namespace+"/"+o.Name] != nil
	case "Node":
		return slices.ContainsFunc(b.found, func(w state.Worker) bool { return w.Node == o.Name && o.Name != "" })
	default:
		return slices.ContainsFunc(b.pools, func(p pool) bool {
			return p.key.kind == o.Kind && p.key.namespace == o.Namespace && p.key.name == o.Name
		})
	}
}
