package fold

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// Evidence is gathered again while an incident is open: often while it is young, then less.
const (
	enrichUndecided = 15 * time.Second // while there is no verdict: rates need a moment to show what began just now
	undecided       = 3 * time.Minute

	enrichYoung = time.Minute
	enrichOld   = 5 * time.Minute
	youth       = 15 * time.Minute
)

// evidenceCame applies a gathering of live context: the topology it found, and the verdict on it.
func (x *step) evidenceCame(ev state.Evidence) {
	in := x.incidents[ev.Incident]
	if in == nil || !in.Open() {
		return
	}
	x.learn(in.Cluster, ev.Workers, x.now)
	ev.Beside = x.beside(in)
	x.splitOff(in, ev)
	x.judge(in, ev)
}

// judge remembers what was gathered for an incident, and takes the verdict on it beside those of
// others.
func (x *step) judge(in *state.Incident, ev state.Evidence) {
	if !in.Open() {
		return
	}
	ev.Incident, ev.Beside = in.ID, x.beside(in)
	var drawn []state.Curve
	if before := x.evidence[in.ID]; before != nil {
		drawn = before.Curves
	}
	ev.Curves = mergeCurves(drawn, &ev, in)
	x.evidence[in.ID] = &ev
	x.touch(kindEvidence, string(in.ID))
	x.diagnosed(in, x.Triage.Diagnose(in, &ev, x.now))
	if in.Open() { // else its evidence is settled
		ev.Curves, ev.Gone = mergeCurves(drawn, &ev, in), nil // again: the verdict says which signals tell the story
	}
}

// diagnosed takes a verdict, unless the one before it should stand.
func (x *step) diagnosed(in *state.Incident, d state.Diagnosis) {
	first := in.DiagnosedAt.IsZero()
	before := in.Cause()
	if !first && !x.supersedes(in, d) {
		x.changedIncident(in)
		return
	}
	if first {
		x.drop(state.EffectID("prepare:" + string(in.ID)))
	}
	in.Diagnosis = d
	if before != in.Cause() {
		in.RuledOut, in.Over = nil, nil
	}
	for _, f := range d.Findings {
		for _, c := range f.Settles {
			if !slices.Contains(in.RuledOut, c) {
				in.RuledOut = append(in.RuledOut, c)
			}
		}
	}
	if d.Title != "" {
		in.Title = oneLine(d.Title)
	}
	in.Scope = mergeScope(d.Scope, in.Scope)
	x.indexScope(in)
	switch {
	case in.Cause() == state.Unknown:
		in.NamedAt = time.Time{}
	case first || before != in.Cause():
		in.NamedAt = x.now
	}
	switch {
	case first:
		in.DiagnosedAt = x.now
		x.record(in, state.Entry{Kind: "diagnosed", Text: verdictText(d)})
		in.Rev++
	case before != in.Cause():
		x.record(in, state.Entry{Kind: "diagnosed", Text: fmt.Sprintf("verdict changed from %s: %s", before, verdictText(d))})
		in.Rev++
	}
	if first || before != in.Cause() {
		x.wantPlan(in, x.now)
	}
	if in = x.joinOthers(in); in == nil {
		return
	}
	x.noteExternals(in)
	x.changedIncident(in)
	x.tell(in)
}

// supersedes says whether a new verdict replaces the one that people were told. As trouble fades,
// so does its evidence: a verdict is therefore not taken back for unknown, nor for benign, nor for
// what is only left behind, and not at all once the bot has acted on it or while a person does.
// Only that nothing is wrong is taken back for unknown, when an alert comes that it does not
// explain. None of this holds for a trouble that came after the one that was told had ended.
func (x *step) supersedes(in *state.Incident, d state.Diagnosis) bool {
	if d.Cause == in.Cause() {
		fades := d.Score < in.Diagnosis.Score && len(d.Scope.Pods) < len(in.Diagnosis.Scope.Pods)
		return in.ActiveAlerts > 0 && in.Status != state.StatusMitigating && !fades // the peak is what the report tells
	}
	if in.Cause() == state.Unknown {
		return true
	}
	if in.Cause() == state.BenignAlert && d.Cause == state.Unknown {
		return worse(in)
	}
	if d.Cause == state.Unknown || d.Cause == state.BenignAlert || in.ActiveAlerts == 0 || x.anothers(in, d) || x.blind(in, d) || x.rolledOut(in) {
		return false
	}
	if afresh(in, d) {
		return !x.busy(in)
	}
	if x.leftBehind(in, d) || slices.Contains(in.RuledOut, d.Cause) {
		return false
	}
	for _, id := range in.Actions {
		a := x.actions[id]
		if s := a.State; !s.BeforeEffect() && s != state.Denied && s != state.Expired && s != state.Cancelled && (s != state.Superseded || a.Reached(state.Applied)) {
			return false
		}
	}
	return true
}

// afresh says that a verdict is about what came within the hold, when all alerts of the trouble
// that was told were gone: it explains a symptom that this trouble never had and does not lead to.
func afresh(in *state.Incident, d state.Diagnosis) bool {
	return len(in.Over) > 0 && slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		return s.Active > 0 && !slices.Contains(in.Over, s.Symptom) && !slices.Contains(in.Diagnosis.Explains, s.Symptom) && slices.Contains(d.Explains, s.Symptom)
	})
}

// worse says that an alert fires that the verdict neither explains nor was weighed with.
func worse(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		weighed := func(f state.Finding) bool { return f.Signal == "symptom:"+string(s.Symptom) }
		return s.Active > 0 && s.Symptom != state.Unclassified && !slices.Contains(in.Diagnosis.Explains, s.Symptom) && !slices.ContainsFunc(in.Diagnosis.Findings, weighed)
	})
}

// anothers says that a verdict is about other workers than those that the incident was about, and
// that these have an incident of that cause: when the signs of one trouble fade, what is left to be
// seen is the other.
func (x *step) anothers(in *state.Incident, d state.Diagnosis) bool {
	if len(in.Diagnosis.Scope.Pods) == 0 || intersect(in.Diagnosis.Scope.Pods, d.Scope.Pods) {
		return false
	}
	return slices.ContainsFunc(x.around(in.Cluster, d.Scope), func(other *state.Incident) bool {
		return other.ID != in.ID && other.Open() && other.Cause() == d.Cause && intersect(other.Diagnosis.Scope.Pods, d.Scope.Pods)
	})
}

// fading is for how long what a trouble leaves behind may be taken for another: as long as the
// longest windows of rules and signals are, and rules wait before they fire.
const fading = 15 * time.Minute

// leftBehind says that less speaks for a verdict than did for the one before it: while a trouble
// ends, queues that drain and clients that come back look like troubles of their own, and what
// showed the real one is over. None of that is a root of it that an alert tells of, or that is a
// worker or a machine found broken.
func (x *step) leftBehind(in *state.Incident, d state.Diagnosis) bool {
	unexplained := func(s state.SymptomCount) bool {
		return s.Active > 0 && s.Symptom != state.Unclassified && !slices.Contains(in.Diagnosis.Explains, s.Symptom)
	}
	broken := len(d.Scope.Pods)+len(d.Scope.Nodes) > 0
	root := slices.Contains(d.LeadsTo, in.Cause()) && (broken || slices.ContainsFunc(in.Symptoms, unexplained))
	return in.Cause() != state.BenignAlert && d.Score < in.Diagnosis.Score && x.now.Sub(in.Diagnosis.At) <= fading && !root
}

// aftermath is for how long a rollout explains what is new: queues move to workers with cold caches
// and arrive there again, and some workers have the new settings while others have the old.
const aftermath = 15 * time.Minute

// rolledOut says that somebody answered the verdict with a rollout of the incident's pool, and a
// moment ago. What came after a verdict is no root of what it was about, however much it looks like
// one.
func (x *step) rolledOut(in *state.Incident) bool {
	ev := x.evidence[in.ID]
	return ev != nil && slices.ContainsFunc(ev.Samples, func(s state.Sample) bool {
		if s.Signal != "rollout_age" || in.Scope.Pool != "" && s.Entity.Pool != "" && s.Entity.Pool != in.Scope.Pool {
			return false
		}
		began := s.At.Add(-time.Duration(s.Value * float64(time.Second)))
		return began.After(in.NamedAt) && x.now.Sub(began) <= aftermath
	})
}

// blindness is how long a verdict stands on what was read before. Longer than that, what cannot be
// read is itself what is wrong.
const blindness = 3 * time.Minute

// blind says that a verdict would only be another because what the one before it rests on could not
// be read this time: a scrape that failed is no evidence against what the one before it showed.
// What spoke against the new one may be as much as what spoke for the old.
func (x *step) blind(in *state.Incident, d state.Diagnosis) bool {
	ev := x.evidence[in.ID]
	i := slices.IndexFunc(d.Alternatives, func(a state.Alternative) bool { return a.Cause == in.Cause() })
	if ev == nil || i < 0 || x.now.Sub(in.Diagnosis.At) > blindness {
		return false
	}
	unread := 0.0
	for _, f := range in.Diagnosis.Findings {
		if f.Weight > 0 && slices.ContainsFunc(f.Reads, func(signal string) bool { return lacks(ev, signal, f.Pod) }) {
			unread += f.Weight
		}
	}
	return unread > 0 && d.Alternatives[i].Score+2*unread >= d.Score
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// around are the incidents that a scope may concern.
func (x *step) around(cluster string, s state.Scope) []*state.Incident {
	out := x.candidates(x.entityKeys(scopeEntity(s), ""))
	for _, pod := range s.Pods {
		out = append(out, x.candidates(x.entityKeys(state.Entity{Cluster: cluster, Namespace: s.Namespace, Pod: pod}, ""))...)
	}
	for _, node := range s.Nodes {
		out = append(out, x.candidates(x.entityKeys(state.Entity{Cluster: cluster, Node: node}, ""))...)
	}
	return slices.DeleteFunc(out, func(in *state.Incident) bool { return in.Cluster != cluster })
}

// joinOthers merges incidents that one cause explains. It gives the incident that remains of the
// given one's trouble where that is the given one, and nil where it was itself merged into an older
// root.
func (x *step) joinOthers(in *state.Incident) *state.Incident {
	for _, other := range x.around(in.Cluster, in.Scope) {
		if other.ID == in.ID || !other.Open() {
			continue
		}
		switch {
		case x.Triage.Absorbs(in, other):
			x.merge(in, other)
		case !other.DiagnosedAt.IsZero() && x.Triage.Absorbs(other, in):
			x.merge(other, in)
			x.tell(other)
			return nil
		}
	}
	return in
}

// merge makes other a part of root. Its alerts stay its own records and are found through
// MergedInto, so that the cost of a merge does not depend on how many there are.
func (x *step) merge(root, other *state.Incident) {
	root.Absorbed = append(root.Absorbed, other.ID)
	root.AlertCount += other.AlertCount
	root.ActiveAlerts += other.ActiveAlerts
	if other.StartedAt.Before(root.StartedAt) {
		root.StartedAt = other.StartedAt
	}
	if other.Severity.Rank() > root.Severity.Rank() {
		root.Severity = other.Severity
	}
	for _, s := range other.Symptoms {
		root.MergeSymptom(s)
	}
	if root.AckedAt.IsZero() && !other.AckedAt.IsZero() {
		root.AckedAt, root.AckedBy = other.AckedAt, inherited(other.AckedBy)
	}
	for _, id := range other.Actions {
		a := x.actions[id]
		if a.NeedsPerson() || !a.State.BeforeEffect() && !a.State.Done() || a.Declined() {
			root.Actions = append(root.Actions, id) // what is under way is now the root's to wait for, and a person's no is to the root, too
		}
		if a.NeedsPerson() {
			root.HandedAt = later(root.HandedAt, other.HandedAt)
		}
	}
	x.inheritExternals(root, other)
	x.index(root, slices.Collect(maps.Keys(x.keys[other.ID])))
	x.record(root, state.Entry{Kind: "merged", Text: fmt.Sprintf("%s (%s) is the same trouble and was merged into this incident", other.ID, other.Title)})
	x.record(other, state.Entry{Kind: "merged", Text: fmt.Sprintf("merged into %s: %s", root.ID, root.Title)})
	other.MergedInto = root.ID
	other.ActiveAlerts = 0
	x.close(other, "merge")
	root.Rev++
	if root.Status == state.StatusMonitoring && root.ActiveAlerts > 0 {
		root.Status, root.HoldUntil = x.activeStatus(root), time.Time{}
	}
	x.changedIncident(root)
}

// inherited is a person who acknowledged another page of the same trouble: no tool knows yet that
// this one is theirs too.
func inherited(by state.Actor) state.Actor {
	by.Via = "paramedic"
	return by
}

// close resolves an incident: nothing is gathered or begun for it any more, and everybody who was
// told is told the end.
func (x *step) close(in *state.Incident, by string) {
	in.Status, in.ResolvedAt, in.ResolvedBy = state.StatusResolved, x.now, by
	in.HoldUntil, in.NotifyBy, in.EnrichAt, in.SilencedUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	x.unindex(in)
	if ev := x.evidence[in.ID]; ev != nil {
		x.evidence[in.ID] = withoutSeries(ev)
		x.touch(kindEvidence, string(in.ID))
	}
	x.drop(state.EffectID("prepare:" + string(in.ID)))
	x.drop(state.EffectID("enrich:" + string(in.ID)))
	x.drop(planEffect(in.ID))
	for _, id := range in.Actions {
		if a := x.actions[id]; a.State.BeforeEffect() {
			x.moveAction(in, a, state.Cancelled, "the incident was resolved before anything was done", state.Actor{ID: "paramedic", Via: "paramedic"})
		}
	}
	x.show(in)
}

func verdictText(d state.Diagnosis) string {
	if d.Cause == state.Unknown {
		text := "no verdict"
		if len(d.Alternatives) > 0 {
			var names []string
			for _, alt := range d.Alternatives[:min(2, len(d.Alternatives))] {
				names = append(names, fmt.Sprintf("%s (%s)", alt.Cause, percent(alt.Confidence)))
			}
			text += ": the evidence does not decide between " + strings.Join(names, " and ")
		}
		return text
	}
	return fmt.Sprintf("%s, %s sure: %s", d.Cause, percent(d.Confidence), d.Title)
}

// percent is a confidence as people read it; no verdict is quite certain.
func percent(share float64) string { return fmt.Sprintf("%.0f %%", min(99, 100*share)) }

// mergeScope is the verdict's scope, with names that only the alerts gave.
func mergeScope(verdict, alerts state.Scope) state.Scope {
	s := verdict
	for _, f := range []struct {
		to   *string
		from string
	}{{&s.Cluster, alerts.Cluster}, {&s.Namespace, alerts.Namespace}, {&s.Model, alerts.Model}, {&s.Pool, alerts.Pool}} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	return s
}

// lacks reports whether a signal was not read: of nobody, or not of this worker, which is there.
func lacks(e *state.Evidence, signal, pod string) bool {
	of := func(s state.Sample) bool {
		return s.Signal == signal && (pod == "" || s.Entity.Pod == pod || s.Entity.Pod == "")
	}
	if slices.ContainsFunc(e.Samples, of) {
		return false
	}
	return slices.ContainsFunc(e.Missing, func(m state.Missing) bool { return m.Signal == signal }) ||
		slices.ContainsFunc(e.Workers, func(w state.Worker) bool { return w.Pod == pod })
}
