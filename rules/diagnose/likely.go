package diagnose

import (
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/state"
)

// leads is the lead in decibans from which the first candidate leads the second.
const leads = 1

// likely returns the leading candidate of a verdict that names no cause, or nil if none leads. If
// missing signals would distinguish it from look-alikes, or could show the root cause behind it, it
// leads by what was measured. None leads if more evidence speaks against the first than for it.
func likely(c *catalog.Catalog, v verdict) *state.Likely {
	best := &v.ranked[0]
	if !best.isCandidate() || best.score < 0 || v.view.Empty() {
		return nil
	}
	for i := range v.ranked[1:] {
		if w := &v.ranked[i+1]; w.isCandidate() && best.score < w.score+leads {
			return nil
		}
	}
	return &state.Likely{Cause: best.cause.ID, Confidence: best.confidence, Lacks: needs(c, v, best)}
}

// unknownShare returns the confidence of unknown: one minus the sum of the candidates'.
func (v verdict) unknownShare() float64 {
	left := 1.0
	for i := range v.ranked {
		if w := &v.ranked[i]; w.isCandidate() {
			left -= w.confidence
		}
	}
	return condition.Round(max(0, left), 4)
}
