package main

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paramedic/rules/catalog"
	"paramedic/state"
)

// A named is the final verdict of an incident.
type named struct {
	Cause      string  `json:"cause"`
	Confidence float64 `json:"confidence"`
	Right      bool    `json:"right"`
}

// truth returns the true cause: that of a decoy is a rule that fires on a healthy pool.
func (r *result) truth() string {
	if r.Decoy {
		return string(state.BenignAlert)
	}
	return cmp.Or(r.True, r.Fault)
}

// judge counts what the incidents are called at the end.
func (r *run) judge(res *result) error {
	res.Alerts, res.Harmful = r.Alerts, r.harm(res.truth(), res.Fault)
	var b strings.Builder
	res.Outcome = "silent"
	if res.Decoy {
		res.Outcome = "right"
	}
	for _, in := range r.Board.Incidents() {
		about := r.about(&in)
		if r.Paged[in.ID] {
			res.Paged = true
			if !about || res.truth() == string(state.BenignAlert) {
				res.PagedHealthy++
			}
		}
		if in.MergedInto != "" {
			continue
		}
		res.Incidents++
		describe(&b, &in)
		if ev := r.Board.Evidence(in.ID); ev != nil && r.evidence {
			tabulate(&b, ev)
			explain(&b, r.triage.Catalog, &in, ev, res.truth())
		}
		if err := r.call(res, &in, about); err != nil {
			return err
		}
	}
	if res.Outcome == "silent" && res.Alerts > 0 {
		res.Outcome = "unknown" // alerts fired, and no verdict is about the fault
	}
	res.trace = b.String()
	return r.triage.err
}

// call counts the final verdict of one incident, and keeps its moment if it is the first about the
// fault, or the right one.
func (r *run) call(res *result, in *state.Incident, about bool) error {
	if m, ok := r.triage.of(in); ok && about && (res.Moment == nil || string(in.Cause()) == res.truth()) {
		var err error
		if res.Moment, err = m.pack(); err != nil {
			return err
		}
	}
	res.count(in.Diagnosis, about)
	return nil
}

// count counts the final verdict of one incident, which is about the faulty fleet or another.
func (r *result) count(d state.Diagnosis, about bool) {
	cause := string(cmp.Or(d.Cause, state.Unknown))
	right := cause == r.truth() && about
	switch {
	case cause == string(state.Unknown):
		if r.Outcome == "silent" {
			r.Outcome, r.Confidence = "unknown", d.Confidence
		}
		if d.Likely != nil && r.Likely == "" {
			r.Likely = string(d.Likely.Cause)
		}
		return
	case right:
		if len(r.Wrong) == 0 {
			r.Outcome, r.Confidence = "right", d.Confidence
		}
	case d.Cause == state.BenignAlert && (r.Decoy || !about):
		right = true
	default:
		r.Wrong = append(r.Wrong, cause)
		r.Outcome, r.Confidence = cause, d.Confidence
	}
	r.Verdicts = append(r.Verdicts, named{cause, d.Confidence, right})
}

// look keeps what open incidents advise, whether their verdict is the last or not.
func (r *run) look() {
	for _, in := range r.Board.Incidents() {
		if in.DiagnosedAt.IsZero() || !in.Open() {
			continue
		}
		advised := r.advised
		if !r.about(&in) {
			advised = r.beside
		}
		for _, t := range r.advice.Given(&in, r.At) {
			if !slices.Contains(advised[in.Cause()], t) {
				advised[in.Cause()] = append(advised[in.Cause()], t)
			}
		}
	}
}

// lastVerdict returns the time of the last verdict, or the end of the run if there is none.
func (r *run) lastVerdict() time.Time {
	var last time.Time
	for _, in := range r.Board.Incidents() {
		if in.MergedInto == "" && in.Diagnosis.At.After(last) {
			last = in.Diagnosis.At
		}
	}
	if last.IsZero() {
		return r.At
	}
	return last
}

// harm returns the advice of all verdicts that makes the fault worse. The true cause is known only
// at the end. Advice for the fault that was played suits it, also if its drawn strength makes it
// another cause by definition.
func (r *run) harm(truth, played string) []string {
	var out []string
	for cause, given := range r.advised {
		if string(cause) != played {
			out = append(out, r.advice.Harmful(cause, given, truth)...)
		}
	}
	for cause, given := range r.beside {
		if string(cause) != truth { // the fault may reach a neighbour on the same node
			out = append(out, r.advice.Harmful(cause, given, string(state.BenignAlert))...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// about reports whether an incident names the faulty fleet, or no place at all.
func (r *run) about(in *state.Incident) bool {
	if r.world.neighbour == nil {
		return true
	}
	other := r.world.neighbour.Config()
	s := in.Diagnosis.Scope
	return s.Pool != other.Pool && s.Model != other.Model &&
		!slices.ContainsFunc(s.Pods, func(pod string) bool { return strings.HasPrefix(pod, other.Pool+"-") })
}

func describe(b *strings.Builder, in *state.Incident) {
	d := in.Diagnosis
	closed := "open"
	if !in.ResolvedAt.IsZero() {
		closed = in.ResolvedAt.Format(time.TimeOnly)
	}
	fmt.Fprintf(b, "  #%d %s to %s %s %+g dB (%.2f), impact %s: %s pool=%q pods=%d [", in.Number, in.OpenedAt.Format(time.TimeOnly), closed,
		in.Cause(), d.Score, d.Confidence, d.Impact, in.Title, in.Scope.Pool, len(in.Scope.Pods))
	for _, s := range in.Symptoms {
		fmt.Fprintf(b, " %s(%s)", s.Symptom, strings.Join(s.Rules, ","))
	}
	b.WriteString(" ]\n")
	for _, f := range d.Findings {
		fmt.Fprintf(b, "      %+5g  %s\n", f.Weight, f.Text)
	}
	for _, a := range d.Alternatives {
		fmt.Fprintf(b, "      next: %s %+g dB; %s\n", a.Cause, a.Score, a.WouldWinIf)
	}
	fmt.Fprintf(b, "      why: %s\n", d.Story.Why)
}

// tabulate lists the values of an incident by signal, those of pools before those of workers.
func tabulate(b *strings.Builder, ev *state.Evidence) {
	samples := slices.Clone(ev.Samples)
	slices.SortStableFunc(samples, func(x, y state.Sample) int {
		return cmp.Or(strings.Compare(x.Signal, y.Signal), strings.Compare(place(x.Entity), place(y.Entity)))
	})
	before := func(name string, v *float64) string {
		if v == nil {
			return ""
		}
		return fmt.Sprintf(" %s %.4g", name, *v)
	}
	for _, s := range samples {
		fmt.Fprintf(b, "        %-24s %-44s %.4g%s%s%s%s%s %s\n", s.Signal, place(s.Entity), s.Value, before("baseline", s.Baseline),
			before("hour", s.HourAgo), before("earlier", s.Earlier), before("day", s.DayAgo), before("week", s.WeekAgo), s.Text)
	}
	for _, m := range ev.Missing {
		fmt.Fprintf(b, "        missing %s: %s\n", m.Signal, m.Reason)
	}
	fmt.Fprintf(b, "        in trouble before: %v\n", ev.Old)
}

// place names an entity by its narrowest parts.
func place(e state.Entity) string {
	return strings.Trim(strings.Join([]string{e.Pool, e.Pod, e.Instance, e.Node, e.GPU}, " "), " ")
}

// explain lists what the score of a cause adds.
func explain(b *strings.Builder, c *catalog.Catalog, in *state.Incident, ev *state.Evidence, cause string) {
	sums, _ := sumsOf(c, in, ev)
	for _, s := range sums {
		if s.cause != cause {
			continue
		}
		for _, term := range slices.Sorted(maps.Keys(s.terms)) {
			fmt.Fprintf(b, "        %s adds %s\n", cause, term)
		}
	}
}
