package rules

import (
	"maps"
	"slices"
	"strings"

	"paramedic/state"
)

// A Pathology is a pattern of several signals that operators recognize by its values. It is shown
// with a pool's health and has no weight: it ignores the pool's own past, and several causes look
// like it.
type Pathology struct {
	ID        string `json:"id"`
	Title     string `json:"title"`
	Published string `json:"published"` // the pattern in its own numbers
	// Corrected is the mistake in the published pattern, and the condition used instead.
	Corrected string        `json:"corrected,omitempty"`
	When      string        `json:"when"`
	Per       string        `json:"per,omitempty"` // pod, gpu; empty: the whole pool
	Text      string        `json:"text"`
	PointsTo  []state.Cause `json:"points_to"`

	when *expression
	line int
	file string
}

// A SeenPathology is a pathology that a pool shows.
type SeenPathology struct {
	ID       string        `json:"id"`
	Title    string        `json:"title"`
	Text     string        `json:"text"` // the observation at the worst entity
	PointsTo []state.Cause `json:"points_to"`
	Pods     []string      `json:"pods,omitempty"` // all that show it
}

// Pathologies returns the pathologies, sorted by ID.
func (c *Catalog) Pathologies() []*Pathology {
	out := make([]*Pathology, 0, len(c.pathologies))
	for _, id := range slices.Sorted(maps.Keys(c.pathologies)) {
		out = append(out, c.pathologies[id])
	}
	return out
}

// reads returns the signals that a pathology or its text uses.
func (p *Pathology) reads() []string {
	out := slices.Clone(p.when.signals)
	for _, name := range placeholders(p.Text) {
		base, _, _ := strings.Cut(name, ".")
		out = append(out, base)
	}
	return out
}

// HealthSignals returns the signals that the catalogue's Health reads.
func (c *Catalog) HealthSignals() []string {
	out := HealthSignals()
	for _, p := range c.pathologies {
		for _, signal := range p.reads() {
			if _, ok := c.units[signal]; ok { // not placeholders such as {pod}
				out = append(out, signal)
			}
		}
	}
	return sortedSet(out)
}

// Health checks every pool in the evidence as the function Health does, and adds the pathologies
// that it shows. A pool with a pathology is not healthy.
func (c *Catalog) Health(cluster string, ev state.Evidence) []PoolHealth {
	pools := Health(cluster, ev)
	reading, top := c.reading(c.HealthSignals()...), newTopology(ev.Workers)
	for i := range pools {
		p := &pools[i]
		v := top.view(&state.Incident{}, ward{scope: p.Scope()}, &ev, reading)
		p.Pathologies = c.shown(v)
		v.release()
		if len(p.Pathologies) > 0 && healthRank[p.Overall] < healthRank[HealthWarning] {
			p.Overall = HealthWarning
		}
	}
	return pools
}

// shown returns the pathologies that the view's pool shows.
func (c *Catalog) shown(v *view) []SeenPathology {
	var out []SeenPathology
	for _, p := range c.Pathologies() {
		a := v.ask(p.when, p.Per)
		if len(a.hits) == 0 {
			continue
		}
		of := placeholder{view: v, group: standsOut(a.hits, p.when.signals[0]), count: v.engines(a.hits),
			total: a.answered}
		told := SeenPathology{ID: p.ID, Title: p.Title, Text: c.fill(p.Text, of), PointsTo: p.PointsTo}
		for _, g := range a.hits {
			if g.pod != "" {
				told.Pods = append(told.Pods, g.pod)
			}
		}
		told.Pods = sortedSet(told.Pods)
		out = append(out, told)
	}
	return out
}

// pathology loads one entry; a user's entry replaces the built-in one of the same ID.
func (l *loader) pathology(y pathologyYAML) {
	p := &Pathology{ID: y.ID.s, Title: y.Title, Published: y.Published, Corrected: y.Corrected, When: y.When.s,
		Per: y.Per, Text: y.Text.s, file: l.file, line: y.ID.line}
	for _, t := range y.PointsTo {
		p.PointsTo = append(p.PointsTo, state.Cause(t.s))
	}
	if !slices.Contains([]string{"", "pod", "gpu", "node"}, p.Per) {
		l.bad(p.line, "pathology %s: per: %q is none of pod, gpu, node", p.ID, p.Per)
	}
	l.placeholders(y.Text, true)
	if p.When == "" {
		return // decode has reported missing keys
	}
	var err error
	if p.when, err = l.env.compile(p.When); err != nil {
		l.bad(y.When.line, "%v", err)
		return
	}
	if len(p.when.signals) == 0 {
		l.bad(y.When.line, "pathology %s reads no signal", p.ID)
		return
	}
	if p.ID != "" {
		l.cat.pathologies[p.ID] = p
	}
}
