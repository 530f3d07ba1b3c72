package evidence

import (
	"cmp"
	"math"
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/state"
)

// NumberOf returns a signal's value for the group.
func (g *Subject) NumberOf(signal string) condition.Number {
	if r := g.Reading(signal); r != nil {
		return r.CurrentValue()
	}
	return condition.Number{}
}

// StandsOut returns the one of the entities whose signal is farthest from the mean of all, or the
// one with the highest value if all are alike. There has to be one at least.
func StandsOut(hits []*Subject, signal string) *Subject {
	worst, far := hits[0], -1.0
	readings := hits[0].view.signals[signal]
	for _, g := range hits {
		r := g.readingOf(readings)
		if r == nil || !r.CurrentValue().Ok {
			continue
		}
		d := math.Abs(r.Value-r.Avg.V) + 1e-9*math.Max(r.Value, 0)
		if d > far {
			worst, far = g, d
		}
	}
	return worst
}

func SortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}

// InQuestion returns the workers whose missing signals matter: those of the verdict, or else those
// of the alerts, or else all.
func (v *View) InQuestion(pods []string) []*Subject {
	var out []*Subject
	for _, g := range v.pods {
		if slices.Contains(pods, g.pod) || len(pods) == 0 && (v.AlertsAnywhere() || v.alerted[g.pod]) {
			out = append(out, g)
		}
	}
	return out
}

// Lacking returns the signals of an expression that are missing now, or whose past is missing.
func (v *View) Lacking(ids []string, x *condition.Expression, src string, cat *catalog.Catalog) []string {
	var out []string
	for _, id := range ids {
		if !slices.Contains(x.Signals, id) {
			continue
		}
		if s := v.Series(id); v.unheard(id, cat) || s != nil && s.LacksPast(src) {
			out = append(out, id)
		}
	}
	return out
}

// Unmeasured reports whether an expression reads a signal that was not measured.
func (v *View) Unmeasured(x *condition.Expression, cat *catalog.Catalog) bool {
	return slices.ContainsFunc(x.Signals, func(id string) bool { return v.unheard(id, cat) })
}

// unheard reports whether a signal was not measured. A missing word means that no source reported
// one, unless its query failed.
func (v *View) unheard(id string, cat *catalog.Catalog) bool {
	return v.Series(id) == nil && (!cat.TextSignals()[id] || v.WhyMissing(id) != "")
}

// Chart returns the signal's points: the worker's own. For the whole scope it returns the scope's
// own, or the mean of the workers whose charts are long enough.
func (g *Subject) Chart(signal string) []state.Point {
	s := g.view.signals[signal]
	switch {
	case s == nil:
		return nil
	case g.key != "":
		return g.Reading(signal).Series
	case s.pool != nil && len(s.pool.Series) > 0:
		return s.pool.Series
	}
	lines := g.view.memory.lines.Take(len(g.view.order))[:0]
	longest := 0
	for _, id := range g.view.order {
		if o := s.of(id); o != nil && len(o.Series) > 0 {
			lines = append(lines, o.Series)
			longest = max(longest, len(o.Series))
		}
	}
	lines = slices.DeleteFunc(lines, func(l []state.Point) bool { return 10*len(l) < 9*longest })
	if len(lines) < 2 {
		return slices.Concat(lines...)
	}
	return average(lines, g.view.memory.points.Take(len(lines[0]))[:0])
}

// average appends to out the mean of the lines at the moments that all of them have.
func average(lines [][]state.Point, out []state.Point) []state.Point {
	next := make([]int, len(lines))
	for _, p := range lines[0] {
		sum := p.Value
		for i, l := range lines[1:] {
			for next[i] < len(l) && l[next[i]].At.Before(p.At) {
				next[i]++
			}
			if next[i] == len(l) || !l[next[i]].At.Equal(p.At) {
				sum = math.NaN()
				break
			}
			sum += l[next[i]].Value
		}
		if !math.IsNaN(sum) {
			out = append(out, state.Point{At: p.At, Value: sum / float64(len(lines))})
		}
	}
	return out
}

// stale is the age, relative to the time of gathering, from which a sample is ignored.
const stale = 10 * time.Minute

// A View is the evidence of one scope, indexed for expressions.
type View struct {
	scope    state.Scope
	memory   *scratch
	role     string            // the role whose workers count; empty: all workers
	roles    map[string]string // pod → role, of pods with a role
	guessed  bool              // the alerts do not name this pool, or this phase of its pool
	strange  string            // the subject of the alerts if it is no pool; else empty
	facts    *condition.Facts
	signals  map[string]*series
	numbered []*series          // the same, by the catalogue's numbers
	numbers  map[string]int     // signal → number
	Missing  map[string]string  // signal → reason why it is missing
	cutShort map[string]*series // lengths that are biased by aborts, as lower bounds
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
	asked    map[string][]*answers // kind of entity → answers by the expression's number; causes share expressions
	recent   *series

	expressions int                    // number of expressions in the catalogue
	news        map[string]*recentXids // recent Xids of GPUs, by node/gpu
	// told holds the entities that another incident's verdict found broken, without those of this
	// incident's alerts.
	told BrokenSet
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
func (v *View) Series(signal string) *series { return v.signals[signal] }

// Empty reports whether the scope has no sample of any signal.
func (v *View) Empty() bool { return len(v.signals) == 0 }

// WhyMissing returns the reason for which a signal is missing; empty if none is known.
func (v *View) WhyMissing(signal string) string { return v.Missing[signal] }

// IsTruncated reports whether only a lower bound of a signal is known.
func (v *View) IsTruncated(signal string) bool { return v.cutShort[signal] != nil }

// AlertsAnywhere reports whether some alert is about no single worker, so that any may be meant.
func (v *View) AlertsAnywhere() bool { return len(v.alerted) == 0 }

// IsAlerted reports whether the alerts are about the entity's worker or machine.
func (v *View) IsAlerted(g *Subject) bool { return v.alerted[g.pod] || v.alerted[g.node] }

// Concerns records whether the alerts name this pool or phase, and what they are about if it is no
// pool.
func (v *View) Concerns(known bool, strange string) { v.guessed, v.strange = !known, strange }

// answers holds the entities for which an expression holds, and the number with an answer. The pods
// of one engine count as one.
type answers struct {
	Hits     []*Subject
	Answered int
}

func (v *View) Ask(x *condition.Expression, per string) *answers {
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
