package rules

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"sync"

	"paramedic/state"
)

// topology answers where a pod lives. What live context says wins over what labels suggest.
type topology struct {
	byPod      map[place]*state.Worker // with its namespace, and without
	byInstance map[string]*state.Worker
	byGPU      map[place]*state.Worker
	pools      map[string]*state.Worker // a worker of each namespace/pool
	several    map[string]bool          // those that serve more than one model
	ofModel    map[string][]string      // model, lower case → its pools as namespace/pool
	nodes      map[string][]*state.Worker
	aliases    map[place][]string        // an owner's or a router's name → the pools behind it
	groups     map[place][]*state.Worker // the pods of each parallel group
	all        []*state.Worker
}

// place is a name within a namespace, or a GPU within a node.
type place struct{ in, name string }

// topologies are those that nobody asks any more: what one has grown to is a sixth of what a
// diagnosis would allocate.
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

// release forgets everything, for the next that needs a topology. Nothing may be asked of it
// afterwards.
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
			t.byPod[place{w.Namespace, w.Pod}] = w
		}
		if w.Instance != "" {
			t.byInstance[w.Instance] = w
		}
		if w.Node != "" {
			t.nodes[w.Node] = append(t.nodes[w.Node], w)
			for _, g := range w.GPUs {
				t.byGPU[place{w.Node, g}] = w
			}
		}
		if w.Group != "" {
			key := place{w.Namespace, w.EngineKey()}
			t.groups[key] = append(t.groups[key], w)
		}
		t.alias(w)
		if w.Pool != "" {
			t.pooled(w)
		}
	}
}

// pooled learns which pool a worker is in and which model that serves. A RayService may serve
// several.
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

// modelOf is what all workers of a pool serve; empty where they serve different models, or nobody
// says.
func (t *topology) modelOf(key string) string {
	if w := t.pools[key]; w != nil && !t.several[key] {
		return w.Model
	}
	return ""
}

// alias learns under which names a worker's pool is known besides its own.
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

// behind are the pools that a name stands for which is not a pool's own.
func (t *topology) behind(namespace, name string) []string {
	if name == "" || t.pools[namespace+"/"+name] != nil {
		return nil
	}
	if w := t.byPod[place{namespace, name}]; w != nil && w.Pool != "" { // a rank's name seems to call its leader its pool
		return []string{w.Pool}
	}
	return t.aliases[place{namespace, name}]
}

// mates are the workers that run one engine together with the entity's pod, itself included; nil
// where it is one by itself.
func (t *topology) mates(e state.Entity) []*state.Worker {
	if len(t.groups) == 0 || e.Pod == "" {
		return nil
	}
	if w := t.byPod[place{e.Namespace, e.Pod}]; w != nil && w.Group != "" {
		return t.groups[place{w.Namespace, w.EngineKey()}]
	}
	return nil
}

// reaches says whether the entity's pod, or one that runs an engine with it, is on the node.
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

// resolve fills in what the topology knows of an entity.
func (t *topology) resolve(e state.Entity) state.Entity {
	var w *state.Worker
	if e.Pod != "" {
		w = t.byPod[place{e.Namespace, e.Pod}]
	}
	if w == nil && e.Pod == "" && e.Instance != "" {
		w = t.byInstance[e.Instance]
	}
	if w == nil && e.Pod == "" && e.GPU != "" {
		w = t.byGPU[place{e.Node, e.GPU}]
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

// correct replaces what labels said of a scope's pool where live context knows no such pool, and
// adds the model that it serves.
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
		if w := t.byPod[place{s.Namespace, p}]; w != nil {
			s.Pool = w.Pool
			break
		}
	}
	return s
}

// inScope says whether an entity that was resolved can be part of a scope.
func (t *topology) inScope(e state.Entity, s state.Scope) bool {
	if differ(e.Cluster, s.Cluster) {
		return false
	}
	if e.Pod == "" && e.Instance != "" && e.Model == "" && e.Pool == "" && len(t.all) > 0 && t.byInstance[e.Instance] == nil {
		return false // the page of something that runs beside workers
	}
	onNode := e.Node != "" && slices.Contains(s.Nodes, e.Node)
	if !onNode && e.Pod != "" && len(t.groups) > 0 { // an engine is where any of its pods is
		for _, n := range s.Nodes {
			onNode = onNode || t.reaches(e, n)
		}
	}
	if e.Pod == "" && (e.GPU != "" || e.Node != "") {
		if onNode || s.Pool == "" && s.Model == "" && len(s.Nodes) == 0 {
			return true
		}
		// A machine is of interest where a worker of the scope is on it.
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

// differ says that both are known and not the same.
func differ(a, b string) bool { return a != "" && b != "" && a != b }

var (
	// A Deployment's pod: name, ReplicaSet hash, pod suffix. Kubernetes leaves vowels out of the
	// hash; a short one is known by its digit.
	replicaSetPod = regexp.MustCompile(`^(.+)-(?:[bcdfghjklmnpqrstvwxz0-9]{6,10}|[a-z0-9]*[0-9][a-z0-9]*)-[a-z0-9]{5}$`)
	// A StatefulSet's or LeaderWorkerSet's pod: name and ordinal.
	ordinalPod = regexp.MustCompile(`^(.+)-[0-9]{1,4}$`)
	// A DaemonSet's pod: Kubernetes leaves vowels, and digits that look like them, out of its
	// suffixes.
	suffixPod = regexp.MustCompile(`^(.+)-[bcdfghjklmnpqrstvwxz2456789]{5}$`)
)

// DeploymentOf returns the Deployment that made a ReplicaSet; one whose name does not end in a hash
// is its own workload.
func DeploymentOf(replicaSet string) string {
	const pod = "-zzzzz"
	return cmp.Or(PoolOf(replicaSet+pod), replicaSet)
}

// PoolOf guesses the workload from a pod's name, for pods that Kubernetes was not asked about;
// empty where the name has no known form. A LeaderWorkerSet's rank (name-0-1) cannot be told from a
// StatefulSet's pod (llama-3-0): it gets its leader's name, of which the topology then knows the
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
