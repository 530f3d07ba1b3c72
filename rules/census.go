package rules

import (
	"cmp"
	"slices"
	"sync"

	"paramedic/state"
)

// A census maps the entities of samples to groups. It remembers the order, since most signals list
// the same entities in the same order.
type census struct {
	view   *view
	top    *topology
	groups map[place]*group     // by kind and key
	found  []entry              // the same groups in the order of discovery
	at     map[state.Entity]int // index in seen
	seen   []sighting
	last   int
}

// An entry is a group with its kind.
type entry struct {
	kind string
	*group
}

// A sighting is an entity as samples name it, with the entity that it resolves to.
type sighting struct {
	raw, e  state.Entity
	inScope bool
	counted bool
	id      int // number of the group's key; below zero it is the pool
	next    int // index of the sighting that followed it last time
}

// censuses recycles finished censuses. Their memory is a fifth of what a diagnosis would otherwise
// allocate.
var censuses = sync.Pool{New: func() any { return &census{groups: map[place]*group{}, at: map[state.Entity]int{}} }}

// done clears the census, because the names belong to the evidence and the groups to the view, and
// recycles it.
func (c *census) done() {
	clear(c.groups)
	clear(c.at)
	clear(c.seen)
	clear(c.found)
	*c = census{groups: c.groups, found: c.found[:0], at: c.at, seen: c.seen[:0]}
	censuses.Put(c)
}

func (c *census) find(e *state.Entity) *sighting {
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
		r := c.top.resolve(*e)
		c.seen = append(c.seen, sighting{raw: *e, e: r, inScope: c.top.inScope(r, c.view.scope), next: i + 1})
	}
	c.seen[c.last].next = i
	c.last = i
	return &c.seen[i]
}

// ofAnotherRole reports whether the entity is a worker of the phase that the view does not cover.
func (c *census) ofAnotherRole(e state.Entity) bool {
	if c.view.role == "" || e.Pod == "" {
		return false
	}
	w := c.top.byPod[placeOf(e.Namespace, e.Pod)]
	return w != nil && differ(w.Role, c.view.role)
}

// counted adds the entity to the view at its first sample that counts.
func (c *census) counted(k *sighting) *sighting {
	if k.counted {
		return k
	}
	k.counted, k.id = true, -1
	e, v := k.e, c.view
	key := cmp.Or(e.Pod, e.Instance)
	switch {
	case e.GPU != "":
		gpu := e.Node + "/" + e.GPU
		c.add("gpu", group{key: gpu, pod: e.Pod, node: e.Node, gpu: e.GPU})
		k.id = v.id(gpu)
		if pod := v.id(e.Pod); e.Pod != "" && !slices.Contains(v.gpusOf[pod], k.id) {
			v.gpusOf[pod] = append(v.memory.ids.Grow(v.gpusOf[pod], 1), k.id)
		}
	case key != "":
		c.add("pod", group{key: key, pod: key, node: e.Node})
		k.id = v.id(key)
	case e.Node != "":
		c.add("node", group{key: e.Node, node: e.Node})
		k.id = v.id(e.Node)
	}
	return k
}

func (c *census) add(kind string, g group) {
	if have, ok := c.groups[placeOf(kind, g.key)]; ok {
		have.pod, have.node, have.gpu = cmp.Or(have.pod, g.pod), cmp.Or(have.node, g.node), cmp.Or(have.gpu, g.gpu)
		return
	}
	g.view = c.view
	own := &c.view.memory.groups.Take(1)[0]
	*own = g
	c.groups[placeOf(kind, g.key)] = own
	c.found = append(c.found, entry{kind, own})
}
