package fold

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
	"paramedic/state/fold/curve"
	"paramedic/state/fold/packed"
)

// While an incident is open, evidence is gathered again: often at first, then less often. With many
// open incidents in a partition, each waits for enrichShare times their number, at most for
// enrichOld. So a storm does not flood Prometheus with queries for verdicts that do not change.
const (
	enrichUndecided = 15 * time.Second // while there is no verdict: rates need time to show a recent change
	undecided       = 3 * time.Minute

	enrichYoung = time.Minute
	enrichOld   = 5 * time.Minute
	youth       = 15 * time.Minute

	enrichShare = 50 * time.Millisecond
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
	ev.Curves = curve.Merge(drawn, &ev, in)
	x.evidence[in.ID] = &ev
	x.touch(kindEvidence, string(in.ID))
	x.takeVerdict(in, x.Triage.Diagnose(in, &ev, x.now))
	if in.Open() { // else its evidence is archived
		ev.Curves, ev.Gone = curve.Merge(drawn, &ev, in), nil // again: the verdict selects the signals to draw
	}
}

// takeVerdict applies a verdict, unless the one before it should stay.
func (x *step) takeVerdict(in *state.Incident, d state.Diagnosis) {
	first := in.DiagnosedAt.IsZero()
	before := in.Cause()
	moved := !first && x.takeImpact(in, &d)
	if !first && !x.supersedes(in, d) {
		x.takeCautions(in, d)
		x.changedIncident(in)
		if moved {
			x.notifyChannels(in)
		}
		return
	}
	packed.ShareTexts(&d)
	in.Diagnosis, in.Diagnosis.Doubts = d, nil
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
	in.Scope = d.Scope.FilledFrom(in.Scope)
	x.titlePools(in, before == in.Cause())
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

// titlePools sets the incident's pools, and its title by the verdict. It returns the number of the
// pools. Those of the same cause stay, also after the records that name them are erased.
func (x *step) titlePools(in *state.Incident, same bool) int {
	if !same {
		in.Pools = nil
	}
	in.Pools = x.poolsOf(in, in.Pools)
	if in.Diagnosis.Title != "" {
		in.Title = oneLine(in.Diagnosis.Title + in.AlsoIn())
	}
	return len(in.Pools)
}

func intersect(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}

// nearby returns the incidents that may concern a scope.
func (x *step) nearby(cluster string, s state.Scope) []*state.Incident {
	out := x.open.AppendCandidates(nil, x.entityKeys(s.Entity(), ""))
	for _, pod := range s.Pods {
		out = x.open.AppendCandidates(out, x.entityKeys(state.Entity{Cluster: cluster, Namespace: s.Namespace, Pod: pod}, ""))
	}
	for _, node := range s.Nodes {
		out = x.open.AppendCandidates(out, x.entityKeys(state.Entity{Cluster: cluster, Node: node}, ""))
	}
	return slices.DeleteFunc(out, func(in *state.Incident) bool { return in.Cluster != cluster })
}

// joinOthers merges incidents that one cause explains. It returns nil if the incident itself was
// merged into an older root.
func (x *step) joinOthers(in *state.Incident) *state.Incident {
	others := x.nearby(in.Cluster, in.Scope)
	keys := slices.Concat(x.benignKeys(in), scrapeKeys(in), sharedKeys(in))
	for _, p := range in.Pools {
		keys = append(keys, x.entityKeys(state.Entity{Cluster: in.Cluster, Namespace: p.Namespace, Pool: p.Pool}, "")...)
	}
	if len(keys) > 0 {
		others = x.open.AppendCandidates(others, keys)
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
		if root.Severity = other.Severity; root.Severity == state.Critical {
			root.SilencedUntil = time.Time{} // a rise in severity ends a silence
			x.forgetAck(root)
		}
	}
	if len(root.Channels) == 0 && len(other.Channels) > 0 && x.now.Before(root.NotifyBy) {
		root.NotifyBy = x.now // people were notified of other, whose messages end
		x.setTimer(root, x.now)
	}
	for _, s := range other.Symptoms {
		root.MergeSymptom(s)
	}
	if known := len(root.Pools); x.titlePools(root, true) > known {
		root.SilencedUntil = time.Time{} // the silence and the acknowledgement are not about this pool
		x.forgetAck(root)
	}
	// The acknowledgement of a warning does not hold for a critical incident.
	if root.AckedAt.IsZero() && !other.AckedAt.IsZero() && other.Severity == root.Severity {
		root.AckedAt, root.AckedBy = other.AckedAt, knownActor(ackedElsewhere(other.Acker()))
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
	x.open.Add(root, x.open.Keys(other.ID))
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
		x.evidence[in.ID] = curve.Archived(ev)
		x.touch(kindEvidence, string(in.ID))
	}
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
