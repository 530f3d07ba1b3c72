package engine

import (
	"slices"
	"time"

	"paramedic/rules/signals"
	"paramedic/rules/topology"
	"paramedic/state"
)

// Pages of workers that are gone are kept for the baselines of the workers that replaced them.
const (
	formerFor  = 2 * time.Hour // an hour is needed; the trouble may be found later
	formerMost = 64            // at least; a larger pool keeps as many as it has workers
)

// A former is a page that is no longer listed.
type former struct {
	*target
	gone time.Time
}

// retire returns the pages to keep of those that are not listed any more, the newest last. The
// caller holds listed.
func (c *Client) retire(listed map[string]bool, current int, now time.Time) []former {
	kept := slices.DeleteFunc(slices.Clone(c.former), func(f former) bool { return listed[f.url] || now.Sub(f.gone) > formerFor })
	for _, t := range c.targets {
		if !listed[t.url] {
			kept = append(kept, former{t, now})
		}
	}
	return kept[max(0, len(kept)-max(formerMost, current)):]
}

// all returns the current pages, and these together with the former ones.
func (c *Client) all() (current, ever []*target) {
	c.listed.Lock()
	defer c.listed.Unlock()
	ever = slices.Clone(c.targets)
	for _, f := range c.former {
		ever = append(ever, f.target)
	}
	return c.targets, ever
}

// inherit gives the values of workers that are gone to their successors, if no current worker of
// their pool existed then: a rollout creates new pods. A count is divided by the number of current
// workers; other values are averaged.
func inherit(s signals.Signal, now, before map[string]entityValue) {
	type pool struct{ name, text string }
	of := func(e entityValue) (pool, bool) {
		name := poolOf(e.entity)
		return pool{name, e.text}, name != "" && e.entity.GPU == ""
	}
	gone, successors, stayed := map[pool][]float64{}, map[pool][]string{}, map[pool]bool{}
	for k, b := range before {
		p, ok := of(b)
		if _, here := now[k]; here {
			stayed[p] = true
		} else if ok {
			gone[p] = append(gone[p], b.value)
		}
	}
	for k, n := range now {
		if p, ok := of(n); ok {
			successors[p] = append(successors[p], k)
		}
	}
	for p, values := range gone {
		if stayed[p] {
			continue
		}
		slices.Sort(values) // a stable order, because a float sum depends on it
		sum := 0.0
		for _, v := range values {
			sum += v
		}
		share := len(values)
		if signals.IsCount(s.Unit) {
			share = len(successors[p])
		}
		for _, k := range successors[p] {
			before[k] = entityValue{now[k].entity, p.text, sum / float64(share)}
		}
	}
}

// poolOf returns the pool of a pod's name, or "" if the name does not show it.
func poolOf(e state.Entity) string {
	if pool := topology.PoolOf(e.Pod); pool != "" {
		return e.Namespace + "/" + pool
	}
	return ""
}
