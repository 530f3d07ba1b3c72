package diagnose

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
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
	// besideWeight is the weight against a cause that explains no symptom at all: it may exist, but
	// belong to another incident.
	besideWeight = -4
	// anotherPool is the same weight if the alerts do not name the pool or its phase, and this one
	// is a guess.
	anotherPool = -20
	// elsewhereWeight is the weight against a cause of single workers that was found only on
	// workers outside the alerts.
	elsewhereWeight = -8
)

// The reasons for the weights that are the same for all causes, so that no entry states them.
const (
	whyUnexplained = "Each unexplained symptom costs every cause the same: another problem may cause it at the same time"
	whyBeside      = "The problem may exist, but belong to another incident"
	whyAnotherPool = "The alerts do not name these workers. Without this weight, any problem of theirs would explain " +
		"the incident"
	whyElsewhere = "A fault of single workers shows on the workers that the incident is about"
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

// A sign is a symptom of an incident with the texts that findings need.
type sign struct {
	state.Symptom
	finding, explained, strange, common string
}

// signs returns the distinct symptoms of an incident, without unclassified ones.
func signs(c *catalog.Catalog, in *state.Incident) []sign {
	out := make([]sign, 0, len(in.Symptoms))
	for _, s := range in.Symptoms {
		if s.Symptom == state.Unclassified ||
			slices.ContainsFunc(out, func(o sign) bool { return o.Symptom == s.Symptom }) {
			continue
		}
		title := cmp.Or(c.SymptomTitle(s), string(s.Symptom))
		out = append(out, sign{s.Symptom, "symptom:" + string(s.Symptom), knownBy(s) + ": " + title,
			"Unexplained symptom: " + title, c.Commonness()[s.Symptom]})
	}
	return out
}

// causeScore holds the score of one cause, with all findings for and against it.
type causeScore struct {
	cause      *catalog.Cause
	score      float64
	confidence float64
	seen       []observation
	unmet      []unobserved
	unanswered []*catalog.Evidence // evidence that had no answer
	// gain and loss are the most that could be added for and against it, if the engines had
	// exported all their signals and the past were known.
	gain, loss float64
	unread     float64 // the weight that unmeasured signals could add
	unproven   string  // the needed evidence that had no answer
	pods       []string
	nodes      []string
	gpus       []string
}

// observation is one finding. Its text and entity are only computed for causes that are shown,
// since most are not.
type observation struct {
	observed
	form string
	// shared names a weight that is the same for all causes; else the weight is that of from, or of
	// a symptom.
	shared  string
	from    *catalog.Evidence
	refuted bool // the weight is that of from's else
	// together means that its baselines are the values an hour before the onset.
	together bool
	of       evidence.Words
	hits     []*evidence.Subject // the entities that match; nil: the finding is about the scope
}

// observed holds the parts of a finding that are known before its text is written. Most findings
// are never written.
type observed struct {
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

// unobserved is evidence that would support the cause but was not seen.
type unobserved struct {
	expects string
	weight  float64
	missing bool
}

// weighCause adds up the findings for and against the cause.
func weighCause(c *catalog.Cause, v *evidence.View, signs []sign, cat *catalog.Catalog, mem *scratch) causeScore {
	w := causeScore{cause: c, score: c.Prior, seen: mem.seen.Take(len(signs) + 2 + len(c.Evidence))[:0],
		unmet:      mem.unmet.Take(len(c.Evidence))[:0],
		unanswered: mem.evidence.Take(len(c.Evidence))[:0]}
	strange, queue := 0, loudestOfQueue(c, signs)
	for i, s := range signs {
		if d, ok := c.Explains[s.Symptom]; !ok {
			strange++
			if queue.counts(i) {
				w.add(observation{shared: termUnexplained,
					observed: observed{Signal: s.finding, Weight: unexplained, Text: s.strange, Why: whyUnexplained}})
			}
		} else if d != 0 && queue.counts(i) {
			w.add(observation{observed: observed{Signal: s.finding, Weight: d, Text: s.explained, Why: s.common}})
		}
	}
	switch {
	case strange < len(signs) || len(signs) == 0:
	case v.Guessed():
		const text = "No symptom of this incident points to it, and no alert names these workers"
		w.add(observation{shared: termAnotherPool,
			observed: observed{Signal: "symptoms", Weight: anotherPool, Text: text, Why: whyAnotherPool}})
	default:
		const text = "No symptom of this incident points to it"
		w.add(observation{shared: termBeside,
			observed: observed{Signal: "symptoms", Weight: besideWeight, Text: text, Why: whyBeside}})
	}
	for _, e := range c.Evidence {
		w.observe(e, v, cat)
	}
	if c.Local() && v.Elsewhere(w.pods, w.nodes) {
		const text = "It shows only on workers that the incident is not about"
		w.add(observation{shared: termElsewhere,
			observed: observed{Signal: "symptoms", Weight: elsewhereWeight, Text: text, Why: whyElsewhere}})
	}
	w.score = condition.Round(w.score, 2)
	slices.SortStableFunc(w.unmet, func(a, b unobserved) int { return cmp.Compare(b.weight, a.weight) })
	w.pods, w.nodes, w.gpus = evidence.SortedSet(w.pods), evidence.SortedSet(w.nodes), evidence.SortedSet(w.gpus)
	return w
}

// marks returns the entities that the cause was found on.
func (w *causeScore) marks() *evidence.Marked {
	return &evidence.Marked{Pods: w.pods, Nodes: w.nodes, Gpus: w.gpus, OfMachine: w.cause.Scope == "gpu" ||
		w.cause.Scope == "node"}
}

// A Support is the sum of the weights that support a cause, in decibans.
type Support struct {
	Alerts float64 // of the alerts that it explains
	All    float64 // of all findings
}

// Supports returns the support of every cause, named or not, in the pool that the incident is
// about.
func Supports(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) map[state.Cause]Support {
	v := bestVerdict(c, in, ev)
	defer v.release()
	out := make(map[state.Cause]Support, len(v.ranked))
	for i := range v.ranked {
		alerts, all := v.ranked[i].support()
		out[v.ranked[i].cause.ID] = Support{Alerts: alerts, All: all}
	}
	return out
}

// support returns the sum of the weights that support the cause: of its alerts, and of all
// findings.
func (w *causeScore) support() (alerts, all float64) {
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
func (w *causeScore) odds() float64 { return math.Pow(10, w.score/10) }

// isCandidate reports whether the cause is listed as a candidate of its own. All others are part of
// unknown.
func (w *causeScore) isCandidate() bool { return w.score > 0 || w.supported() }

// supported reports whether any finding other than an alert supports the cause.
func (w *causeScore) supported() bool {
	return slices.ContainsFunc(w.seen,
		func(f observation) bool { return f.Weight > 0 && !strings.HasPrefix(f.Signal, "symptom:") })
}

func (w *causeScore) add(f observation) {
	w.seen = append(w.seen, f)
	w.score += f.Weight
}

// findings returns the findings with their texts, the largest weight first.
func (w *causeScore) findings(cat *catalog.Catalog, at time.Time) []state.Finding {
	out := make([]state.Finding, 0, len(w.seen))
	for _, s := range w.seen {
		if s.hits != nil {
			s.locate()
		}
		f := state.Finding{Signal: s.Signal, Pod: s.Pod, Value: s.Value, Unit: s.Unit, Baseline: s.Baseline,
			Weight: s.Weight, Text: s.Text, Why: s.Why, Settles: s.settles, At: at}
		for _, signal := range s.reads {
			if s.of.View.Series(signal) != nil { // a missing signal had no part in the finding
				f.Reads = append(f.Reads, signal)
			}
		}
		if s.form != "" {
			f.Text = evidence.Fill(cat, s.form, s.of)
		}
		if g := s.of.Group; g != nil {
			if r := g.Reading(f.Signal); r != nil {
				f.DayAgo, f.WeekAgo, f.Z = condition.Present(r.DayAgo), condition.Present(r.WeekAgo), condition.Present(r.Z)
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
func (w *causeScore) observe(e *catalog.Evidence, v *evidence.View, cat *catalog.Catalog) {
	if e.Exception != nil {
		if holds, ok := e.Exception.Answer(v.Whole()); ok && holds {
			return
		}
	}
	asked := v.Ask(e.Condition, e.Per)
	hits, answered := asked.Hits, asked.Answered
	if w.cause.Local() {
		hits = v.ExceptBroken(hits)
	}
	if len(hits) == 0 && len(asked.Hits) > 0 {
		return // found only on entities of other incidents: no evidence for this one
	}
	broken := v.Engines(hits)
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
		w.add(observation{
			observed: observed{Signal: e.Signal, Unit: cat.Units()[e.Signal], Weight: e.Weight, Why: e.Why,
				reads: e.Condition.Signals, settles: e.Settles},
			from: e, form: e.Text, together: e.Condition.Together, of: evidence.Words{View: v, Count: broken, Total: answered}, hits: hits})
		if e.Marks {
			w.mark(e, hits, v)
		}
	default:
		if e.Weight > 0 && e.Expects != "" {
			w.unmet = append(w.unmet, unobserved{expects: e.Expects, weight: e.Weight})
		}
		if answered == v.Engines(v.Groups(e.Per)) { // entities without an answer remain unknown
			w.otherwise(e, v, cat, answered)
		}
	}
}

// unansweredBy records evidence without an answer, and what its missing signals could add.
func (w *causeScore) unansweredBy(e *catalog.Evidence, v *evidence.View, cat *catalog.Catalog) {
	w.unanswered = append(w.unanswered, e)
	if e.Needed {
		w.unproven = e.Expects
	}
	if e.Weight > 0 && e.Expects != "" && v.ReadsUnmeasured(e.Condition, cat) && !w.isReplaced(e, v) {
		w.unread += e.Weight
	}
	switch {
	case !w.needsEngineSignal(e, v, cat):
	case e.Weight < 0:
		w.loss += e.Weight
	case e.Expects != "": // only signs of the cause; evidence without "expects" may replace one of them
		w.gain += e.Weight
	}
	if e.Weight > 0 && e.Expects != "" {
		w.unmet = append(w.unmet, unobserved{expects: e.Expects, weight: e.Weight, missing: true})
	}
}

// otherwise adds the finding for evidence that was evaluated and does not hold.
func (w *causeScore) otherwise(e *catalog.Evidence, v *evidence.View, cat *catalog.Catalog, answered int) {
	if e.Else == nil {
		return
	}
	if e.Else.Condition != nil {
		if holds, ok := e.Else.Condition.Answer(v.Whole()); !ok || !holds {
			return
		}
	}
	f := observed{Signal: e.Signal, Weight: e.Else.Weight, Why: e.Why}
	if r := v.Whole().Reading(e.Signal); r != nil {
		f.Value, f.Baseline = r.CurrentValue().V, condition.Pointer(r.BaselineValue())
		if r.Max.OK {
			f.Value = r.Max.V
		}
	}
	f.Unit = cat.Units()[e.Signal]
	w.add(observation{observed: f, from: e, refuted: true, form: e.Else.Text,
		of: evidence.Words{View: v, Group: v.Whole(), Total: answered}})
}

func (w *causeScore) mark(e *catalog.Evidence, hits []*evidence.Subject, v *evidence.View) {
	w.pods = v.GrowNames(w.pods, len(hits))
	if e.Per != "pod" {
		w.gpus, w.nodes = v.GrowNames(w.gpus, len(hits)), v.GrowNames(w.nodes, len(hits))
	}
	for _, g := range hits {
		if g.Key() == "" {
			continue
		}
		if g.Pod() != "" {
			w.pods = append(w.pods, g.Pod())
		}
		if e.Per == "gpu" {
			w.gpus = append(w.gpus, g.GPU())
		}
		if e.Per != "pod" && g.Node() != "" {
			w.nodes = append(w.nodes, g.Node())
			for _, p := range v.Pods() {
				if e.Per == "node" && p.Node() == g.Node() {
					w.pods = append(w.pods, p.Pod())
				}
			}
		}
	}
}

// locate selects the entity that stands out most, and sets the finding's value and baseline from
// it.
func (s *observation) locate() {
	worst := evidence.StandsOut(s.hits, s.Signal)
	if r := worst.Reading(s.Signal); r != nil {
		s.Value, s.Baseline = r.CurrentValue().V, condition.Pointer(r.BaselineValue())
		if s.together {
			s.Baseline = condition.Pointer(r.HourAgoValue())
		}
	}
	if worst.Key() != "" {
		s.Pod = worst.Pod()
	}
	s.of.Group = worst
}

// restsOn reports whether a finding for the cause rests on a signal.
func (w *causeScore) restsOn(id string) bool {
	return slices.ContainsFunc(w.seen, func(f observation) bool {
		return f.Weight > 0 && (f.Signal == id || slices.Contains(f.reads, id))
	})
}
