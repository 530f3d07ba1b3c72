package topology

import (
	"cmp"
	"slices"
	"strings"
	"sync"

	"paramedic/state"
)

// WorkerOf returns the key of a worker, also if only its address is known. It is zero for entities
// without a worker.
func WorkerOf(e state.Entity) Place {
	if e.Pod == "" {
		return Place{name: e.Instance}
	}
	return PlaceOf(e.Namespace, e.Pod)
}

// A Topology maps entities to workers, pools and nodes. Live context takes precedence over labels.
type Topology struct {
	ByPod      map[Place]*state.Worker // with its namespace, and without
	byInstance map[string]*state.Worker
	byGPU      map[Place]*state.Worker
	Pools      map[string]*state.Worker // one worker of each namespace/pool
	several    map[string]bool          // pools that serve more than one model
	ofModel    map[string][]string      // model, lower case → its pools as namespace/pool
	Nodes      map[string][]*state.Worker
	aliases    map[Place][]string        // an owner's or a router's name → the pools behind it
	groups     map[Place][]*state.Worker // the pods of each parallel group
	all        []*state.Worker
}

// A Place is a name within a namespace, or a GPU within a node.
type Place struct{ in, name string }

// PlaceOf returns the key of a name within a namespace, a kind or another name.
func PlaceOf(in, name string) Place { return Place{in: in, name: name} }

// Topologies recycles released topologies. Their memory is a sixth of what a diagnosis would
// otherwise allocate.
var Topologies = sync.Pool{New: func() any { return NewTopology(nil) }}

// NewTopology returns the topology of the workers.
func NewTopology(workers []state.Worker) *Topology {
	t := &Topology{
		ByPod: make(map[Place]*state.Worker, 2*len(workers)), byInstance: map[string]*state.Worker{}, byGPU: map[Place]*state.Worker{},
		Pools: map[string]*state.Worker{}, several: map[string]bool{}, ofModel: map[string][]string{}, Nodes: map[string][]*state.Worker{},
		aliases: map[Place][]string{}, groups: map[Place][]*state.Worker{},
	}
	t.Learn(workers)
	return t
}

// Release clears and recycles the topology. Afterwards it must not be used.
func (t *Topology) Release() {
	clear(t.ByPod)
	clear(t.byInstance)
	clear(t.byGPU)
	clear(t.Pools)
	clear(t.several)
	clear(t.ofModel)
	clear(t.Nodes)
	clear(t.aliases)
	clear(t.groups)
	clear(t.all)
	t.all = t.all[:0]
	Topologies.Put(t)
}

// Learn adds workers.
func (t *Topology) Learn(workers []state.Worker) {
	for i := range workers {
		w := &workers[i]
		t.all = append(t.all, w)
		if w.Pod != "" {
			t.ByPod[Place{name: w.Pod}] = w
			t.ByPod[PlaceOf(w.Namespace, w.Pod)] = w
		}
		if w.Instance != "" {
			t.byInstance[w.Instance] = w
		}
		if w.Node != "" {
			t.Nodes[w.Node] = append(t.Nodes[w.Node], w)
			for _, g := range w.GPUs {
				t.byGPU[PlaceOf(w.Node, g)] = w
			}
		}
		if w.Group != "" {
			key := PlaceOf(w.Namespace, w.EngineKey())
			t.groups[key] = append(t.groups[key], w)
		}
		t.alias(w)
		if w.Pool != "" {
			t.pooled(w)
		}
	}
}

// pooled records a worker's pool and the pool's model. A RayService may serve several models.
func (t *Topology) pooled(w *state.Worker) {
	key, model := w.Namespace+"/"+w.Pool, strings.ToLower(w.Model)
	first := t.Pools[key]
	switch {
	case first == nil:
		t.Pools[key] = w
	case w.Model == "" || strings.EqualFold(first.Model, w.Model):
		return
	case first.Model == "":
		t.Pools[key] = w
	default:
		t.several[key] = true
	}
	if !slices.Contains(t.ofModel[model], key) {
		t.ofModel[model] = append(t.ofModel[model], key)
	}
}

// modelOf returns the model that all workers of a pool serve; "" if they differ or it is unknown.
func (t *Topology) modelOf(key string) string {
	if w := t.Pools[key]; w != nil && !t.several[key] {
		return w.Model
	}
	return ""
}

// serves reports whether a worker reports the model.
func (t *Topology) serves(model string) bool {
	return slices.ContainsFunc(t.all, func(w *state.Worker) bool { return strings.EqualFold(w.Model, model) })
}

// alias records the other names of a worker's pool.
func (t *Topology) alias(w *state.Worker) {
	if w.Pool == "" {
		return
	}
	add := func(name string) {
		for _, key := range []Place{{w.Namespace, name}, {"", name}} {
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

// Behind returns the pools that an alias stands for; nil for a pool's own name.
func (t *Topology) Behind(namespace, name string) []string {
	if name == "" || len(t.all) == 0 || t.Pools[namespace+"/"+name] != nil {
		return nil
	}
	// The pool guessed from a rank's name is its leader's pod.
	if w := t.ByPod[PlaceOf(namespace, name)]; w != nil && w.Pool != "" {
		return []string{w.Pool}
	}
	return t.aliases[PlaceOf(namespace, name)]
}

// Mates returns the pods that run one engine together with the entity's pod, which is among them.
// It returns nil if the pod is a whole engine.
func (t *Topology) Mates(e state.Entity) []*state.Worker {
	if len(t.groups) == 0 || e.Pod == "" {
		return nil
	}
	if w := t.ByPod[PlaceOf(e.Namespace, e.Pod)]; w != nil && w.Group != "" {
		return t.groups[PlaceOf(w.Namespace, w.EngineKey())]
	}
	return nil
}

// Reaches reports whether the entity's pod, or another pod of its engine, is on the node.
func (t *Topology) Reaches(e state.Entity, node string) bool {
	if node == "" || e.Node == node {
		return node != ""
	}
	for _, w := range t.Mates(e) {
		if w.Node == node {
			return true
		}
	}
	return false
}

// Resolve adds what the topology knows about an entity.
func (t *Topology) Resolve(e state.Entity) state.Entity {
	var w *state.Worker
	if e.Pod != "" {
		w = t.ByPod[PlaceOf(e.Namespace, e.Pod)]
	}
	if w == nil && e.Pod == "" && e.Instance != "" {
		w = t.byInstance[e.Instance]
	}
	if w == nil && e.Pod == "" && e.GPU != "" {
		w = t.byGPU[PlaceOf(e.Node, e.GPU)]
	}
	if w != nil {
		e.Pod, e.Pool = cmp.Or(w.Pod, e.Pod), cmp.Or(w.Pool, e.Pool)
		e.Namespace, e.Model = cmp.Or(w.Namespace, e.Namespace), cmp.Or(w.Model, e.Model)
		e.Node = cmp.Or(w.Node, e.Node)
		return e
	}
	if e.Pod != "" && e.Pool == "" {
		e.Pool = PoolOf(e.Pod)
	}
	if e.Pod == "" && e.Pool == "" {
		e = t.ofJob(e)
	}
	if pools := t.Behind(e.Namespace, e.Pool); len(pools) == 1 {
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
	if e.Pool != "" && len(t.Pools) > 0 {
		e.Model = cmp.Or(t.modelOf(e.Namespace+"/"+e.Pool), e.Model)
	}
	return e
}

// Correct replaces the pool of a scope, which comes from labels, if live context has no such pool.
// It adds the model that the pool serves.
func (t *Topology) Correct(s state.Scope) state.Scope {
	if key := s.Namespace + "/" + s.Pool; t.Pools[key] != nil {
		if model := t.modelOf(key); model != "" && !t.serves(s.Model) {
			s.Model = model // unknown, or another name of this one
		}
		return s
	}
	if len(t.Pools) == 0 || s.Pool == "" {
		return s
	}
	if pools := t.Behind(s.Namespace, s.Pool); len(pools) == 1 {
		s.Pool = pools[0]
		return t.Correct(s)
	}
	if s.Namespace == "" {
		for _, w := range t.ByPod {
			if w.Pool == s.Pool {
				return s
			}
		}
	}
	s.Pool = ""
	for _, p := range s.Pods {
		if w := t.ByPod[PlaceOf(s.Namespace, p)]; w != nil {
			s.Pool = w.Pool
			break
		}
	}
	return s
}

// InScope reports whether a resolved entity can be part of a scope.
func (t *Topology) InScope(e state.Entity, s state.Scope) bool {
	if Conflict(e.Cluster, s.Cluster) {
		return false
	}
	if e.Pod == "" && e.Instance != "" && e.Model == "" && e.Pool == "" && len(t.all) > 0 &&
		t.byInstance[e.Instance] == nil {
		return false // the address of a target that is no worker
	}
	onNode := t.onNodeOf(e, s)
	if e.Pod == "" && (e.GPU != "" || e.Node != "") {
		return t.nodeInScope(e, s, onNode)
	}
	if s.Pool == "" && s.Model == "" && len(s.Nodes) > 0 {
		return onNode
	}
	return agree(e.Namespace, e.Pool, e.Model, s)
}

// onNodeOf reports whether the entity is on a node of the scope. An engine is on all nodes of its
// pods.
func (t *Topology) onNodeOf(e state.Entity, s state.Scope) bool {
	if e.Node != "" && slices.Contains(s.Nodes, e.Node) {
		return true
	}
	if e.Pod == "" || len(t.groups) == 0 {
		return false
	}
	for _, n := range s.Nodes {
		if t.Reaches(e, n) {
			return true
		}
	}
	return false
}

// nodeInScope reports whether a node or GPU is in the scope: a worker of the scope is on the node.
func (t *Topology) nodeInScope(e state.Entity, s state.Scope, onNode bool) bool {
	if onNode || s.Pool == "" && s.Model == "" && len(s.Nodes) == 0 {
		return true
	}
	for _, w := range t.Nodes[e.Node] {
		if agree(w.Namespace, w.Pool, w.Model, s) {
			return len(s.Nodes) == 0 || s.Pool != ""
		}
	}
	return len(t.Nodes) == 0 && len(s.Nodes) == 0
}

// agree reports whether none of the names conflicts with the scope's.
func agree(namespace, pool, model string, s state.Scope) bool {
	return !Conflict(namespace, s.Namespace) && !Conflict(pool, s.Pool) &&
		!Conflict(strings.ToLower(model), strings.ToLower(s.Model))
}

// Conflict reports whether both names are known and not equal.
func Conflict(a, b string) bool { return a != "" && b != "" && a != b }
