package engine

import (
	"slices"
	"time"

	"paramedic/rules/enrich"
	"paramedic/rules/signals"
	"paramedic/state"
)

// formerMost limits the pages of workers that are gone, which are kept for the baselines of the
// workers that replaced them: as many as there are workers, or this number if it is larger. They
// are kept as long as a history (keepFor), because a trouble may be found hours late.
const formerMost = 64

// A former is a page that is no longer listed.
type former struct {
	*target
	gone time.Time
}

// retire returns the pages to keep of those that are not listed any more, the newest last. The
// caller holds listed.
func (c *Client) retire(listed map[string]bool, current int, now time.Time) []former {
	kept := slices.DeleteFunc(slices.Clone(c.former), func(f former) bool { return listed[f.url] || now.Sub(f.gone) > keepFor })
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

// inherit gives the values of workers that are gone to their successors: a rollout creates new
// pods. Pools in stayed keep their own past.
func inherit(s signals.Signal, stayed map[string]bool, now, before map[string]entityValue) {
	type pool struct{ name, text string }
	of := func(e entityValue) (pool, bool) {
		name := enrich.PodsPool(e.entity)
		return pool{name, e.text}, name != "" && e.entity.GPU == "" && !stayed[name]
	}
	gone, successors := map[pool][]float64{}, map[pool][]string{}
	for _, b := range before {
		if p, ok := of(b); ok {
			gone[p] = append(gone[p], b.value)
		}
	}
	for k, n := range now {
		if p, ok := of(n); ok {
			successors[p] = append(successors[p], k)
		}
	}
	for p, values := range gone {
		value := enrich.Inherited(s, values, len(successors[p]))
		for _, k := range successors[p] {
			before[k] = entityValue{now[k].entity, p.text, value}
		}
	}
}

// stayed returns the pools with a current worker that was there at a moment.
func stayed(current []*target, moment time.Time) map[string]bool {
	out := map[string]bool{}
	for _, t := range current {
		if rows := t.history.rows; len(rows) > 0 && !rows[0].at.After(moment) {
			l := t.with(t.own)
			out[enrich.PodsPool(state.Entity{Namespace: l["namespace"], Pod: l["pod"]})] = true
		}
	}
	return out
}
