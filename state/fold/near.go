package fold

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"paramedic/state"
	"paramedic/state/fold/index"
	"paramedic/state/fold/packed"
)

// entityKeys returns the index keys of an entity. A pod also has the keys of its pool and its node,
// and a node those of the pools with a worker on it, if live context knows them.
func (b *Board) entityKeys(e state.Entity, rule string) []index.Key {
	keys := make([]index.Key, 0, 8)
	add := func(kind, name string) {
		switch {
		case name == "":
		case kind == jobKey || kind == ruleKey:
			keys = append(keys, index.OtherKey(kind, name))
		default:
			keys = append(keys, index.PlaceKey(kind, name))
		}
	}
	add("pod", e.Pod)
	add("pool", e.Pool)
	add("model", e.Model)
	add("node", e.Node)
	add("instance", e.Instance)
	add(jobKey, e.Job)
	// An alert may call the pool by the name of its owner, or of an object that routes to it.
	addPool := func(w *state.Worker) {
		add("pool", w.Pool)
		add("model", w.Model)
		add("pool", w.Owner)
		for _, r := range w.Routes {
			_, name, _ := strings.Cut(r, "/")
			add("pool", name)
		}
	}
	if w := b.workerOf(e); w != nil {
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

// An incident about an unknown rule is also found by that rule, as is a benign one, one about a
// scrape by its job and its namespace, and one about a part that pools share by its cause. An
// incident without a place is found by [index.Nowhere].
const (
	ruleKey   = "rule"
	jobKey    = "job"
	scrapeKey = "scrape"
	sharedKey = "shared"

	targetDown state.Symptom = "target_down"
)

// signKeys returns the index keys of an alert's incident.
func (b *Board) signKeys(rec *state.AlertRecord) []index.Key {
	return b.keysOfSign(rec.Sign.Symptom, rec.Sign.Entity, rec.Alert.Name())
}

// alertKeys returns the same of an alert on the board.
func (b *Board) alertKeys(a *packed.Alert) []index.Key {
	return b.keysOfSign(a.Symptom(), a.Entity(), a.Rule())
}

func (b *Board) keysOfSign(s state.Symptom, e state.Entity, rule string) []index.Key {
	if s != state.Unclassified {
		rule = ""
	}
	keys := b.entityKeys(e, rule)
	if !slices.ContainsFunc(keys, index.Key.NamesPlace) {
		keys = append(keys, index.Nowhere)
	}
	if s == targetDown {
		keys = appendScrapeKey(keys, e.Namespace)
	}
	return keys
}

func appendScrapeKey(keys []index.Key, namespace string) []index.Key {
	if namespace == "" {
		return keys
	}
	return append(keys, index.OtherKey(scrapeKey, namespace))
}

// scrapeKeys returns the index key of an incident's failed scrapes. What cuts Prometheus off from
// workers mostly cuts it off from the other targets of their namespace.
func scrapeKeys(in *state.Incident) []index.Key {
	if !slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool { return s.Symptom == targetDown }) {
		return nil
	}
	return appendScrapeKey(nil, in.Scope.Namespace)
}

// indexScope makes the incident findable by the scope of its verdict, and by the other names of
// that.
func (b *Board) indexScope(in *state.Incident) { b.open.Add(in, b.scopeKeys(in)) }

func (b *Board) scopeKeys(in *state.Incident) []index.Key {
	keys := b.entityKeys(in.Scope.Entity(), "")
	for _, node := range in.Scope.Nodes {
		keys = append(keys, b.entityKeys(state.Entity{Cluster: in.Cluster, Node: node}, "")...)
	}
	for _, pod := range in.Scope.Pods {
		keys = append(keys, b.entityKeys(state.Entity{Cluster: in.Cluster, Namespace: in.Scope.Namespace, Pod: pod},
			"")...)
	}
	return append(append(keys, b.benignKeys(in)...), sharedKeys(in)...)
}

// sharedKeys returns the index key of an incident whose cause is in a part that pools share.
func sharedKeys(in *state.Incident) []index.Key {
	if !in.Cause().IsShared() {
		return nil
	}
	return []index.Key{index.OtherKey(sharedKey, in.Cluster+"/"+string(in.Cause()))}
}

// poolsOf returns the pools in which the incident's cause shows, if there are several: those known,
// its own, and those of the alerts' workers, if they are on a broken node or pools share the cause.
// Then those of merged incidents with the same cause count, too.
func (b *Board) poolsOf(in *state.Incident, known []state.PoolName) []state.PoolName {
	out := state.AddPool(slices.Clone(known), in.Scope.PoolName())
	shared, named := in.Cause().IsShared(), in.Cause() != state.Unknown
	for _, s := range in.Symptoms {
		for _, e := range s.Entities {
			if w := b.workerOf(e); w != nil && (shared || named && slices.Contains(in.Diagnosis.Scope.Nodes, w.Worker.Node)) {
				out = state.AddPool(out, w.Worker.PoolName())
			}
		}
	}
	for _, id := range in.Absorbed {
		if merged := b.incidents[id]; shared && merged != nil && merged.Cause() == in.Cause() {
			for _, p := range slices.Concat(merged.Pools, []state.PoolName{merged.Scope.PoolName()}) {
				out = state.AddPool(out, p)
			}
		}
	}
	return state.Several(out)
}

// benignKeys returns the index keys of a benign incident's rules. The rule is at fault, and may
// fire in other places.
func (b *Board) benignKeys(in *state.Incident) (keys []index.Key) {
	if in.Cause() != state.BenignAlert {
		return nil
	}
	for _, s := range in.Symptoms {
		for _, rule := range s.Rules {
			keys = append(keys, index.OtherKey(ruleKey, rule))
		}
	}
	return keys
}

// indexParts makes the incident findable by the alerts and the scope of part: the incident itself,
// or one that was merged into it.
func (b *Board) indexParts(in, part *state.Incident) {
	for a := range b.alerts.Of(part.ID) {
		b.open.Add(in, b.alertKeys(a))
	}
	b.open.Add(in, b.scopeKeys(part))
	for _, id := range part.Absorbed {
		if merged := b.incidents[id]; merged != nil {
			b.indexParts(in, merged)
		}
	}
}

// unindex removes a resolved incident from all lists.
func (b *Board) unindex(in *state.Incident) {
	b.open.Remove(in)
	if key := everywhereKey(in.Cluster, in.Everywhere); b.everywhere[key] == in {
		delete(b.everywhere, key)
	}
}

// workersAround returns the workers that bear on an entity: those of its pod, of its node, and of
// the pools of the candidates.
func (b *Board) workersAround(e state.Entity, open []*state.Incident) []state.Worker {
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
	add(b.workerOf(e))
	for key := range b.onNode[e.Cluster+"/"+e.Node] {
		add(b.workers[key])
	}
	var key []byte // each candidate may have 64 pods, and a string for each would be slow
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

// ownKey returns the key of a worker. A worker without a pod has its address.
func ownKey(cluster string, w state.Worker) string {
	return workerKey(cluster, w.Namespace, cmp.Or(w.Pod, w.Instance))
}

// workerOf returns the worker that an entity names by its pod or by its address, or nil.
func (b *Board) workerOf(e state.Entity) *workerRecord {
	if e.Pod == "" && e.Instance != "" {
		return b.workers[b.atAddress[e.Cluster+"/"+e.Instance]]
	}
	if len(b.workers) == 0 {
		return nil // most alerts of a bot without sources: no string is made for them
	}
	return b.workers[workerKey(e.Cluster, e.Namespace, e.Pod)]
}

// maxLearned bounds the workers that one gathering writes. A commit of more than 999 records
// (jetstream.MaxRecords) is written twice.
const maxLearned = 250

// rememberWorkers stores the workers of a gathering. A worker is written again only if it has
// changed, or if it would otherwise be forgotten. If there are more than maxLearned, the next
// gathering writes the rest.
func (b *Board) rememberWorkers(cluster string, workers []state.Worker, at time.Time) {
	n := 0
	for _, w := range workers {
		key := ownKey(cluster, w)
		if old := b.workers[key]; old != nil && at.Sub(old.At) < workerKept/2 && old.Worker.Equal(w) {
			continue
		}
		if n++; n > maxLearned {
			return
		}
		b.putWorker(&workerRecord{Cluster: cluster, Worker: w, At: at})
		b.touch(kindWorker, key)
	}
}

// workerKept is the time that a worker is stored after the last evidence about it.
const workerKept = 6 * time.Hour

func (b *Board) putWorker(rec *workerRecord) {
	key := ownKey(rec.Cluster, rec.Worker)
	b.dropWorker(key)
	b.workers[key] = rec
	if rec.Worker.Instance != "" {
		b.atAddress[rec.Cluster+"/"+rec.Worker.Instance] = key
	}
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
		if address := old.Cluster + "/" + old.Worker.Instance; b.atAddress[address] == key {
			delete(b.atAddress, address)
		}
		delete(b.workers, key)
	}
}
