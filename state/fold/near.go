package fold

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// mostCandidates bounds how many open incidents a new sign is weighed against, newest first, so
// that the cost of an alert does not grow with the number of open incidents.
const mostCandidates = 64

// entityKeys are the words under which an incident about the entity is found. A pod also stands for
// its pool and its node, a node for the pools that have a worker on it, as far as live context has
// told.
func (b *Board) entityKeys(e state.Entity, rule string) []string {
	var keys []string
	add := func(kind string, parts ...string) {
		if parts[len(parts)-1] != "" {
			keys = append(keys, kind+":"+strings.ToLower(strings.Join(parts, "/")))
		}
	}
	add("pod", e.Pod)
	add("pool", e.Pool)
	add("model", e.Model)
	add("node", e.Node)
	add("instance", e.Instance)
	// What owns a pool, or routes to it, may give its own name for it in an alert.
	addPool := func(w *state.Worker) {
		add("pool", w.Pool)
		add("model", w.Model)
		add("pool", w.Owner)
		for _, r := range w.Routes {
			_, name, _ := strings.Cut(r, "/")
			add("pool", name)
		}
	}
	if w := b.workers[workerKey(e.Cluster, e.Namespace, e.Pod)]; w != nil {
		addPool(&w.Worker)
		add("node", w.Worker.Node)
	}
	if e.Node != "" {
		for key := range b.onNode[e.Cluster+"/"+e.Node] {
			addPool(&b.workers[key].Worker)
		}
	}
	add(ruleKey, rule)
	slices.Sort(keys)
	return slices.Compact(keys)
}

// An incident about something that no rule knows is also found by the alert's own rule, and one
// that names no place by that.
const (
	ruleKey = "rule"
	nowhere = "nowhere:"
)

// entity says whether a key is the name of a place.
func entity(key string) bool { return key != nowhere && !strings.HasPrefix(key, ruleKey+":") }

// signKeys are the words under which an alert's incident is found.
func (b *Board) signKeys(rec *state.AlertRecord) []string {
	rule := ""
	if rec.Sign.Symptom == state.Unclassified {
		rule = rec.Alert.Name()
	}
	keys := b.entityKeys(rec.Sign.Entity, rule)
	if !slices.ContainsFunc(keys, entity) {
		keys = append(keys, nowhere)
	}
	return keys
}

func scopeEntity(s state.Scope) state.Entity {
	return state.Entity{Cluster: s.Cluster, Namespace: s.Namespace, Model: s.Model, Pool: s.Pool}
}

// A shelf holds open incidents, the newest last: the newest are found without a look at the others.
type shelf []*state.Incident

func byOpening(x, y *state.Incident) int {
	return cmp.Or(x.OpenedAt.Compare(y.OpenedAt), strings.Compare(string(x.ID), string(y.ID)))
}

func (s shelf) with(in *state.Incident) shelf {
	at, found := slices.BinarySearchFunc(s, in, byOpening)
	if found {
		return s
	}
	return slices.Insert(s, at, in)
}

func (s shelf) without(in *state.Incident) shelf {
	at, found := slices.BinarySearchFunc(s, in, byOpening)
	if !found {
		return s
	}
	return slices.Delete(s, at, at+1)
}

// newest yields the incidents that a sign may be weighed against, newest first.
func (s shelf) newest(yield func(*state.Incident) bool) {
	n := 0
	for _, in := range slices.Backward(s) {
		if !in.Open() {
			continue
		}
		if n++; n > mostCandidates || !yield(in) {
			return
		}
	}
}

// index makes the incident findable by what it is about.
func (b *Board) index(in *state.Incident, keys []string) {
	own := b.keys[in.ID]
	if own == nil {
		own = map[string]bool{}
		b.keys[in.ID] = own
		b.open = b.open.with(in)
	}
	for _, key := range keys {
		if own[key] {
			continue
		}
		own[key] = true
		b.near[key] = b.near[key].with(in)
	}
}

// indexScope makes the incident findable by what its verdict found broken, and by the other names
// of that.
func (b *Board) indexScope(in *state.Incident) { b.index(in, b.scopeKeys(in)) }

func (b *Board) scopeKeys(in *state.Incident) []string {
	keys := b.entityKeys(scopeEntity(in.Scope), "")
	for _, node := range in.Scope.Nodes {
		keys = append(keys, b.entityKeys(state.Entity{Cluster: in.Cluster, Node: node}, "")...)
	}
	for _, pod := range in.Scope.Pods {
		keys = append(keys, b.entityKeys(state.Entity{Cluster: in.Cluster, Namespace: in.Scope.Namespace, Pod: pod}, "")...)
	}
	return keys
}

// indexParts makes the incident findable by what a part of it is about: itself, or an incident that
// was merged into it.
func (b *Board) indexParts(in, part *state.Incident) {
	for fp := range b.held[part.ID] {
		b.index(in, b.signKeys(b.alerts[fp]))
	}
	b.index(in, b.scopeKeys(part))
	for _, id := range part.Absorbed {
		if merged := b.incidents[id]; merged != nil {
			b.indexParts(in, merged)
		}
	}
}

// unindex takes a resolved incident out of the reach of new signs.
func (b *Board) unindex(in *state.Incident) {
	for key := range b.keys[in.ID] {
		if left := b.near[key].without(in); len(left) > 0 {
			b.near[key] = left
		} else {
			delete(b.near, key)
		}
	}
	delete(b.keys, in.ID)
	b.open = b.open.without(in)
	if key := everywhereKey(in.Cluster, in.Everywhere); b.everywhere[key] == in {
		delete(b.everywhere, key)
	}
}

// candidates are the open incidents that a sign with these keys may belong to, newest first: those
// that share an entity, and after them those that share the rule or name no place. What names no
// place itself may belong to any.
func (b *Board) candidates(keys []string) []*state.Incident {
	seen := map[*state.Incident]bool{}
	var out []*state.Incident
	collect := func(s shelf) {
		for in := range s.newest {
			if !seen[in] {
				seen[in] = true
				out = append(out, in)
			}
		}
	}
	for _, key := range keys {
		if entity(key) {
			collect(b.near[key])
		}
	}
	settled := len(out)
	newestFirst(out)
	for _, key := range keys {
		if !entity(key) {
			collect(b.near[key])
		}
	}
	collect(b.near[nowhere])
	newestFirst(out[settled:])
	if slices.Contains(keys, nowhere) && len(out) < mostCandidates {
		settled = len(out)
		collect(b.open)
		newestFirst(out[settled:])
	}
	return out[:min(len(out), mostCandidates)]
}

func newestFirst(list []*state.Incident) {
	slices.SortFunc(list, func(x, y *state.Incident) int { return byOpening(y, x) })
}

// topology are the workers that bear on an entity: its pod's, its node's, and those of the pools of
// its candidates.
func (b *Board) topology(e state.Entity, open []*state.Incident) []state.Worker {
	if len(b.workers) == 0 {
		return nil
	}
	seen := map[*workerRecord]bool{}
	var out []state.Worker
	add := func(w *workerRecord) {
		if w != nil && !seen[w] {
			seen[w] = true
			out = append(out, w.Worker)
		}
	}
	add(b.workers[workerKey(e.Cluster, e.Namespace, e.Pod)])
	for key := range b.onNode[e.Cluster+"/"+e.Node] {
		add(b.workers[key])
	}
	var key []byte // every candidate may have 64 pods: looking them up must not cost a string each
	for _, in := range open {
		key = append(append(append(append(key[:0], in.Cluster...), '/'), in.Scope.Namespace...), '/')
		space := len(key)
		for _, pod := range in.Scope.Pods {
			add(b.workers[string(append(key[:space], pod...))])
		}
	}
	slices.SortFunc(out, func(x, y state.Worker) int {
		return cmp.Or(strings.Compare(x.Namespace, y.Namespace), strings.Compare(x.Pod, y.Pod))
	})
	return out
}

func workerKey(cluster, namespace, pod string) string {
	return cluster + "/" + namespace + "/" + pod
}

// mostLearned bounds the workers that one gathering writes: more than 999 records
// (jetstream.MaxRecords) are written twice.
const mostLearned = 250

// learn remembers the workers that a gathering of evidence found. A worker is written again only
// when something of it has changed, or when it would otherwise be forgotten. Of very many, the next
// gathering writes the rest.
func (b *Board) learn(cluster string, workers []state.Worker, at time.Time) {
	n := 0
	for _, w := range workers {
		key := workerKey(cluster, w.Namespace, w.Pod)
		if old := b.workers[key]; old != nil && at.Sub(old.At) < workerKept/2 && sameWorker(old.Worker, w) {
			continue
		}
		if n++; n > mostLearned {
			return
		}
		b.addWorker(&workerRecord{Cluster: cluster, Worker: w, At: at})
		b.touch(kindWorker, key)
	}
}

func sameWorker(x, y state.Worker) bool {
	lists := slices.Equal(x.GPUs, y.GPUs) && slices.Equal(x.Routes, y.Routes) && slices.Equal(x.Jobs, y.Jobs)
	return lists && x.Group == y.Group && x.Role == y.Role && x.Owner == y.Owner && x.OwnerKind == y.OwnerKind && x.Namespace == y.Namespace && x.Pod == y.Pod && x.UID == y.UID && x.Pool == y.Pool && x.PoolKind == y.PoolKind &&
		x.Model == y.Model && x.Node == y.Node && x.Instance == y.Instance && x.Engine == y.Engine && x.Ready == y.Ready
}

// workerKept is how long a worker that no evidence mentions any more is remembered.
const workerKept = 6 * time.Hour

func (b *Board) addWorker(rec *workerRecord) {
	key := workerKey(rec.Cluster, rec.Worker.Namespace, rec.Worker.Pod)
	b.dropWorker(key)
	b.workers[key] = rec
	if rec.Worker.Node != "" {
		node := rec.Cluster + "/" + rec.Worker.Node
		if b.onNode[node] == nil {
			b.onNode[node] = map[string]bool{}
		}
		b.onNode[node][key] = true
	}
}

func (b *Board) dropWorker(key string) {
	if old := b.workers[key]; old != nil {
		delete(b.onNode[old.Cluster+"/"+old.Worker.Node], key)
		delete(b.workers, key)
	}
}
