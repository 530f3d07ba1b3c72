package health

import (
	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
	"paramedic/rules/topology"
	"paramedic/state"
)

// A SeenPathology is a pathology that a pool shows.
type SeenPathology struct {
	ID       string        `json:"id"`
	Title    string        `json:"title"`
	Text     string        `json:"text"` // the observation at the worst entity
	PointsTo []state.Cause `json:"points_to"`
	Pods     []string      `json:"pods,omitempty"` // all that show it
}

// SignalsOfCatalog returns the signals that the catalogue's Health reads.
func SignalsOfCatalog(c *catalog.Catalog) []string {
	out := Signals()
	for _, p := range c.Pathologies() {
		for _, signal := range p.Reads() {
			if _, ok := c.Units()[signal]; ok { // not placeholders such as {pod}
				out = append(out, signal)
			}
		}
	}
	return evidence.SortedSet(out)
}

// OfCatalog checks every pool in the evidence as the function Health does, and adds the pathologies
// that it shows. A pool with a pathology is not healthy.
func OfCatalog(c *catalog.Catalog, cluster string, ev state.Evidence) []Pool {
	pools := Of(cluster, ev)
	reading, top := c.WithUsed(SignalsOfCatalog(c)...), topology.NewTopology(ev.Workers)
	for i := range pools {
		p := &pools[i]
		v := evidence.Arrange(top, &state.Incident{}, topology.PoolPhase{Scope: p.Scope()}, &ev, reading)
		p.Pathologies = shown(c, v)
		v.Release()
		if len(p.Pathologies) > 0 && healthRank[p.Overall] < healthRank[HealthWarning] {
			p.Overall = HealthWarning
		}
	}
	return pools
}

// shown returns the pathologies that the view's pool shows.
func shown(c *catalog.Catalog, v *evidence.View) []SeenPathology {
	var out []SeenPathology
	for _, p := range c.Pathologies() {
		a := v.Ask(p.Condition, p.Per)
		if len(a.Hits) == 0 {
			continue
		}
		of := evidence.Words{View: v, Group: evidence.StandsOut(a.Hits, p.Condition.Signals[0]), Count: v.Engines(a.Hits),
			Total: a.Answered}
		told := SeenPathology{ID: p.ID, Title: p.Title, Text: evidence.Fill(c, p.Text, of), PointsTo: p.PointsTo}
		for _, g := range a.Hits {
			if g.Pod() != "" {
				told.Pods = append(told.Pods, g.Pod())
			}
		}
		told.Pods = evidence.SortedSet(told.Pods)
		out = append(out, told)
	}
	return out
}
