package evidence

import (
	"cmp"
	"slices"
	"sync"

	"paramedic/rules/topology"
	"paramedic/state"
)

// A entityIndex maps the entities of samples to groups. It remembers the order, since most signals
// list the same entities in the same order.
type entityIndex struct {
	view   *View
	top    *topology.Topology
	groups map[topology.Place]*Subject // by kind and key
	found  []indexedSubject            // the same groups in the order of discovery
	at     map[state.Entity]int        // index in seen
	seen   []indexedEntity
	last   int
}

// An indexedSubject is a group with its kind.
type indexedSubject struct {
	kind string
	*Subject
}

// A indexedEntity is an entity as samples name it, with the entity that it resolves to.
type indexedEntity struct {
	raw, e  state.Entity
	inScope bool
	counted bool
	id      int // number of the subject's key; below zero it is the pool
	next    int // index of the sighting that followed it last time
}

// censuses recycles finished censuses. Their memory is a fifth of what a diagnosis would otherwise
// allocate.
var censuses = sync.Pool{New: func() any { return &entityIndex{groups: map[topology.Place]*Subject{}, at: map[state.Entity]int{}} }}

// done clears the index, because the names belong to the evidence and the groups to the view, and
// recycles it.
func (c *entityIndex) done() {
	clear(c.groups)
	clear(c.at)
	clear(c.seen)
	clear(c.found)
	*c = entityIndex{groups: c.groups, found: c.found[:0], at: c.at, seen: c.seen[:0]}
	censuses.Put(c)
}

func (c *entityIndex) find(e *state.Entity) *indexedEntity {
	if c.last < len(c.seen) {
		if i := c.seen[c.last].next; i < len(c.seen) && c.seen[i].raw == *e {
			c.last = i
			return &c.seen[i]
		}
	}
	i, ok := c.at[*e]
	if !ok {
		i = len(c.seen)
		c.at[*e] = i
		r := c.top.Resolve(*e)
		c.seen = append(c.seen, indexedEntity{raw: *e, e: r, inScope: c.top.InScope(r, c.view.scope), next: i + 1})
	}
	c.seen[c.last].next = i
	c.last = i
	return &c.seen[i]
}

// ofAnotherRole reports whether the entity is a worker of the phase that the view does not cover.
func (c *entityIndex) ofAnotherRole(e state.Entity) bool {
	if c.view.role == "" || e.Pod == "" {
		return false
	}
	w := c.top.ByPod[topology.PlaceOf(e.Namespace, e.Pod)]
	return w != nil && topology.Conflict(w.Role, c.view.role)
}

// counted adds the entity to the view at its first sample that counts.
func (c *entityIndex) counted(k *indexedEntity) *indexedEntity {
	if k.counted {
		return k
	}
	k.counted, k.id = true, -1
	e, v := k.e, c.view
	key := cmp.Or(e.Pod, e.Instance)
	switch {
	case e.GPU != "":
		gpu := e.Node + "/" + e.GPU
		c.add("gpu", Subject{key: gpu, pod: e.Pod, node: e.Node, gpu: e.GPU})
		k.id = v.id(gpu)
		if pod := v.id(e.Pod); e.Pod != "" && !slices.Contains(v.gpusOf[pod], k.id) {
			v.gpusOf[pod] = append(v.memory.ids.Grow(v.gpusOf[pod], 1), k.id)
		}
	case key != "":
		c.add("pod", Subject{key: key, pod: key, node: e.Node})
		k.id = v.id(key)
	case e.Node != "":
		c.add("node", Subject{key: e.Node, node: e.Node})
		k.id = v.id(e.Node)
	}
	return k
}

func (c *entityIndex) add(kind string, g Subject) {
	if have, ok := c.groups[topology.PlaceOf(kind, g.key)]; ok {
		have.pod, have.node, have.gpu = cmp.Or(have.pod, g.pod), cmp.Or(have.node, g.node), cmp.Or(have.gpu, g.gpu)
		return
	}
	g.view = c.view
	own := &c.view.memory.groups.Take(1)[0]
	*own = g
	c.groups[topology.PlaceOf(kind, g.key)] = own
	c.found = append(c.found, indexedSubject{kind, own})
}
