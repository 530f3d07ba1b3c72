package fold

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// While an incident is open, evidence is gathered again: often at first, then less often.
const (
	enrichUndecided = 15 * time.Second // while there is no verdict: rates need time to show a recent change
	undecided       = 3 * time.Minute

	enrichYoung = time.Minute
	enrichOld   = 5 * time.Minute
	youth       = 15 * time.Minute
)

// applyEvidence applies a gathering of live context: its workers, and the verdict on it.
func (x *step) applyEvidence(ev state.Evidence) {
	in := x.incidents[ev.Incident]
	if in == nil || !in.Open() {
		return
	}
	x.rememberWorkers(in.Cluster, ev.Workers, x.now)
	ev.Beside = x.otherVerdicts(in)
	x.split(in, ev)
	x.diagnose(in, ev)
}

// diagnose stores an incident's evidence and applies the verdict on it.
func (x *step) diagnose(in *state.Incident, ev state.Evidence) {
	if !in.Open() {
		return
	}
	ev.Incident, ev.Beside = in.ID, x.otherVerdicts(in)
	var drawn []state.Curve
	if before := x.evidence[in.ID]; before != nil {
		drawn = before.Curves
	}
	ev.Curves = mergeCurves(drawn, &ev, in)
	x.evidence[in.ID] = &ev
	x.touch(kindEvidence, string(in.ID))
	x.takeVerdict(in, x.Triage.Diagnose(in, &ev, x.now))
	if in.Open() { // else its evidence is archived
		ev.Curves, ev.Gone = mergeCurves(drawn, &ev, in), nil // again: the verdict selects the signals to draw
	}
}

// takeVerdict applies a verdict, unless the one before it should stay.
func (x *step) takeVerdict(in *state.Incident, d state.Diagnosis) {
	first := in.DiagnosedAt.IsZero()
	before := in.Cause()
	moved := !first && x.takeImpact(in, &d)
	if !first && !x.supersedes(in, d) {
		x.changedIncident(in)
		if moved {
			x.notifyChannels(in)
		}
		return
	}
	if first {
		x.dropEffect(state.EffectID("prepare:" + string(in.ID)))
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
		x.record(in, state.Entry{Kind: "diagnosed",
			Text: fmt.Sprintf("verdict changed from %s: %s", before, verdictText(d))})
		in.Rev++
	}
	if first || before != in.Cause() {
		if old := x.relapsed(in); old != nil {
			x.comeBack(old, in)
			return
		}
		x.wantPlan(in, x.now)
	}
	if in = x.joinOthers(in); in == nil {
		return
	}
	x.noteExternals(in)
	x.changedIncident(in)
	x.notifyChannels(in)
}

// supersedes reports whether a new verdict replaces the one that was published.
//
// The evidence fades with the trouble. A verdict is therefore not replaced by unknown, by benign,
// or by a mere consequence. It is not replaced at all after the bot has acted on it, or while a
// person does. Only a benign verdict is replaced by unknown, if an alert fires that it does not
// explain. None of this applies to a new trouble after the end of the first one.
func (x *step) supersedes(in *state.Incident, d state.Diagnosis) bool {
	if d.Cause == in.Cause() {
		fades := d.Score < in.Diagnosis.Score && len(d.Scope.Pods) < len(in.Diagnosis.Scope.Pods)
		return in.ActiveAlerts > 0 && in.Status != state.StatusMitigating && !fades // the report keeps the peak
	}
	if in.Cause() == state.Unknown {
		return true
	}
	if in.Cause() == state.BenignAlert && d.Cause == state.Unknown {
		return hasUnexplainedAlert(in)
	}
	if d.Cause == state.Unknown || d.Cause == state.BenignAlert || in.ActiveAlerts == 0 || x.belongsToOther(in, d) ||
		x.restsOnMissing(in, d) || x.followsRollout(in) {
		return false
	}
	if isNewTrouble(in, d) {
		return !x.hasOpenWrite(in)
	}
	if x.isAftermath(in, d) || slices.Contains(in.RuledOut, d.Cause) {
		return false
	}
	for _, id := range in.Actions {
		a := x.actions[id]
		if s := a.State; !s.BeforeEffect() && s != state.Denied && s != state.Expired && s != state.Cancelled &&
			(s != state.Superseded || a.Reached(state.Applied)) {
			return false
		}
	}
	return true
}

// isNewTrouble reports whether a verdict is about a new trouble that came within the hold, after
// all alerts of the first had resolved. It explains a symptom that the first trouble neither had
// nor leads to.
func isNewTrouble(in *state.Incident, d state.Diagnosis) bool {
	return len(in.Over) > 0 && slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		return s.Active > 0 && !slices.Contains(in.Over, s.Symptom) &&
			!slices.Contains(in.Diagnosis.Explains, s.Symptom) && slices.Contains(d.Explains, s.Symptom)
	})
}

// hasUnexplainedAlert reports whether an active symptom is neither explained by the verdict nor
// among its findings.
func hasUnexplainedAlert(in *state.Incident) bool {
	return slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		weighed := func(f state.Finding) bool { return f.Signal == "symptom:"+string(s.Symptom) }
		return s.Active > 0 && s.Symptom != state.Unclassified && !slices.Contains(in.Diagnosis.Explains, s.Symptom) &&
			!slices.ContainsFunc(in.Diagnosis.Findings, weighed)
	})
}

// belongsToOther reports whether a verdict is about other pods than the incident, and these have an
// incident with the same cause. When the evidence of one trouble fades, only that of the other
// remains.
func (x *step) belongsToOther(in *state.Incident, d state.Diagnosis) bool {
	if len(in.Diagnosis.Scope.Pods) == 0 || intersect(in.Diagnosis.Scope.Pods, d.Scope.Pods) {
		return false
	}
	return slices.ContainsFunc(x.nearby(in.Cluster, d.Scope), func(other *state.Incident) bool {
		return other.ID != in.ID && other.Open() && other.Cause() == d.Cause &&
			intersect(other.Diagnosis.Scope.Pods, d.Scope.Pods)
	})
}

// fadeTime is the time that the consequences of a trouble may look like another trouble. It covers
// the longest windows of rules and signals, and the time that rules wait before they fire.
const fadeTime = 15 * time.Minute

// isAftermath reports whether a verdict has a lower score than the one before it and comes soon
// after. While a trouble ends, draining queues and returning clients look like a trouble of their
// own, and the evidence of the real one is gone. A root cause of the first verdict is no aftermath
// if an alert or a broken worker or node shows it, or while no alert has resolved: rates look back
// minutes, so the score of the root still grows.
func (x *step) isAftermath(in *state.Incident, d state.Diagnosis) bool {
	if in.Relapses > 0 && slices.Contains(in.Diagnosis.LeadsTo, d.Cause) {
		return true // the trouble is back, and shows its consequence first
	}
	unexplained := func(s state.SymptomCount) bool {
		return s.Active > 0 && s.Symptom != state.Unclassified && !slices.Contains(in.Diagnosis.Explains, s.Symptom)
	}
	resolved := func(s state.SymptomCount) bool { return s.Active < s.Alerts }
	broken := len(d.Scope.Pods)+len(d.Scope.Nodes) > 0
	root := slices.Contains(d.LeadsTo, in.Cause()) && (broken || slices.ContainsFunc(in.Symptoms, unexplained) ||
		!slices.ContainsFunc(in.Symptoms, resolved))
	return in.Cause() != state.BenignAlert && d.Score < in.Diagnosis.Score && x.now.Sub(in.Diagnosis.At) <= fadeTime &&
		!root
}

// rolloutTime is the time that a rollout explains new symptoms. Queues move to workers with cold
// caches, and some workers have the new settings while others have the old.
const rolloutTime = 15 * time.Minute

// followsRollout reports whether someone started a rollout of the incident's pool soon after the
// verdict. A change after the verdict cannot be its root cause.
func (x *step) followsRollout(in *state.Incident) bool {
	ev := x.evidence[in.ID]
	return ev != nil && slices.ContainsFunc(ev.Samples, func(s state.Sample) bool {
		if s.Signal != "rollout_age" || in.Scope.Pool != "" && s.Entity.Pool != "" && s.Entity.Pool != in.Scope.Pool {
			return false
		}
		began := s.At.Add(-time.Duration(s.Value * float64(time.Second)))
		return began.After(in.NamedAt) && x.now.Sub(began) <= rolloutTime
	})
}

// scrapeGap is the time that a verdict is kept although its signals cannot be read. After that the
// missing signals are themselves a symptom.
const scrapeGap = 3 * time.Minute

// restsOnMissing reports whether a verdict is different only because signals of the one before it
// could not be read this time. A failed scrape is no evidence against the earlier verdict. The
// missing findings count twice, because they may also have spoken against the new cause.
func (x *step) restsOnMissing(in *state.Incident, d state.Diagnosis) bool {
	ev := x.evidence[in.ID]
	i := slices.IndexFunc(d.Alternatives, func(a state.Alternative) bool { return a.Cause == in.Cause() })
	if ev == nil || i < 0 || x.now.Sub(in.Diagnosis.At) > scrapeGap {
		return false
	}
	unread := 0.0
	for _, f := range in.Diagnosis.Findings {
		if f.Weight > 0 &&
			slices.ContainsFunc(f.Reads, func(signal string) bool { return isMissing(ev, signal, f.Pod) }) {
			unread += f.Weight
		}
	}
	return unread > 0 && d.Alternatives[i].Score+2*unread >= d.Score
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// nearby returns the incidents that may concern a scope.
func (x *step) nearby(cluster string, s state.Scope) []*state.Incident {
	out := x.appendCandidates(nil, x.entityKeys(scopeEntity(s), ""))
	for _, pod := range s.Pods {
		out = x.appendCandidates(out, x.entityKeys(state.Entity{Cluster: cluster, Namespace: s.Namespace, Pod: pod}, ""))
	}
	for _, node := range s.Nodes {
		out = x.appendCandidates(out, x.entityKeys(state.Entity{Cluster: cluster, Node: node}, ""))
	}
	return slices.DeleteFunc(out, func(in *state.Incident) bool { return in.Cluster != cluster })
}

// joinOthers merges incidents that one cause explains. It returns nil if the incident itself was
// merged into an older root.
func (x *step) joinOthers(in *state.Incident) *state.Incident {
	others := x.nearby(in.Cluster, in.Scope)
	if keys := x.benignKeys(in); len(keys) > 0 {
		others = x.appendCandidates(others, keys)
	}
	for _, other := range others {
		if other.ID == in.ID || !other.Open() {
			continue
		}
		switch {
		case x.Triage.Absorbs(in, other):
			x.merge(in, other)
		case !other.DiagnosedAt.IsZero() && x.Triage.Absorbs(other, in):
			x.merge(other, in)
			x.notifyChannels(other)
			return nil
		}
	}
	return in
}

// merge makes other a part of root. Its alerts keep their records and are found through MergedInto,
// so that the cost of a merge does not depend on their number.
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
		root.AckedAt, root.AckedBy = other.AckedAt, ackedElsewhere(other.AckedBy)
	}
	for _, id := range other.Actions {
		a := x.actions[id]
		if a.NeedsPerson() || !a.State.BeforeEffect() && !a.State.Done() || a.Declined() {
			// Root waits for runs in progress, and a person's refusal applies to root, too.
			root.Actions = append(root.Actions, id)
		}
		if a.NeedsPerson() {
			root.HandedAt = later(root.HandedAt, other.HandedAt)
		}
	}
	x.inheritExternals(root, other)
	x.index(root, x.keysOf[other.ID])
	x.record(root, state.Entry{Kind: "merged",
		Text: fmt.Sprintf("%s (%s) belongs to this incident and was merged into it", other.ID, other.Title)})
	x.record(other, state.Entry{Kind: "merged", Text: fmt.Sprintf("merged into %s: %s", root.ID, root.Title)})
	other.MergedInto = root.ID
	other.ActiveAlerts = 0
	x.resolveIncident(other, "merge")
	root.Rev++
	if root.Status == state.StatusMonitoring && root.ActiveAlerts > 0 {
		root.Status, root.HoldUntil = x.activeStatus(root), time.Time{}
	}
	x.changedIncident(root)
}

// ackedElsewhere returns a person who acknowledged another page of the same trouble. No tool knows
// yet that this page is acknowledged, too.
func ackedElsewhere(by state.Actor) state.Actor {
	by.Via = "paramedic"
	return by
}

// resolveIncident resolves an incident. It stops gathering and plans, and publishes the end on all
// of its channels.
func (x *step) resolveIncident(in *state.Incident, by string) {
	in.Status, in.ResolvedAt, in.ResolvedBy = state.StatusResolved, x.now, by
	in.HoldUntil, in.NotifyBy, in.EnrichAt, in.SilencedUntil = time.Time{}, time.Time{}, time.Time{}, time.Time{}
	x.unindex(in)
	if ev := x.evidence[in.ID]; ev != nil {
		x.evidence[in.ID] = archived(ev)
		x.touch(kindEvidence, string(in.ID))
	}
	x.dropEffect(state.EffectID("prepare:" + string(in.ID)))
	x.dropEffect(state.EffectID("enrich:" + string(in.ID)))
	x.dropEffect(planEffect(in.ID))
	for _, id := range in.Actions {
		if a := x.actions[id]; a.State.BeforeEffect() {
			x.moveAction(in, a, state.Cancelled, "the incident was resolved before anything was done",
				state.Actor{ID: "paramedic", Via: "paramedic"})
		}
	}
	x.rememberEnd(in)
	x.publish(in)
}

func verdictText(d state.Diagnosis) string {
	if d.Cause == state.Unknown {
		text := "no verdict"
		if len(d.Alternatives) > 0 {
			var names []string
			for _, alt := range d.Alternatives[:min(2, len(d.Alternatives))] {
				names = append(names, fmt.Sprintf("%s (%s)", alt.Cause, percentText(alt.Confidence)))
			}
			text += ": the evidence does not decide between " + strings.Join(names, " and ")
		}
		return text
	}
	return fmt.Sprintf("%s, %s sure: %s", d.Cause, percentText(d.Confidence), d.Title)
}

// percentText writes a confidence, 99 % at most. No verdict is certain.
func percentText(share float64) string { return fmt.Sprintf("%.0f %%", min(99, 100*share)) }

// mergeScope returns the verdict's scope, with the names that only the alerts have.
func mergeScope(verdict, alerts state.Scope) state.Scope {
	s := verdict
	for _, f := range []struct {
		to   *string
		from string
	}{{&s.Cluster, alerts.Cluster}, {&s.Namespace, alerts.Namespace}, {&s.Model, alerts.Model}, {&s.Pool,
		alerts.Pool}} {
		if *f.to == "" {
			*f.to = f.from
		}
	}
	return s
}

// isMissing reports whether no sample has the signal for the pod, or for any pod if pod is empty,
// although the signal was queried or the worker exists.
func isMissing(e *state.Evidence, signal, pod string) bool {
	of := func(s state.Sample) bool {
		return s.Signal == signal && (pod == "" || s.Entity.Pod == pod || s.Entity.Pod == "")
	}
	if slices.ContainsFunc(e.Samples, of) {
		return false
	}
	return slices.ContainsFunc(e.Missing, func(m state.Missing) bool { return m.Signal == signal }) ||
		slices.ContainsFunc(e.Workers, func(w state.Worker) bool { return w.Pod == pod })
}
