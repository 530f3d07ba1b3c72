package catalog

import (
	"maps"
	"math"
	"regexp"
	"slices"
	"strings"

	"paramedic/internal/strictyaml"
	"paramedic/internal/text"
	"paramedic/rules/condition"
	"paramedic/state"
)

func (l *loader) cause(y causeYAML) {
	line := y.ID.Line
	if line == 0 {
		line = y.Title.Line
	}
	c := &Cause{
		ID: state.Cause(y.ID.Value), Title: y.Title.Value, Prior: y.Prior, Scope: y.Scope,
		Playbook: y.Playbook, What: strings.TrimSpace(y.What.Value),
		Explains: map[state.Symptom]float64{}, Do: l.advice(y.Do, XIDDo, XIDNote), Avoid: l.advice(y.Avoid, XIDAvoid), File: l.file,
		Line: line,
	}
	if c.Playbook == "" {
		c.Playbook = y.ID.Value
	}
	if c.Scope != "" && !slices.Contains([]string{"pod", "pool", "gpu", "node"}, c.Scope) {
		l.bad(line, "cause %s: scope %q is none of pod, pool, gpu, node", c.ID, c.Scope)
	}
	if c.ID == state.Unknown {
		l.bad(line, "the cause unknown is what is left when no other wins; it cannot be declared")
		return
	}
	l.decibans(line, "prior", y.Prior)
	l.placeholders(y.Title, false)
	l.placeholders(y.What, false)
	for _, s := range slices.Sorted(maps.Keys(y.Explains)) {
		if l.symptom(line, s) {
			l.decibans(line, "explains "+s, y.Explains[s])
			c.Explains[state.Symptom(s)] = y.Explains[s]
		}
	}
	for _, t := range y.LeadsTo {
		c.LeadsTo = append(c.LeadsTo, state.Cause(t.Value))
	}
	for _, s := range y.LeadsAfter {
		if l.symptom(line, s) {
			c.LeadsAfter = append(c.LeadsAfter, state.Symptom(s))
		}
	}
	c.Chain = l.chain(y.Chain)
	for _, a := range y.LookAlikes {
		c.LookAlikes = append(c.LookAlikes,
			LookAlike{Cause: state.Cause(a.Cause.Value), Differs: a.Differs, By: l.signals(a.By)})
	}
	shared := l.where(c.ID, y.Where)
	for _, e := range y.Evidence {
		e.When.Value, e.Unless.Value = shared.expand(e.When.Value), shared.expand(e.Unless.Value)
		if e.Else != nil {
			e.Else.When.Value = shared.expand(e.Else.When.Value)
		}
		if ev := l.evidence(e); ev != nil {
			c.Evidence = append(c.Evidence, ev)
		}
	}
	if c.ID != "" {
		l.cat.byID[c.ID] = c
	}
}

// advice returns the texts of do or avoid, which may use the placeholders of a verdict. A line may
// also be one of the given lines, which stand for an Xid's own advice.
func (l *loader) advice(ts []strictyaml.Text, lines ...string) []string {
	var out []string
	for _, t := range ts {
		if !slices.Contains(lines, t.Value) {
			l.placeholders(t, false)
		}
		out = append(out, t.Value)
	}
	return out
}

// maxDecibans limits the weight of one observation to ten billion to one. Sums of such weights are
// numbers that JSON can represent.
const maxDecibans = 100

func (l *loader) decibans(line int, what string, v float64) {
	if !(math.Abs(v) <= maxDecibans) { // also true for NaN
		l.bad(line, "%s is %g dB: give a number from -%d to %d", what, v, maxDecibans, maxDecibans)
	}
}

// anyValue matches a condition that holds for most values of its first signal.
var anyValue = regexp.MustCompile(`^([a-z0-9_]+)\.(?:value|max) >`)

func (l *loader) evidence(y evidenceYAML) *Evidence {
	e := &Evidence{
		When: y.When.Value, Unless: y.Unless.Value, Per: y.Per, Of: y.Of, Marks: y.Marks, Weight: y.Weight, Why: y.Why,
		Text: y.Text.Value, Expects: y.Expects, Signal: y.Signal, Needed: y.Needed,
	}
	for _, id := range y.Settles {
		e.Settles = append(e.Settles, state.Cause(id))
	}
	if y.Open != nil {
		e.LeavesOpen = &OpenCause{state.Cause(y.Open.Cause), y.Open.Sign}
	}
	sound := true
	fail := func(line int, format string, args ...any) {
		l.bad(line, format, args...)
		sound = false
	}
	if e.Of == "" {
		e.Of = "any"
	}
	if !slices.Contains([]string{"", "pod", "gpu", "node"}, e.Per) {
		fail(y.When.Line, "per: %q is none of pod, gpu, node", e.Per)
	}
	if !slices.Contains([]string{"any", "minority", "all"}, e.Of) {
		fail(y.When.Line, "of: %q is none of any, minority, all", e.Of)
	}
	if e.Needed && (e.Expects == "" || e.Weight <= 0) {
		fail(y.When.Line, "needed is for what speaks for the cause and has expects, which says what was not found")
	}
	if e.Marks && e.Per == "" {
		fail(y.When.Line, "marks needs per: it names the broken pods, gpus or nodes")
	}
	compile := func(t strictyaml.Text) *condition.Expression {
		if t.Value == "" {
			return nil
		}
		x, err := l.env.Compile(t.Value)
		if err != nil {
			fail(t.Line, "%v", err)
			return nil
		}
		return x
	}
	sound = sound && e.When != "" && e.Text != "" // decode has reported it
	l.decibans(y.When.Line, "weight", e.Weight)
	e.Condition, e.Exception = compile(y.When), compile(y.Unless)
	if m := anyValue.FindStringSubmatch(e.Unless); m != nil {
		e.Replaces = m[1]
	}
	if e.Condition != nil && e.Condition.Together {
		e.Text = strings.ReplaceAll(e.Text, ".baseline}", ".hour_ago}")
	}
	l.placeholders(y.Text, true)
	if y.Else != nil {
		e.Else = &Else{When: y.Else.When.Value, Weight: y.Else.Weight, Text: y.Else.Text.Value, Condition: compile(y.Else.When)}
		l.decibans(y.Else.Text.Line, "weight of else", y.Else.Weight)
		l.placeholders(y.Else.Text, true)
	}
	if !sound {
		return nil
	}
	if e.Signal == "" && len(e.Condition.Signals) > 0 {
		e.Signal = e.Condition.Signals[0]
	}
	if e.Signal != "" {
		if _, ok := l.cat.units[e.Signal]; !ok {
			l.bad(y.When.Line, "no signal %q; %s", e.Signal, text.DidYouMean(e.Signal, Words(l.cat.units)))
			return nil
		}
	}
	return e
}

// signals returns the names that are signals, and reports the others.
func (l *loader) signals(names []strictyaml.Text) []string {
	var out []string
	for _, t := range names {
		if _, ok := l.cat.units[t.Value]; !ok {
			l.bad(t.Line, "no signal %q; %s", t.Value, text.DidYouMean(t.Value, Words(l.cat.units)))
			continue
		}
		out = append(out, t.Value)
	}
	return out
}

// braced returns placeholders in their written form.
func braced(names []string) string { return "{" + strings.Join(names, "}, {") + "}" }

func (l *loader) placeholders(t strictyaml.Text, inEvidence bool) {
	for _, name := range placeholders(t.Value) {
		base, field, _ := strings.Cut(name, ".")
		if slices.Contains(fixedPlaceholders, name) {
			limited := slices.Contains(slices.Concat(ofVerdicts, ofEvidence), name)
			if limited && inEvidence == slices.Contains(ofVerdicts, name) {
				l.bad(t.Line, "no value for {%s} here: in evidence there are %s, in titles and advice %s",
					name, braced(ofEvidence), braced(ofVerdicts))
			}
			continue
		}
		if _, ok := l.cat.units[base]; ok && inEvidence && (field == "" || slices.Contains(condition.ReadingFields, field)) {
			continue
		}
		l.bad(t.Line, "no placeholder {%s} here", name)
	}
}
