package playbooks

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// An AnswerState is the result of a check.
type AnswerState string

// The states of an answer. StateInfo is a measured value without a threshold. StateUnknown was not
// measured.
const (
	StateOK      AnswerState = "ok"
	StateWarn    AnswerState = "warn"
	StateBad     AnswerState = "bad"
	StateInfo    AnswerState = "info"
	StateUnknown AnswerState = "unknown"
)

// A Rendered is a playbook with its checks answered from one incident's evidence.
type Rendered struct {
	Playbook Playbook
	Answers  []Answer // one for each check, in the checks' order
	FirstAid []Remedy // with the incident's names filled in
	Worse    []string
	Escalate string // when and to whom, as a sentence
	Body     string // Markdown, with the incident's names filled in
	At       time.Time
}

// An Answer is the answer of the evidence to a check.
type Answer struct {
	Check    Check
	State    AnswerState
	Text     string // "98 % on vllm-llama-…-x2k (was 61 %)", or "not measured: why"
	Measured bool
	Value    float64 // valid if Measured is set and the signal is a number
	Unit     string
	Pod      string   // the worst pod, or its node, GPU or instance
	Baseline *float64 // of the same series, from before the onset
	Limit    string   // "bad from 95 %", in words; empty without a threshold
	ByHand   string   // the check's commands with the incident's names filled in
	At       time.Time
}

// Answers answers a playbook's checks from the evidence of an incident, without their commands. It
// makes no request: a signal that the evidence lacks is unknown.
func Answers(pb Playbook, in state.Incident, ev state.Evidence) []Answer {
	out := make([]Answer, len(pb.Checks))
	for i, c := range pb.Checks {
		out[i] = answer(c, samplesFor(c, in, ev))
	}
	return out
}

// Run returns the playbook for an incident, with the answers to its checks.
func Run(pb Playbook, in state.Incident, ev state.Evidence) Rendered {
	names := scopeNames(in, ev)
	d := dialectOf(names.engine)
	r := Rendered{Playbook: pb, Body: names.fill(renderBody(pb.Body, pb.stepTexts(), names.engine)), At: ev.At,
		Answers: Answers(pb, in, ev)}
	for i, c := range pb.Checks {
		a, own := &r.Answers[i], names
		if a.Pod != "" && safeName.MatchString(a.Pod) {
			own.pod = a.Pod
		}
		a.ByHand = own.fill(byHand(c, names.engine))
	}
	for _, rem := range pb.FirstAid {
		rem.Text, rem.When = names.fill(d.adapt(rem.Text)), names.fill(d.adapt(rem.When))
		r.FirstAid = append(r.FirstAid, rem)
	}
	for _, w := range pb.Worse {
		r.Worse = append(r.Worse, names.fill(d.adapt(w)))
	}
	r.Escalate = pb.Escalate.String()
	return r
}

// stepTexts returns the texts of the front matter that may name settings.
func (pb Playbook) stepTexts() string {
	out := slices.Clone(pb.Worse)
	for _, r := range pb.FirstAid {
		out = append(out, r.Text, r.When)
	}
	return strings.Join(out, "\n")
}

// String returns the escalation as a sentence.
func (e Escalation) String() string {
	if e.After == "at once" {
		return "At once, call " + e.To + "."
	}
	return fmt.Sprintf("If it is not better after %s, call %s.", e.After, e.To)
}

// samplesFor returns the evidence that a check is about. A check with Broken takes only the samples
// of the workers that the verdict names, if there are any.
func samplesFor(c Check, in state.Incident, ev state.Evidence) state.Evidence {
	if !c.Broken {
		return ev
	}
	var own []state.Sample
	for _, s := range ev.Samples {
		if s.Signal == c.Signal && slices.Contains(in.Diagnosis.Scope.Pods, s.Entity.Pod) {
			own = append(own, s)
		}
	}
	if len(own) > 0 {
		ev.Samples = own
	}
	return ev
}

// answer evaluates one check.
func answer(c Check, ev state.Evidence) Answer {
	a := Answer{Check: c, State: StateUnknown, Unit: c.Unit, Limit: c.limit()}
	var numbers, words []state.Sample
	for _, s := range ev.Samples {
		switch {
		case s.Signal != c.Signal:
		case len(c.Bad) > 0 || (s.Text != "" && c.Warn == nil && c.Crit == nil):
			words = append(words, s)
		case !math.IsNaN(s.Value) && !math.IsInf(s.Value, 0):
			numbers = append(numbers, s)
		}
	}
	switch {
	case len(words) > 0:
		a.words(words)
	case len(numbers) > 0:
		a.number(numbers)
	default:
		a.Text = "not measured: " + missing(c.Signal, ev)
	}
	if why := reason("engines", ev); c.Signal == "up" && a.State == StateOK && why != "" {
		a.State = StateUnknown
		a.Text += "; but a page that may be another worker's could not be read: " + why
	}
	if limits := reason(c.Signal, ev); a.Measured && limits != "" {
		a.Text += "; " + limits
	}
	return a
}

// number answers with the aggregate over the pods. If no sample names a pod, it takes all samples.
func (a *Answer) number(samples []state.Sample) {
	if pods := slices.DeleteFunc(slices.Clone(samples),
		func(s state.Sample) bool { return s.Entity.Pod == "" }); len(pods) > 0 {
		samples = pods
	}
	c := a.Check
	agg := c.Agg
	if agg == "" {
		agg = "max"
		if c.Below {
			agg = "min"
		}
	}
	low := agg == "min" || (c.Below && agg != "max")
	worst, sum := samples[0], 0.0
	for _, s := range samples {
		sum += s.Value
		if (low && s.Value < worst.Value) || (!low && s.Value > worst.Value) {
			worst = s
		}
	}
	a.Measured, a.Value, a.At, a.Pod = true, worst.Value, worst.At, entityName(worst.Entity)
	if a.Unit == "" {
		a.Unit = worst.Unit
	}
	a.Baseline = worst.Baseline
	a.Text = state.FormatValue(worst.Value, a.Unit)
	switch agg {
	case "sum", "avg":
		what, total := "in all", sum
		if agg == "avg" {
			what, total = "on average", sum/float64(len(samples))
		}
		a.Value, a.Text = total, state.FormatValue(total, a.Unit)
		a.Baseline = totalBaseline(samples, agg)
		if len(samples) > 1 {
			a.Text += " " + what
			if a.Pod != "" {
				edge := "most"
				if low {
					edge = "least"
				}
				a.Text += fmt.Sprintf(", %s on %s (%s)", edge, a.Pod, state.FormatValue(worst.Value, a.Unit))
			}
		} else if a.Pod != "" {
			a.Text += " on " + a.Pod
		}
	default:
		if a.Pod != "" {
			a.Text += " on " + a.Pod
		}
	}
	if a.Baseline != nil {
		a.Text += fmt.Sprintf(" (before: %s)", state.FormatValue(*a.Baseline, a.Unit))
	}
	a.State = c.state(a.Value)
}

// totalBaseline aggregates the baselines like the values, if every sample has one.
func totalBaseline(samples []state.Sample, agg string) *float64 {
	sum := 0.0
	for _, s := range samples {
		if s.Baseline == nil {
			return nil
		}
		sum += *s.Baseline
	}
	if agg == "avg" {
		sum /= float64(len(samples))
	}
	return &sum
}

// words answers with the samples' texts, bad ones first.
func (a *Answer) words(samples []state.Sample) {
	c := a.Check
	isBad := func(s state.Sample) bool {
		return slices.ContainsFunc(c.Bad,
			func(b string) bool { return strings.Contains(strings.ToLower(s.Text), strings.ToLower(b)) })
	}
	a.Measured, a.State = true, StateInfo
	if len(c.Bad) > 0 {
		a.State = StateOK
	}
	var bad, rest []string
	names := map[string][]string{} // by text
	for _, s := range samples {
		text, name := cmp.Or(s.Text, "nothing"), entityName(s.Entity)
		if have, ok := names[text]; ok {
			names[text] = append(have, name)
			continue
		}
		names[text] = []string{name}
		if !isBad(s) {
			rest = append(rest, text)
			continue
		}
		if a.State != StateBad {
			a.State, a.Pod, a.At = StateBad, name, s.At
		}
		bad = append(bad, text)
	}
	if a.At.IsZero() {
		a.At = samples[0].At
	}
	var all []string
	for _, text := range append(bad, rest...) {
		if on := slices.DeleteFunc(names[text], func(name string) bool { return name == "" }); len(on) > 0 {
			text += " on " + firstOf(on, ", ")
		}
		all = append(all, text)
	}
	a.Text = firstOf(all, "; ")
}

// firstOf joins the first three words, and counts the others.
func firstOf(words []string, separator string) string {
	const most = 3
	out := strings.Join(words[:min(len(words), most)], separator)
	if more := len(words) - most; more > 0 {
		out += fmt.Sprintf("%sand %d more", separator, more)
	}
	return out
}

// state returns the state of a value under the check's thresholds.
func (c Check) state(v float64) AnswerState {
	past := func(limit *float64) bool {
		return limit != nil && ((!c.Below && v >= *limit) || (c.Below && v <= *limit))
	}
	switch {
	case past(c.Crit):
		return StateBad
	case past(c.Warn):
		return StateWarn
	case c.Warn == nil && c.Crit == nil:
		return StateInfo
	}
	return StateOK
}

// limit returns the check's thresholds as text.
func (c Check) limit() string {
	word := "from"
	switch {
	case c.Unit == "bool":
		word = "if"
	case c.Below:
		word = "down to"
	}
	var parts []string
	if c.Warn != nil && (c.Crit == nil || *c.Crit != *c.Warn) {
		parts = append(parts, fmt.Sprintf("warning %s %s", word, state.FormatValue(*c.Warn, c.Unit)))
	}
	if c.Crit != nil {
		parts = append(parts, fmt.Sprintf("bad %s %s", word, state.FormatValue(*c.Crit, c.Unit)))
	}
	if len(c.Bad) > 0 {
		parts = append(parts, "bad: "+strings.Join(c.Bad, ", "))
	}
	return strings.Join(parts, ", ")
}

// missing returns why a signal has no answer.
func missing(signal string, ev state.Evidence) string {
	switch r := reason(signal, ev); {
	case r != "":
		return r
	case ev.At.IsZero():
		return "no evidence was gathered yet"
	}
	return "no source gave " + signal
}

// reason returns the reason that the evidence has for a signal that could not be read, or only in
// part.
func reason(signal string, ev state.Evidence) string {
	for _, m := range ev.Missing {
		if m.Signal == signal && m.Reason != "" {
			return m.Reason
		}
	}
	return ""
}

// entityName returns the most specific name of an entity.
func entityName(e state.Entity) string {
	switch {
	case e.Pod != "":
		return e.Pod
	case e.GPU != "" && e.Node != "":
		return e.Node + " GPU " + e.GPU
	case e.Node != "":
		return e.Node
	case e.Instance != "":
		return e.Instance
	}
	return e.Pool
}
