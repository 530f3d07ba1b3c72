package rules

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

const (
	// threshold is the score, in decibans, below which the best cause is not named: its odds
	// against "something else" are under 4:1.
	threshold = 6
	// margin is how far it has to be ahead of the next cause.
	margin = 4
	// typicalOf is how much a symptom has to speak for a cause to be one of its own, and not one of
	// many.
	typicalOf = 4
	// unexplained is what each symptom costs a cause that does not explain it.
	unexplained = -3
	// beside is what it costs a cause to explain no symptom at all: it may be there, and be another
	// incident's.
	beside = -4
	// anotherPool is what it costs where the alerts do not say which pool, or which phase of it,
	// and this one is only a guess.
	anotherPool = -20
	// elsewhere is what it costs a cause that breaks single workers to be seen on others than all
	// the alerts are about.
	elsewhere = -8
)

// The reasons for the weights that no cause's entry has, because they are the same for all.
const (
	whyUnexplained = "Every cause pays as much for a symptom that it does not explain: that may be another trouble's, at the same time"
	whyBeside      = "It may be there, and be another incident's"
	whyAnotherPool = "Which workers it is about is only a guess here, and any trouble of theirs would else do for this incident"
	whyElsewhere   = "What breaks single workers shows on those that the incident is about"
)

// knownBy is how a symptom is known: an alert told of it, or a look at a fleet that no alert has
// called for.
func knownBy(s state.SymptomCount) string {
	if alerted(s) {
		return "Alert"
	}
	return "Seen"
}

func alerted(s state.SymptomCount) bool { return len(s.Rules) > 0 }

// symptomTitle is what a symptom means, in words. KV cache that is held while nothing runs presses
// as a full one does, and need be far from full.
func (c *Catalog) symptomTitle(s state.SymptomCount) string {
	if s.Symptom == "kv_pressure" && s.Hints[heldIdle] != "" {
		return "KV cache is held while nothing runs"
	}
	return c.symptoms[s.Symptom].Title
}

// A sign is a symptom of an incident as findings tell of it.
type sign struct {
	state.Symptom
	finding, explained, strange, common string
}

// signs are an incident's symptoms that mean something, each once.
func (c *Catalog) signs(in *state.Incident) []sign {
	out := make([]sign, 0, len(in.Symptoms))
	for _, s := range in.Symptoms {
		if s.Symptom == state.Unclassified || slices.ContainsFunc(out, func(o sign) bool { return o.Symptom == s.Symptom }) {
			continue
		}
		title := cmp.Or(c.symptomTitle(s), string(s.Symptom))
		out = append(out, sign{s.Symptom, "symptom:" + string(s.Symptom), knownBy(s) + ": " + title, "Not explained by this: " + title, c.commonness[s.Symptom]})
	}
	return out
}

// weighed is one cause with everything that speaks for and against it.
type weighed struct {
	cause      *Cause
	score      float64
	confidence float64
	seen       []seen
	unmet      []unmet
	unanswered []*Evidence // what it asks and nobody could say
	gain, loss float64     // what would speak for it, and against it, if the engines had told all, and it were known how things were before
	unread     float64     // what would speak for it if signals were there that nobody measured
	unproven   string      // what it is known by, which could not be looked for
	pods       []string
	nodes      []string
	gpus       []string
}

// seen is one finding. Where it stands out, and its text, is worked out when somebody will read it:
// of most causes nobody does.
type seen struct {
	found
	form string
	// together says that the past that it speaks of is what was an hour before the onset.
	together bool
	of       placeholder
	hits     []*group // on whom; nil: it is about the scope
}

// found is what of a finding is known before it is written out. There are hundreds for each one
// that is.
type found struct {
	Signal, Pod string
	Value       float64
	Unit        string
	Baseline    *float64
	Weight      float64
	Text        string
	Why         string
	reads       []string
	settles     []state.Cause
}

// unmet is evidence that would have spoken for the cause and was not seen.
type unmet struct {
	expects string
	weight  float64
	missing bool
}

// Diagnose weighs every cause and names the one that stands out, or says unknown. It always gives a
// title, a scope and a story.
func (c *Catalog) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	best := c.verdict(in, ev)
	defer best.release()
	d := c.diagnosis(in, ev, best, now)
	d.Story.Time = whereTimeGoes(in, best.view)
	return d
}

// weigh adds up what speaks for and against the cause.
func (c *Cause) weigh(v *view, signs []sign, cat *Catalog, mem *weighing) weighed {
	w := weighed{cause: c, score: c.Prior, seen: mem.seen.Take(len(signs) + 2 + len(c.Evidence))[:0], unmet: mem.unmet.Take(len(c.Evidence))[:0],
		unanswered: mem.evidence.Take(len(c.Evidence))[:0]}
	strange := 0
	for _, s := range signs {
		if d, ok := c.Explains[s.Symptom]; !ok {
			w.add(seen{found: found{Signal: s.finding, Weight: unexplained, Text: s.strange, Why: whyUnexplained}})
			strange++
		} else if d != 0 {
			w.add(seen{found: found{Signal: s.finding, Weight: d, Text: s.explained, Why: s.common}})
		}
	}
	switch {
	case strange < len(signs) || len(signs) == 0:
	case v.guessed:
		w.add(seen{found: found{Signal: "symptoms", Weight: anotherPool, Text: "Nothing that this incident is about is a sign of it, and no alert says that it is about these workers", Why: whyAnotherPool}})
	default:
		w.add(seen{found: found{Signal: "symptoms", Weight: beside, Text: "Nothing that this incident is about is a sign of it", Why: whyBeside}})
	}
	for _, e := range c.Evidence {
		w.observe(e, v, cat, mem)
	}
	if c.local() && v.elsewhere(w.pods, w.nodes) {
		w.add(seen{found: found{Signal: "symptoms", Weight: elsewhere, Text: "It shows on other workers than the incident is about", Why: whyElsewhere}})
	}
	w.score = round(w.score, 2)
	slices.SortStableFunc(w.unmet, func(a, b unmet) int { return cmp.Compare(b.weight, a.weight) })
	w.pods, w.nodes, w.gpus = sortedSet(w.pods), sortedSet(w.nodes), sortedSet(w.gpus)
	return w
}

// marks returns the entities that the cause was found on.
func (w *weighed) marks() *marked {
	return &marked{pods: w.pods, nodes: w.nodes, gpus: w.gpus, ofMachine: w.cause.Scope == "gpu" || w.cause.Scope == "node"}
}

// pull is how much speaks for the cause at first sight: its alerts, and all that speaks for it and
// not against it.
func (w *weighed) pull() (alerts, all float64) {
	for _, f := range w.seen {
		if f.Weight <= 0 {
			continue
		}
		all += f.Weight
		if strings.HasPrefix(f.Signal, "symptom:") {
			alerts += f.Weight
		}
	}
	return alerts, all
}

// odds are those of the cause against unknown.
func (w *weighed) odds() float64 { return math.Pow(10, w.score/10) }

// stands says whether the cause is weighed against unknown, and not one of those within it.
func (w *weighed) stands() bool { return w.score > 0 || w.supported() }

// supported says whether anything but alerts speaks for the cause.
func (w *weighed) supported() bool {
	return slices.ContainsFunc(w.seen, func(f seen) bool { return f.Weight > 0 && !strings.HasPrefix(f.Signal, "symptom:") })
}

func (w *weighed) add(f seen) {
	w.seen = append(w.seen, f)
	w.score += f.Weight
}

// findings are what was seen, written out, the weightiest first.
func (w *weighed) findings(cat *Catalog, at time.Time) []state.Finding {
	out := make([]state.Finding, 0, len(w.seen))
	for _, s := range w.seen {
		if s.hits != nil {
			s.locate()
		}
		f := state.Finding{Signal: s.Signal, Pod: s.Pod, Value: s.Value, Unit: s.Unit, Baseline: s.Baseline, Weight: s.Weight, Text: s.Text, Why: s.Why, Settles: s.settles, At: at}
		for _, signal := range s.reads {
			if s.of.view.series(signal) != nil { // what was not there took no part in it
				f.Reads = append(f.Reads, signal)
			}
		}
		if s.form != "" {
			f.Text = cat.fill(s.form, s.of)
		}
		if g := s.of.group; g != nil {
			if r := g.reading(f.Signal); r != nil {
				f.DayAgo, f.WeekAgo, f.Z = present(r.DayAgo), present(r.WeekAgo), present(r.Z)
			}
		}
		out = append(out, f)
	}
	slices.SortStableFunc(out, func(a, b state.Finding) int {
		return cmp.Or(cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)), cmp.Compare(a.Signal, b.Signal), cmp.Compare(a.Text, b.Text))
	})
	return out
}

// observe asks one piece of evidence of every entity that it is about.
func (w *weighed) observe(e *Evidence, v *view, cat *Catalog, mem *weighing) {
	if e.unless != nil {
		if holds, ok := e.unless.answer(v.whole); ok && holds {
			return
		}
	}
	asked := v.ask(e.when, e.Per)
	hits, answered := asked.hits, asked.answered
	if w.cause.local() {
		hits = v.notTold(hits)
	}
	if len(hits) == 0 && len(asked.hits) > 0 {
		return // seen, and told elsewhere: it says nothing of this trouble
	}
	broken := v.engines(hits)
	holds := len(hits) > 0
	switch e.Of {
	case "minority":
		holds = holds && answered > 1 && 2*broken <= answered
	case "all":
		holds = holds && broken == answered
	}
	switch {
	case answered == 0:
		w.unanswered = append(w.unanswered, e)
		if e.Needed {
			w.unproven = e.Expects
		}
		if e.Weight > 0 && e.Expects != "" && v.unmeasured(e.when, cat) {
			w.unread += e.Weight
		}
		switch {
		case !w.untold(e, v, cat):
		case e.Weight < 0:
			w.loss += e.Weight
		case e.Expects != "": // its signs; what is told beside them may be instead of one
			w.gain += e.Weight
		}
		if e.Weight > 0 && e.Expects != "" {
			w.unmet = append(w.unmet, unmet{expects: e.Expects, weight: e.Weight, missing: true})
		}
	case holds:
		w.add(seen{found: found{Signal: e.Signal, Unit: cat.units[e.Signal], Weight: e.Weight, Why: e.Why, reads: e.when.signals, settles: e.Settles},
			form: e.Text, together: e.when.together, of: placeholder{view: v, count: broken, total: answered}, hits: hits})
		if e.Marks {
			w.mark(e, hits, v, mem)
		}
	default:
		if e.Weight > 0 && e.Expects != "" {
			w.unmet = append(w.unmet, unmet{expects: e.Expects, weight: e.Weight})
		}
		if answered == v.engines(v.groups(e.Per)) { // of one that did not answer it is not known
			w.otherwise(e, v, cat, answered)
		}
	}
}

// otherwise counts what it means that the evidence was looked for and is not there.
func (w *weighed) otherwise(e *Evidence, v *view, cat *Catalog, answered int) {
	if e.Else == nil {
		return
	}
	if e.Else.when != nil {
		if holds, ok := e.Else.when.answer(v.whole); !ok || !holds {
			return
		}
	}
	f := found{Signal: e.Signal, Weight: e.Else.Weight, Why: e.Why}
	if r := v.whole.reading(e.Signal); r != nil {
		f.Value, f.Baseline = r.value().v, pointer(r.baseline())
		if r.max.ok {
			f.Value = r.max.v
		}
	}
	f.Unit = cat.units[e.Signal]
	w.add(seen{found: f, form: e.Else.Text, of: placeholder{view: v, group: v.whole, total: answered}})
}

func (w *weighed) mark(e *Evidence, hits []*group, v *view, mem *weighing) {
	w.pods = mem.names.Grow(w.pods, len(hits))
	if e.Per != "pod" {
		w.gpus, w.nodes = mem.names.Grow(w.gpus, len(hits)), mem.names.Grow(w.nodes, len(hits))
	}
	for _, g := range hits {
		if g.key == "" {
			continue
		}
		if g.pod != "" {
			w.pods = append(w.pods, g.pod)
		}
		if e.Per == "gpu" {
			w.gpus = append(w.gpus, g.gpu)
		}
		if e.Per != "pod" && g.node != "" {
			w.nodes = append(w.nodes, g.node)
			for _, p := range v.pods {
				if e.Per == "node" && p.node == g.node {
					w.pods = append(w.pods, p.pod)
				}
			}
		}
	}
}

// locate shows the finding of the entity on which it stands out most.
func (s *seen) locate() {
	worst := standsOut(s.hits, s.Signal)
	if r := worst.reading(s.Signal); r != nil {
		s.Value, s.Baseline = r.value().v, pointer(r.baseline())
		if s.together {
			s.Baseline = pointer(r.hourAgo())
		}
	}
	if worst.key != "" {
		s.Pod = worst.pod
	}
	s.of.group = worst
}

// standsOut returns the one of the entities whose signal is farthest from the mean of all, or the
// one with the highest value if all are alike. There has to be one at least.
func standsOut(hits []*group, signal string) *group {
	worst, far := hits[0], -1.0
	readings := hits[0].view.signals[signal]
	for _, g := range hits {
		r := g.readingOf(readings)
		if r == nil || !r.value().ok {
			continue
		}
		d := math.Abs(r.Value-r.avg.v) + 1e-9*math.Max(r.Value, 0)
		if d > far {
			worst, far = g, d
		}
	}
	return worst
}

// present is a value that may not be there, and is not when it is no number.
func present(v *float64) *float64 {
	if !optional(v).ok {
		return nil
	}
	return v
}

func pointer(n number) *float64 {
	if !n.ok {
		return nil
	}
	return &n.v
}

func round(x float64, digits int) float64 {
	p := math.Pow(10, float64(digits))
	return math.Round(x*p) / p
}

func sortedSet(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
