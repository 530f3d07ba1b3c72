package catalog

import (
	"maps"
	"slices"
	"strings"

	"paramedic/rules/condition"
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

	Condition *condition.Expression
	line      int
	file      string
}

// Pathologies returns the pathologies, sorted by ID.
func (c *Catalog) Pathologies() []*Pathology {
	out := make([]*Pathology, 0, len(c.pathologies))
	for _, id := range slices.Sorted(maps.Keys(c.pathologies)) {
		out = append(out, c.pathologies[id])
	}
	return out
}

// Reads returns the signals that a pathology or its text uses.
func (p *Pathology) Reads() []string {
	out := slices.Clone(p.Condition.Signals)
	for _, name := range placeholders(p.Text) {
		base, _, _ := strings.Cut(name, ".")
		out = append(out, base)
	}
	return out
}

// pathology loads one entry; a user's entry replaces the built-in one of the same ID.
func (l *loader) pathology(y pathologyYAML) {
	p := &Pathology{ID: y.ID.Value, Title: y.Title, Published: y.Published, Corrected: y.Corrected, When: y.When.Value,
		Per: y.Per, Text: y.Text.Value, file: l.file, line: y.ID.Line}
	for _, t := range y.PointsTo {
		p.PointsTo = append(p.PointsTo, state.Cause(t.Value))
	}
	if !slices.Contains([]string{"", "pod", "gpu", "node"}, p.Per) {
		l.bad(p.line, "pathology %s: per: %q is none of pod, gpu, node", p.ID, p.Per)
	}
	l.placeholders(y.Text, true)
	if p.When == "" {
		return // decode has reported missing keys
	}
	var err error
	if p.Condition, err = l.env.Compile(p.When); err != nil {
		l.bad(y.When.Line, "%v", err)
		return
	}
	if len(p.Condition.Signals) == 0 {
		l.bad(y.When.Line, "pathology %s reads no signal", p.ID)
		return
	}
	if p.ID != "" {
		l.cat.pathologies[p.ID] = p
	}
}
