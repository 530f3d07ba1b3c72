package diagnose

import (
	"cmp"
	"slices"
	"strings"

	"paramedic/rules/catalog"
	"paramedic/state"
)

// The IDs of the weights that are the same for all causes.
const (
	termUnexplained = "unexplained"
	termBeside      = "beside"
	termAnotherPool = "another_pool"
	termElsewhere   = "elsewhere"
)

// A Term is one weight in the sum of a cause.
type Term struct {
	ID     string // such as kv_exhaustion/evidence/3, or unexplained for a weight of all causes
	Weight float64
	Count  int // how often it is added
}

// A Sum is the score of one cause with its terms.
type Sum struct {
	Cause     state.Cause
	Score     float64
	Candidate bool // listed as a candidate of its own; all other causes are part of unknown
	Terms     []Term
}

// Sums returns the sum of every cause in the pool that the verdict of [Diagnose] is about, sorted
// by cause. Each begins with the prior. Counts times weights add up to the score.
func Sums(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) []Sum {
	v := bestVerdict(c, in, ev)
	defer v.release()
	out := make([]Sum, len(v.ranked))
	for i := range v.ranked {
		w := &v.ranked[i]
		out[i] = Sum{Cause: w.cause.ID, Score: w.score, Candidate: w.isCandidate(), Terms: w.terms()}
	}
	slices.SortFunc(out, func(a, b Sum) int { return cmp.Compare(a.Cause, b.Cause) })
	return out
}

// terms returns the prior and the weights of all findings.
func (w *causeScore) terms() []Term {
	out := []Term{{ID: w.cause.PriorTerm(), Weight: w.cause.Prior, Count: 1}}
	for i := range w.seen {
		t := Term{ID: w.seen[i].term(w.cause), Weight: w.seen[i].Weight, Count: 1}
		if at := slices.IndexFunc(out, func(o Term) bool { return o.ID == t.ID }); at >= 0 {
			out[at].Count++
			continue
		}
		out = append(out, t)
	}
	return out
}

// term returns the ID of the finding's weight.
func (s *observation) term(of *catalog.Cause) string {
	i := slices.Index(of.Evidence, s.from)
	switch {
	case s.shared != "":
		return s.shared
	case s.from == nil:
		return of.SymptomTerm(state.Symptom(strings.TrimPrefix(s.Signal, "symptom:")))
	case s.refuted:
		return of.ElseTerm(i)
	}
	return of.EvidenceTerm(i)
}
