package evidence

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/state"
)

// stale is the age, relative to the time of gathering, from which a sample is ignored.
const stale = 10 * time.Minute

// A View is the evidence of one scope, indexed for expressions.
type View struct {
	scope    state.Scope
	memory   *scratch
	role     string            // the role whose workers count; empty: all workers
	roles    map[string]string // pod → role, of pods with a role
	guessed  bool              // the alerts do not name this pool, or this phase of its pool
	old      bool              // the pool was in trouble for over half an hour before the onset
	strange  string            // the subject of the alerts if it is no pool; else empty
	facts    *condition.Facts
	signals  map[string]*Series
	numbered []*Series          // the same, by the catalogue's numbers
	numbers  map[string]int     // signal → number
	missing  map[string]string  // signal → reason why it is missing
	cutShort map[string]*Series // lengths that are biased by aborts, as lower bounds
	listed   []string           // the pods of the scope's workers
	workers  int                // engines: the pods of a parallel group count as one
	engine   map[string]string  // pod → its engine, of pods that share an engine
	whole    *Subject
	pods     []*Subject
	gpus     []*Subject
	nodes    []*Subject
	ids      map[string]int        // of pods, GPUs and nodes, by key
	keys     []string              // by ID
	order    []int                 // the groups' IDs, sorted by key
	gpusOf   map[int][]int         // pod → GPUs
	asked    map[string][]*Answers // kind of entity → answers by the expression's number; causes share expressions
	recent   *Series

	expressions int                    // number of expressions in the catalogue
	news        map[string]*recentXids // recent Xids of GPUs, by node/gpu
	// brokenElsewhere holds the entities that another incident's verdict found broken, without
	// those of this incident's alerts.
	brokenElsewhere BrokenSet
	// alerted holds the workers of the alerts, with their engines' pods and their nodes. It is nil
	// if an alert is not about a single worker.
	alerted map[string]bool
}

// Guessed reports whether the alerts do not name this pool or phase.
func (v *View) Guessed() bool { return v.guessed }

// Pods returns the pods of the scope.
func (v *View) Pods() []*Subject { return v.pods }

// Scope returns the scope that the view is about.
func (v *View) Scope() state.Scope { return v.scope }

// Strange returns what the incident is about if it is no pool; else empty.
func (v *View) Strange() string { return v.strange }

// Whole returns the subject that stands for the whole scope.
func (v *View) Whole() *Subject { return v.whole }

// Workers returns the number of engines in the scope; the pods of a parallel group count as one.
func (v *View) Workers() int { return v.workers }

// Series returns the samples of a signal, or nil if the scope has none.
func (v *View) Series(signal string) *Series { return v.signals[signal] }

// Empty reports whether the scope has no sample of any signal.
func (v *View) Empty() bool { return len(v.signals) == 0 }

// WhyMissing returns the reason for which a signal is missing; empty if none is known.
func (v *View) WhyMissing(signal string) string { return v.missing[signal] }

// ReasonsMissing returns the reasons for which signals are missing, in the order of their first
// signals.
func (v *View) ReasonsMissing() []string {
	first := map[string]string{} // the first signal of each reason
	for id, why := range v.missing {
		if at, known := first[why]; !known || id < at {
			first[why] = id
		}
	}
	return slices.SortedFunc(maps.Keys(first), func(a, b string) int { return cmp.Compare(first[a], first[b]) })
}

// IsTruncated reports whether only a lower bound of a signal is known.
func (v *View) IsTruncated(signal string) bool { return v.cutShort[signal] != nil }

// AlertsAnywhere reports whether some alert is about no single worker, so that any may be meant.
func (v *View) AlertsAnywhere() bool { return len(v.alerted) == 0 }

// IsAlerted reports whether the alerts are about the entity's worker or machine.
func (v *View) IsAlerted(g *Subject) bool { return v.alerted[g.pod] || v.alerted[g.node] }

// Concerns sets whether the alerts name this pool or phase, and what they are about if it is no
// pool.
func (v *View) Concerns(known bool, strange string) { v.guessed, v.strange = !known, strange }

// Answers holds the entities for which an expression holds, and the number with an answer. The pods
// of one engine count as one.
type Answers struct {
	Hits     []*Subject
	Answered int
}

// Ask evaluates an expression for every entity of a kind, once per view.
func (v *View) Ask(x *condition.Expression, per string) *Answers {
	asked := v.asked[per]
	if asked == nil {
		asked = v.memory.asked.Take(v.expressions)
		v.asked[per] = asked
	}
	if a := asked[x.Number]; a != nil {
		return a
	}
	a := &v.memory.answers.Take(1)[0]
	asked[x.Number] = a
	var told []*Subject
	groups := v.Groups(per)
	for i, g := range groups {
		holds, ok := x.Answer(g)
		if !ok {
			continue
		}
		a.Answered++
		if len(v.engine) > 0 {
			told = append(told, g)
		}
		if holds {
			if a.Hits == nil {
				a.Hits = v.memory.hits.Take(len(groups) - i)[:0]
			}
			a.Hits = append(a.Hits, g)
		}
	}
	if len(v.engine) > 0 {
		a.Answered = v.Engines(told)
	}
	return a
}

// Engines counts entities: the pods of one engine are one, and GPUs and nodes count singly.
func (v *View) Engines(of []*Subject) int {
	if len(v.engine) == 0 {
		return len(of)
	}
	seen := map[string]bool{}
	for _, g := range of {
		key := g.key
		if e := v.engine[g.key]; e != "" && g.key == g.pod {
			key = e
		}
		seen[key] = true
	}
	return len(seen)
}

// EnginesOf counts the engines of pods.
func (v *View) EnginesOf(pods []string) int {
	if len(v.engine) == 0 {
		return len(pods)
	}
	seen := map[string]bool{}
	for _, p := range pods {
		seen[cmp.Or(v.engine[p], p)] = true
	}
	return len(seen)
}

// StandsOut returns the one of the entities whose signal is farthest from the mean of all, or the
// one with the highest value if all are alike. There has to be one at least.
func StandsOut(hits []*Subject, signal string) *Subject {
	worst, far := hits[0], -1.0
	readings := hits[0].view.signals[signal]
	for _, g := range hits {
		r := g.readingOf(readings)
		if r == nil || !r.CurrentValue().OK {
			continue
		}
		d := math.Abs(r.Value-r.Avg.V) + 1e-9*math.Max(r.Value, 0)
		if d > far {
			worst, far = g, d
		}
	}
	return worst
}

// SortedSet sorts the list in place and returns it without duplicates.
func SortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// InQuestion returns the workers whose missing signals matter: those of the verdict, or else those
// of the alerts, or else all that exist. A worker that was replaced is still in the sums of the
// last hour.
func (v *View) InQuestion(pods []string) []*Subject {
	var out []*Subject
	for _, g := range v.pods {
		exists := v.AlertsAnywhere() && (len(v.listed) == 0 || slices.Contains(v.listed, g.pod))
		if slices.Contains(pods, g.pod) || len(pods) == 0 && (exists || v.alerted[g.pod]) {
			out = append(out, g)
		}
	}
	return out
}

// UnknownSignals returns the signals of an expression that are missing now, or whose past is
// missing.
func (v *View) UnknownSignals(ids []string, x *condition.Expression, src string, cat *catalog.Catalog) []string {
	var out []string
	for _, id := range ids {
		if !slices.Contains(x.Signals, id) {
			continue
		}
		if s := v.Series(id); v.isUnmeasured(id, cat) || s != nil && s.LacksPast(src) {
			out = append(out, id)
		}
	}
	return out
}

// ReadsUnmeasured reports whether an expression reads a signal that was not measured.
func (v *View) ReadsUnmeasured(x *condition.Expression, cat *catalog.Catalog) bool {
	return slices.ContainsFunc(x.Signals, func(id string) bool { return v.isUnmeasured(id, cat) })
}

// isUnmeasured reports whether a signal was not measured. A missing word means that no source
// reported one, unless its query failed.
func (v *View) isUnmeasured(id string, cat *catalog.Catalog) bool {
	return v.Series(id) == nil && (!cat.TextSignals()[id] || v.WhyMissing(id) != "")
}
