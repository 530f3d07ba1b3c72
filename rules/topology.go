package rules

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"paramedic/state"
)

// A topology maps entities to workers, pools and nodes. Live context takes precedence over labels.
type topology struct {
	byPod      map[place]*state.Worker // with its namespace, and without
	byInstance map[string]*state.Worker
	byGPU      map[place]*state.Worker
	pools      map[string]*state.Worker // one worker of each namespace/pool
	several    map[string]bool          // pools that serve more than one model
	ofModel    map[string][]string      // model, lower case → its pools as namespace/pool
	nodes      map[string][]*state.Worker
	aliases    map[place][]string        // an owner's or a router's name → the pools behind it
	groups     map[place][]*state.Worker // the pods of each parallel group
	all        []*state.Worker
}

// A place is a name within a namespace, or a GPU within a node.
type place struct{ in, name string }

// placeOf returns the key of a name within a namespace, a kind or another name.
func placeOf(in, name string) place { return place{in: in, name: name} }

// topologies recycles released topologies. Their memory is a sixth of what a diagnosis would
// otherwise allocate.
var topologies = sync.Pool{New: func() any { return newTopology(nil) }}

func newTopology(workers []state.Worker) *topology {
	t := &topology{
		byPod: make(map[place]*state.Worker, 2*len(workers)), byInstance: map[string]*state.Worker{}, byGPU: map[place]*state.Worker{},
		pools: map[string]*state.Worker{}, several: map[string]bool{}, ofModel: map[string][]string{}, nodes: map[string][]*state.Worker{},
		aliases: map[place][]string{}, groups: map[place][]*state.Worker{},
	}
	t.learn(workers)
	return t
}

// release clears and recycles the topology. Afterwards it must not be used.
func (t *topology) release() {
	clear(t.byPod)
	clear(t.byInstance)
	clear(t.byGPU)
	clear(t.pools)
	clear(t.several)
	clear(t.ofModel)
	clear(t.nodes)
	clear(t.aliases)
	clear(t.groups)
	clear(t.all)
	t.all = t.all[:0]
	topologies.Put(t)
}

// learn adds workers.
func (t *topology) learn(workers []state.Worker) {
	for i := range workers {
		w := &workers[i]
		t.all = append(t.all, w)
		if w.Pod != "" {
			t.byPod[place{name: w.Pod}] = w
			t.byPod[placeOf(w.Namespace, w.Pod)] = w
		}
		if w.Instance != "" {
			t.byInstance[w.Instance] = w
		}
		if w.Node != "" {
			t.nodes[w.Node] = append(t.nodes[w.Node], w)
			for _, g := range w.GPUs {
				t.byGPU[placeOf(w.Node, g)] = w
			}
		}
		if w.Group != "" {
			key := placeOf(w.Namespace, w.EngineKey())
			t.groups[key] = append(t.groups[key], w)
		}
		t.alias(w)
		if w.Pool != "" {
			t.pooled(w)
		}
	}
}

// pooled records a worker's pool and the pool's model. A RayService may serve several models.
func (t *topology) pooled(w *state.Worker) {
	key, model := w.Namespace+"/"+w.Pool, strings.ToLower(w.Model)
	first := t.pools[key]
	switch {
	case first == nil:
		t.pools[key] = w
	case w.Model == "" || strings.EqualFold(first.Model, w.Model):
		return
	case first.Model == "":
		t.pools[key] = w
	default:
		t.several[key] = true
	}
	if !slices.Contains(t.ofModel[model], key) {
		t.ofModel[model] = append(t.ofModel[model], key)
	}
}

// modelOf returns the model that all workers of a pool serve; "" if they differ or it is unknown.
func (t *topology) modelOf(key string) string {
	if w := t.pools[key]; w != nil && !t.several[key] {
		return w.Model
	}
	return ""
}

// alias records the other names of a worker's pool.
func (t *topology) alias(w *state.Worker) {
	if w.Pool == "" {
		return
	}
	add := func(name string) {
		for _, key := range []place{{w.Namespace, name}, {"", name}} {
			if name != "" && name != w.Pool && !slices.Contains(t.aliases[key], w.Pool) {
				t.aliases[key] = append(t.aliases[key], w.Pool)
			}
		}
	}
	add(w.Owner)
	if w.Group != "" {
		add(PoolOf(w.Pod)) // the ranks may have a workload of their own, which alerts name
	}
	for _, r := range w.Routes {
		if _, name, ok := strings.Cut(r, "/"); ok {
			add(name)
		}
	}
}

// behind returns the pools that an alias stands for; nil for a pool's own name.
func (t *topology) behind(namespace, name string) []string {
	if name == "" || t.pools[namespace+"/"+name] != nil {
		return nil
	}
	// the pool guessed from a rank's name is its leader's pod
	if w := t.byPod[placeOf(namespace, name)]; w != nil && w.Pool != "" {
		return []string{w.Pool}
	}
	return t.aliases[placeOf(namespace, name)]
}

// mates returns the pods that run one engine together with the entity's pod, which is among them.
// It returns nil if the pod is a whole engine.
func (t *topology) mates(e state.Entity) []*state.Worker {
	if len(t.groups) == 0 || e.Pod == "" {
		return nil
	}
	if w := t.byPod[placeOf(e.Namespace, e.Pod)]; w != nil && w.Group != "" {
		return t.groups[placeOf(w.Namespace, w.EngineKey())]
	}
	return nil
}

// reaches reports whether the entity's pod, or another pod of its engine, is on the node.
func (t *topology) reaches(e state.Entity, node string) bool {
	if node == "" || e.Node == node {
		return node != ""
	}
	for _, w := range t.mates(e) {
		if w.Node == node {
			return true
		}
	}
	return false
}

// resolve adds what the topology knows about an entity.
func (t *topology) resolve(e state.Entity) state.Entity {
	var w *state.Worker
	if e.Pod != "" {
		w = t.byPod[placeOf(e.Namespace, e.Pod)]
	}
	if w == nil && e.Pod == "" && e.Instance != "" {
		w = t.byInstance[e.Instance]
	}
	if w == nil && e.Pod == "" && e.GPU != "" {
		w = t.byGPU[placeOf(e.Node, e.GPU)]
	}
	if w != nil {
		e.Pod, e.Pool = cmp.Or(w.Pod, e.Pod), cmp.Or(w.Pool, e.Pool)
		e.Namespace, e.Model, e.Node = cmp.Or(w.Namespace, e.Namespace), cmp.Or(w.Model, e.Model), cmp.Or(w.Node, e.Node)
		return e
	}
	if e.Pod != "" && e.Pool == "" {
		e.Pool = PoolOf(e.Pod)
	}
	if e.Pod == "" && e.Pool == "" {
		e = t.ofJob(e)
	}
	if pools := t.behind(e.Namespace, e.Pool); len(pools) == 1 {
		e.Pool = pools[0]
	}
	if e.Pool == "" && e.Model != "" {
		if pools := t.ofModel[strings.ToLower(e.Model)]; len(pools) == 1 {
			ns, pool, _ := strings.Cut(pools[0], "/")
			if e.Namespace == "" || e.Namespace == ns {
				e.Namespace, e.Pool = ns, pool
			}
		}
	}
	if e.Pool != "" {
		e.Model = cmp.Or(t.modelOf(e.Namespace+"/"+e.Pool), e.Model)
	}
	return e
}

// correct replaces the pool of a scope, which comes from labels, if live context has no such pool.
// It adds the model that the pool serves.
func (t *topology) correct(s state.Scope) state.Scope {
	if key := s.Namespace + "/" + s.Pool; t.pools[key] != nil {
		s.Model = cmp.Or(s.Model, t.modelOf(key))
		return s
	}
	if len(t.pools) == 0 || s.Pool == "" {
		return s
	}
	if pools := t.behind(s.Namespace, s.Pool); len(pools) == 1 {
		s.Pool = pools[0]
		return t.correct(s)
	}
	if s.Namespace == "" {
		for _, w := range t.byPod {
			if w.Pool == s.Pool {
				return s
			}
		}
	}
	s.Pool = ""
	for _, p := range s.Pods {
		if w := t.byPod[placeOf(s.Namespace, p)]; w != nil {
			s.Pool = w.Pool
			break
		}
	}
	return s
}

// inScope reports whether a resolved entity can be part of a scope.
func (t *topology) inScope(e state.Entity, s state.Scope) bool {
	if differ(e.Cluster, s.Cluster) {
		return false
	}
	if e.Pod == "" && e.Instance != "" && e.Model == "" && e.Pool == "" && len(t.all) > 0 && t.byInstance[e.Instance] == nil {
		return false // the address of a target that is no worker
	}
	onNode := e.Node != "" && slices.Contains(s.Nodes, e.Node)
	if !onNode && e.Pod != "" && len(t.groups) > 0 { // an engine is on all nodes of its pods
		for _, n := range s.Nodes {
			onNode = onNode || t.reaches(e, n)
		}
	}
	if e.Pod == "" && (e.GPU != "" || e.Node != "") {
		if onNode || s.Pool == "" && s.Model == "" && len(s.Nodes) == 0 {
			return true
		}
		// A node or GPU is in the scope if a worker of the scope is on the node.
		for _, w := range t.nodes[e.Node] {
			if !differ(w.Namespace, s.Namespace) && !differ(w.Pool, s.Pool) && !differ(strings.ToLower(w.Model), strings.ToLower(s.Model)) {
				return len(s.Nodes) == 0 || s.Pool != "" || onNode
			}
		}
		return len(t.nodes) == 0 && len(s.Nodes) == 0
	}
	if s.Pool == "" && s.Model == "" && len(s.Nodes) > 0 {
		return onNode
	}
	if differ(e.Namespace, s.Namespace) || differ(e.Pool, s.Pool) || differ(strings.ToLower(e.Model), strings.ToLower(s.Model)) {
		return false
	}
	return true
}

// differ reports whether both names are known and not equal.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

var (
	// A Deployment's pod: name, ReplicaSet hash, pod suffix. Kubernetes uses no vowels in the hash;
	// short hashes are recognized by a digit.
	replicaSetPod = regexp.MustCompile(`^(.+)-(?:[bcdfghjklmnpqrstvwxz0-9]{6,10}|[a-z0-9]*[0-9][a-z0-9]*)-[a-z0-9]{5}$`)
	// A StatefulSet's or LeaderWorkerSet's pod: name and ordinal.
	ordinalPod = regexp.MustCompile(`^(.+)-[0-9]{1,4}$`)
	// A DaemonSet's pod: Kubernetes uses no vowels, and no digits similar to them, in its suffixes.
	suffixPod = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// DeploymentOf returns the Deployment that created a ReplicaSet. If the name does not end in a
// hash, it returns the ReplicaSet.
func DeploymentOf(replicaSet string) string {
	const pod = "-zzzzz"
	return cmp.Or(PoolOf(replicaSet+pod), replicaSet)
}

// PoolOf guesses the workload from a pod's name, for pods that are unknown to the topology. It
// returns "" if the name has no known form. A LeaderWorkerSet's rank (name-0-1) looks like a
// StatefulSet's pod (llama-3-0): its pool is then its leader's name, which the topology maps to the
// pool.
func PoolOf(pod string) string {
	if m := replicaSetPod.FindStringSubmatch(pod); m != nil {
		return m[1]
	}
	if m := ordinalPod.FindStringSubmatch(pod); m != nil {
		return m[1]
	}
	if m := suffixPod.FindStringSubmatch(pod); m != nil && strings.ContainsAny(pod[len(m[1]):], "2456789") {
		return m[1]
	}
	return ""
}
