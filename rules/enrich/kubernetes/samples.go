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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"paramedic/rules/enrich"
	"paramedic/state"
)

// A builder makes workers and samples from a snapshot.
type builder struct {
	q          enrich.Query
	snap       *snapshot
	wanted     map[string]bool
	units      map[string]string
	workerPods map[string]*corev1.Pod
	poolOf     map[string]string // namespace/pod → its pool
	pools      []pool
	found      []state.Worker
	samples    []state.Sample

	owners       map[object]object
	singleEngine map[object]bool
	spanning     map[object]bool
	components   map[object]component // by graph and name, instead of kind and name
	serveApps    map[object]serveApp
	placed       map[string]rayPlacement // by namespace/pod
	routes       map[string][]route
	gateways     map[object][]object
	frontends    map[object][]object // by DynamoGraphDeployment
}

// A pool holds the workers of one workload.
type pool struct {
	key  object
	pods []*corev1.Pod
}

func newBuilder(q enrich.Query, snap *snapshot, wanted map[string]bool) *builder {
	b := &builder{q: q, snap: snap, wanted: wanted, units: map[string]string{}, workerPods: map[string]*corev1.Pod{},
		poolOf: map[string]string{}, owners: ownersOf(snap), singleEngine: singleEngines(snap.pods),
		components: componentsOf(snap.custom["DynamoGraphDeployment"]),
		serveApps:  serveAppsOf(snap.custom["RayService"]), placed: map[string]rayPlacement{}, routes: routesIn(snap),
		gateways: gatewaysOf(snap.custom["HTTPRoute"]), frontends: map[object][]object{}}
	b.spanning = spanningEngines(snap, b.serveApps, b.owners)
	for _, s := range q.Signals {
		b.units[s.ID] = s.Unit
	}
	for i := range snap.pods {
		p := &snap.pods[i]
		if g := (object{p.Namespace, "DynamoGraphDeployment", p.Labels[dynamoGraph]}); g.name != "" &&
			p.Labels[dynamoType] == "frontend" {
			if w := b.workloadOf(p); w.name != "" && !slices.Contains(b.frontends[g], w) {
				b.frontends[g] = append(b.frontends[g], w)
			}
		}
	}
	return b
}

func (b *builder) add(signal string, e state.Entity, value float64, text string) {
	if !b.wanted[signal] {
		return
	}
	e.Cluster = b.q.Cluster
	b.samples = append(b.samples, state.Sample{Signal: signal, Entity: e, Value: value, Text: text,
		Unit: b.units[signal], At: b.q.Now})
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

// recent is the time before the onset within which the end of a container may be related to the
// incident.
const recent = 6 * time.Hour

func (b *builder) podSamples() {
	for _, w := range b.found {
		p := b.workerPods[w.Namespace+"/"+w.Pod]
		e := entityOf(w)
		if w.Node != "" {
			b.add("pod_node", e, 1, w.Node)
		}
		b.add("pod_ready", e, truth(w.Ready), "")
		b.add("pod_unscheduled", e, truth(slices.ContainsFunc(p.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		})), "")
		if t := p.Status.StartTime; t != nil {
			b.add("pod_age", e, b.q.Now.Sub(t.Time).Seconds(), "")
		}
		b.containers(p, e)
		c, _ := engineContainer(p.Spec)
		b.image("pod_image", e, p.Spec)
		if n, ok := MaxNumSeqs(c); ok {
			b.add("max_num_seqs", e, float64(n*enginesOf(c)), "")
		} else if n := b.served(p, object{p.Namespace, w.PoolKind, w.Pool}).seqs; n > 0 {
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

// containers adds restarts, ends and waits. The API server has the count of all restarts and the
// time of the last one. So the restarts of the last hour are exact only for a pod that is younger;
// otherwise one is counted.
func (b *builder) containers(p *corev1.Pod, e state.Entity) {
	for _, s := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
		if w := s.State.Waiting; w != nil && w.Reason != "" && w.Reason != "PodInitializing" {
			b.add("pod_waiting_reason", e, 1, w.Reason)
		}
	}
	restarts := 0.0
	for _, s := range ofEngine(p) {
		if t := s.LastTerminationState.Terminated; t != nil && b.q.Now.Sub(t.FinishedAt.Time) <= time.Hour {
			if young := p.Status.StartTime; young != nil && b.q.Now.Sub(young.Time) <= time.Hour {
				restarts += float64(s.RestartCount)
			} else {
				restarts++
			}
		}
	}
	b.add("pod_restarts", e, restarts, "")
	if d, ok := crashOf(p); ok && d.end.FinishedAt.After(b.q.Onset.Add(-recent)) {
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
			if d := &b.snap.deployments[i]; p.key.kind == "Deployment" && d.Namespace == p.key.namespace &&
				d.Name == p.key.name {
				b.deployment(d, e)
			}
		}
		for i := range b.snap.statefulSets {
			if s := &b.snap.statefulSets[i]; p.key.kind == "StatefulSet" && s.Namespace == p.key.namespace &&
				s.Name == p.key.name {
				want := replicas(s.Spec.Replicas)
				rolling := s.Status.ObservedGeneration < s.Generation ||
					s.Status.UpdateRevision != s.Status.CurrentRevision && s.Status.UpdatedReplicas < want
				b.replicas(e, int64(want), int64(s.Status.ReadyReplicas), rolling)
				b.image("rollout_image", e, s.Spec.Template.Spec)
				b.revision(p.key, e)
			}
		}
		b.customSamples(p, e)
		b.budget(p, e)
	}
}

func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func (b *builder) replicas(e state.Entity, want, ready int64, rolling bool) {
	b.add("replicas_desired", e, float64(want), "")
	b.add("replicas_ready", e, float64(ready), "")
	b.add("rollout_in_progress", e, truth(rolling), "")
}

func (b *builder) image(signal string, e state.Entity, spec corev1.PodSpec) {
	if c, _ := engineContainer(spec); c.Image != "" {
		b.add(signal, e, 1, c.Image)
	}
}

func (b *builder) deployment(d *appsv1.Deployment, e state.Entity) {
	want, st := replicas(d.Spec.Replicas), d.Status
	b.replicas(e, int64(want), int64(st.ReadyReplicas), st.ObservedGeneration < d.Generation ||
		st.UpdatedReplicas < want || st.Replicas > st.UpdatedReplicas)
	b.image("rollout_image", e, d.Spec.Template.Spec)
	b.age(b.rolledOut(object{d.Namespace, "Deployment", d.Name}), e)
}

func (b *builder) age(newest time.Time, e state.Entity) {
	if !newest.IsZero() {
		b.add("rollout_age", e, b.q.Now.Sub(newest).Seconds(), "")
	}
}

// revision adds the age of the last rollout of a workload that keeps its history in
// ControllerRevisions.
func (b *builder) revision(of object, e state.Entity) {
	var newest time.Time
	for i := range b.snap.revisions {
		r := &b.snap.revisions[i]
		if o, ok := controllerOf(r); ok && o == of && r.CreationTimestamp.After(newest) {
			newest = r.CreationTimestamp.Time
		}
	}
	b.age(newest, e)
}

// customSamples counts the replicas of pools without a built-in workload. A replica is a parallel
// group.
func (b *builder) customSamples(p pool, e state.Entity) {
	if p.key.kind == "LeaderWorkerSet" {
		sets := b.snap.custom["LeaderWorkerSet"]
		for i := range sets {
			if u := &sets[i]; u.GetNamespace() == p.key.namespace && u.GetName() == p.key.name {
				b.leaderWorkerSet(u, p.key, e)
			}
		}
	}
	if c, ok := b.componentOf(p.pods[0]); ok && c.counted && strings.HasPrefix(p.key.kind, "PodClique") {
		b.add("replicas_desired", e, float64(c.replicas), "")
		b.add("replicas_ready", e, float64(b.readyEngines(p.key)), "")
	}
}

func (b *builder) leaderWorkerSet(u *unstructured.Unstructured, key object, e state.Entity) {
	want, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found {
		want = 1
	}
	ready, _, _ := unstructured.NestedInt64(u.Object, "status", "readyReplicas")
	updated, _, _ := unstructured.NestedInt64(u.Object, "status", "updatedReplicas")
	b.replicas(e, want, ready, updated < want)
	spec, ok := templateOf(u, "spec", "leaderWorkerTemplate", "leaderTemplate", "spec")
	if !ok { // without a leader template, the leader is like a worker
		spec, _ = templateOf(u, "spec", "leaderWorkerTemplate", "workerTemplate", "spec")
	}
	b.image("rollout_image", e, spec)
	b.revision(key, e)
}

// readyEngines returns the number of a pool's engines whose pods are all ready.
func (b *builder) readyEngines(key object) int {
	allReady := map[string]bool{}
	for _, w := range b.found {
		if w.Namespace == key.namespace && w.PoolKind == key.kind && w.Pool == key.name {
			before, seen := allReady[w.EngineKey()]
			allReady[w.EngineKey()] = w.Ready && (before || !seen)
		}
	}
	n := 0
	for _, ok := range allReady {
		if ok {
			n++
		}
	}
	return n
}

// budget adds the least number of evictions that a PDB of the pool's pods allows now.
func (b *builder) budget(p pool, e state.Entity) {
	least, found := int32(0), false
	for i := range b.snap.budgets {
		d := &b.snap.budgets[i]
		sel, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
		if err != nil || d.Namespace != p.key.namespace || len(p.pods) == 0 ||
			!sel.Matches(labels.Set(p.pods[0].Labels)) {
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
			if strings.HasSuffix(string(c.Type), "Ready") { // as EKS has it for accelerators, storage and so on
				good = corev1.ConditionTrue
			}
			if c.Type == corev1.NodeReady {
				b.add("node_ready", e, truth(c.Status == good), "")
			}
			if c.Status != good {
				b.add("node_bad_condition", e, 1, string(c.Type)+"="+string(c.Status))
			}
		}
	}
}

// eventsWithin is the greatest age of a warning.
const eventsWithin = time.Hour

func (b *builder) eventSamples() {
	type eventKey struct{ kind, namespace, name, reason string }
	counts := map[eventKey]float64{}
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
			counts[eventKey{o.Kind, o.Namespace, o.Name, ev.Reason}] += n
		}
	}
	for w, n := range counts {
		e := state.Entity{Namespace: w.namespace}
		switch w.kind {
		case "Pod":
			e.Pod = w.name
			if p := b.workerPods[w.namespace+"/"+w.name]; p != nil {
				e.Pool = b.poolOf[w.namespace+"/"+w.name]
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
		return b.workerPods[o.Namespace+"/"+o.Name] != nil
	case "Node":
		return slices.ContainsFunc(b.found, func(w state.Worker) bool { return w.Node == o.Name && o.Name != "" })
	default:
		return slices.ContainsFunc(b.pools, func(p pool) bool {
			return p.key.kind == o.Kind && p.key.namespace == o.Namespace && p.key.name == o.Name
		})
	}
}
