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
	// threshold is the score in decibans that the best cause needs to be named: odds of 4:1 against
	// "something else".
	threshold = 6
	// margin is the lead over the next cause that the best cause needs to be named.
	margin = 4
	// typicalOf is the weight from which a symptom counts as typical of a cause, not common to
	// many.
	typicalOf = 4
	// unexplained is the weight of each symptom that a cause does not explain.
	unexplained = -3
	// beside is the weight against a cause that explains no symptom at all: it may exist, but
	// belong to another incident.
	beside = -4
	// anotherPool is the same weight if the alerts do not name the pool or its phase, and this one
	// is a guess.
	anotherPool = -20
	// elsewhere is the weight against a cause of single workers that was found only on workers
	// outside the alerts.
	elsewhere = -8
)

// The reasons for the weights that are the same for all causes, so that no entry states them.
const (
	whyUnexplained = "Every cause pays as much for a symptom that it does not explain: that may be another " +
		"trouble's, at the same time"
	whyBeside      = "It may be there, and be another incident's"
	whyAnotherPool = "Which workers it is about is only a guess here, and any trouble of theirs would else do for " +
		"this incident"
	whyElsewhere = "What breaks single workers shows on those that the incident is about"
)

// knownBy returns "Alert" if an alert reported the symptom, and "Seen" if a survey of the fleet
// found it without an alert.
func knownBy(s state.SymptomCount) string {
	if alerted(s) {
		return "Alert"
	}
	return "Seen"
}

func alerted(s state.SymptomCount) bool { return len(s.Rules) > 0 }

// symptomTitle returns the title of a symptom. A KV cache that is held while nothing runs has a
// title of its own: it causes the same alerts, but may be far from full.
func (c *Catalog) symptomTitle(s state.SymptomCount) string {
	if s.Symptom == "kv_pressure" && s.Hints[heldIdle] != "" {
		return "KV cache is held while nothing runs"
	}
	return c.symptoms[s.Symptom].Title
}

// A sign is a symptom of an incident with the texts that findings need.
type sign struct {
	state.Symptom
	finding, explained, strange, common string
}

// signs returns the distinct symptoms of an incident, without unclassified ones.
func (c *Catalog) signs(in *state.Incident) []sign {
	out := make([]sign, 0, len(in.Symptoms))
	for _, s := range in.Symptoms {
		if s.Symptom == state.Unclassified ||
			slices.ContainsFunc(out, func(o sign) bool { return o.Symptom == s.Symptom }) {
			continue
		}
		title := cmp.Or(c.symptomTitle(s), string(s.Symptom))
		out = append(out, sign{s.Symptom, "symptom:" + string(s.Symptom), knownBy(s) + ": " + title,
			"Not explained by this: " + title, c.commonness[s.Symptom]})
	}
	return out
}

// weighed holds the score of one cause, with all findings for and against it.
type weighed struct {
	cause      *Cause
	score      float64
	confidence float64
	seen       []seen
	unmet      []unmet
	unanswered []*Evidence // evidence that had no answer
	// gain and loss are the most that could be added for and against it, if the engines had
	// exported all their signals and the past were known.
	gain, loss float64
	unread     float64 // the weight that unmeasured signals could add
	unproven   string  // the needed evidence that had no answer
	pods       []string
	nodes      []string
	gpus       []string
}

// seen is one finding. Its text and entity are only computed for causes that are shown, since most
// are not.
type seen struct {
	found
	form string
	// together means that its baselines are the values an hour before the onset.
	together bool
	of       placeholder
	hits     []*group // the entities that match; nil: the finding is about the scope
}

// found holds the parts of a finding that are known before its text is written. Most findings are
// never written.
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

// unmet is evidence that would support the cause but was not seen.
type unmet struct {
	expects string
	weight  float64
	missing bool
}

// Diagnose weighs every cause and names the best one, or returns unknown if none stands out. The
// result always has a title, a scope and a story.
func (c *Catalog) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	best := c.verdict(in, ev)
	defer best.release()
	d := c.diagnosis(in, ev, best, now)
	d.Story.Time = whereTimeGoes(in, best.view)
	return d
}

// weigh adds up the findings for and against the cause.
func (c *Cause) weigh(v *view, signs []sign, cat *Catalog, mem *weighing) weighed {
	w := weighed{cause: c, score: c.Prior, seen: mem.seen.Take(len(signs) + 2 + len(c.Evidence))[:0],
		unmet:      mem.unmet.Take(len(c.Evidence))[:0],
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
		const text = "Nothing that this incident is about is a sign of it, " +
			"and no alert says that it is about these workers"
		w.add(seen{found: found{Signal: "symptoms", Weight: anotherPool, Text: text, Why: whyAnotherPool}})
	default:
		const text = "Nothing that this incident is about is a sign of it"
		w.add(seen{found: found{Signal: "symptoms", Weight: beside, Text: text, Why: whyBeside}})
	}
	for _, e := range c.Evidence {
		w.observe(e, v, cat, mem)
	}
	if c.local() && v.elsewhere(w.pods, w.nodes) {
		const text = "It shows on other workers than the incident is about"
		w.add(seen{found: found{Signal: "symptoms", Weight: elsewhere, Text: text, Why: whyElsewhere}})
	}
	w.score = round(w.score, 2)
	slices.SortStableFunc(w.unmet, func(a, b unmet) int { return cmp.Compare(b.weight, a.weight) })
	w.pods, w.nodes, w.gpus = sortedSet(w.pods), sortedSet(w.nodes), sortedSet(w.gpus)
	return w
}

// marks returns the entities that the cause was found on.
func (w *weighed) marks() *marked {
	return &marked{pods: w.pods, nodes: w.nodes, gpus: w.gpus, ofMachine: w.cause.Scope == "gpu" ||
		w.cause.Scope == "node"}
}

// A Support is the sum of the weights that support a cause, in decibans.
type Support struct {
	Alerts float64 // of the alerts that it explains
	All    float64 // of all findings
}

// Supports returns the support of every cause, named or not, in the pool that the incident is
// about.
func (c *Catalog) Supports(in *state.Incident, ev *state.Evidence) map[state.Cause]Support {
	v := c.verdict(in, ev)
	defer v.release()
	out := make(map[state.Cause]Support, len(v.ranked))
	for i := range v.ranked {
		alerts, all := v.ranked[i].pull()
		out[v.ranked[i].cause.ID] = Support{Alerts: alerts, All: all}
	}
	return out
}

// pull returns the sum of the weights that support the cause: of its alerts, and of all findings.
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

// odds returns the odds of the cause against unknown.
func (w *weighed) odds() float64 { return math.Pow(10, w.score/10) }

// stands reports whether the cause is listed as a candidate of its own. All others are part of
// unknown.
func (w *weighed) stands() bool { return w.score > 0 || w.supported() }

// supported reports whether any finding other than an alert supports the cause.
func (w *weighed) supported() bool {
	return slices.ContainsFunc(w.seen,
		func(f seen) bool { return f.Weight > 0 && !strings.HasPrefix(f.Signal, "symptom:") })
}

func (w *weighed) add(f seen) {
	w.seen = append(w.seen, f)
	w.score += f.Weight
}

// findings returns the findings with their texts, the largest weight first.
func (w *weighed) findings(cat *Catalog, at time.Time) []state.Finding {
	out := make([]state.Finding, 0, len(w.seen))
	for _, s := range w.seen {
		if s.hits != nil {
			s.locate()
		}
		f := state.Finding{Signal: s.Signal, Pod: s.Pod, Value: s.Value, Unit: s.Unit, Baseline: s.Baseline,
			Weight: s.Weight, Text: s.Text, Why: s.Why, Settles: s.settles, At: at}
		for _, signal := range s.reads {
			if s.of.view.series(signal) != nil { // a missing signal had no part in the finding
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
		return cmp.Or(cmp.Compare(math.Abs(b.Weight), math.Abs(a.Weight)), cmp.Compare(a.Signal, b.Signal),
			cmp.Compare(a.Text, b.Text))
	})
	return out
}

// observe evaluates one piece of evidence for every entity that it is about.
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
		return // found only on entities of other incidents: no evidence for this one
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
		w.unansweredBy(e, v, cat)
	case holds:
		w.add(seen{
			found: found{Signal: e.Signal, Unit: cat.units[e.Signal], Weight: e.Weight, Why: e.Why,
				reads: e.when.signals, settles: e.Settles},
			form: e.Text, together: e.when.together, of: placeholder{view: v, count: broken, total: answered}, hits: hits})
		if e.Marks {
			w.mark(e, hits, v, mem)
		}
	default:
		if e.Weight > 0 && e.Expects != "" {
			w.unmet = append(w.unmet, unmet{expects: e.Expects, weight: e.Weight})
		}
		if answered == v.engines(v.groups(e.Per)) { // entities without an answer remain unknown
			w.otherwise(e, v, cat, answered)
		}
	}
}

// unansweredBy records evidence without an answer, and what its missing signals could add.
func (w *weighed) unansweredBy(e *Evidence, v *view, cat *Catalog) {
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
	case e.Expects != "": // only signs of the cause; evidence without "expects" may replace one of them
		w.gain += e.Weight
	}
	if e.Weight > 0 && e.Expects != "" {
		w.unmet = append(w.unmet, unmet{expects: e.Expects, weight: e.Weight, missing: true})
	}
}

// otherwise adds the finding for evidence that was evaluated and does not hold.
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

// locate selects the entity that stands out most, and sets the finding's value and baseline from
// it.
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

// present returns v, or nil if it is missing or not a number.
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
