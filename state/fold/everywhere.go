package fold

import (
	"fmt"
	"slices"
	"time"

	"paramedic/state"
	"paramedic/state/fold/index"
)

const (
	// maxSameRule bounds how many open incidents of its own an unknown rule may have. The next
	// alert merges them into one.
	maxSameRule = 8
	// sameRuleWindow is the age up to which such incidents count. A rule that fires now and then in
	// different places keeps its separate incidents.
	sameRuleWindow = time.Hour
	// maxRuleMerges bounds the merges of one input. A commit of more than 999 records
	// (jetstream.MaxRecords) is written twice, and a merge is about eight records. The next alert
	// of the rule merges the rest.
	maxRuleMerges = 2 * maxSameRule
	// groupHint marks alerts that belong together although they are in different places. The rules
	// read it.
	groupHint = "group"
)

func everywhereKey(cluster, rule string) string { return cluster + "\x00" + rule }

// indexEverywhere makes the incident findable by the rule whose alerts it counts. A reopened
// incident can make two of them: the one that opened last is used.
func (b *Board) indexEverywhere(in *state.Incident) {
	if in.Everywhere == "" {
		return
	}
	key := everywhereKey(in.Cluster, in.Everywhere)
	if other := b.everywhere[key]; other == nil || index.ByOpening(other, in) < 0 {
		b.everywhere[key] = in
	}
}

// countsEverywhere reports whether the incident counts the alert wherever it fires.
func countsEverywhere(in *state.Incident, rec *state.AlertRecord) bool {
	return in.Everywhere != "" && rec.Sign.Symptom == state.Unclassified && rec.Alert.Name() == in.Everywhere
}

// clearPlace removes the place from an alert's sign. An alert that fires everywhere says nothing
// about one place. With the places of some alerts the incident would attract unrelated alerts from
// there.
func clearPlace(rec *state.AlertRecord) {
	rec.Sign.Entity = state.Entity{Cluster: rec.Sign.Entity.Cluster}
	rec.Sign.Hints = map[string]string{groupHint: state.Hash("everywhere", rec.Alert.Name())}
}

// everywhereIncident returns the incident that counts the alerts of an unknown rule that fires
// everywhere, or nil. It opens that incident if maxSameRule others have alerts of the rule only,
// and merges them into it.
func (x *step) everywhereIncident(rec *state.AlertRecord) *state.Incident {
	rule := rec.Alert.Name()
	if rec.Sign.Symptom != state.Unclassified || rule == "" {
		return nil
	}
	if in := x.everywhere[everywhereKey(x.in.Cluster, rule)]; in != nil {
		clearPlace(rec)
		x.mergeSameRule(in, x.sameRuleIncidents(rule))
		return in
	}
	alone := x.sameRuleIncidents(rule)
	if len(alone) < maxSameRule || x.ruleMerges+maxSameRule > maxRuleMerges {
		return nil
	}
	clearPlace(rec)
	in := x.openIncident(rec)
	in.Everywhere = rule
	x.indexEverywhere(in)
	x.open.Add(in, x.signKeys(rec))
	x.record(in, state.Entry{Kind: "note", Quiet: true, Text: fmt.Sprintf(
		"Paramedic does not know alert %s, which opened %d incidents within %s: this one takes its next alerts", rule,
		len(alone), state.FormatDuration(sameRuleWindow))})
	x.mergeSameRule(in, alone)
	return in
}

// mergeSameRule merges incidents into the one that counts their rule's alerts, as many as the input
// may still merge.
func (x *step) mergeSameRule(in *state.Incident, alone []*state.Incident) {
	for _, other := range alone[:min(len(alone), maxRuleMerges-x.ruleMerges)] {
		x.ruleMerges++
		x.merge(in, other)
		for i := range in.Symptoms {
			in.Symptoms[i].Entities = []state.Entity{{Cluster: in.Scope.Cluster}}
		}
	}
}

// sameRuleIncidents returns the newest open incidents that have only alerts of this rule, no
// verdict, no acknowledgement, no silence and no actions.
func (x *step) sameRuleIncidents(rule string) []*state.Incident {
	var out []*state.Incident
	for in := range x.open.Newest(index.OtherKey(ruleKey, rule)) {
		if in.Everywhere != "" || in.Cluster != x.in.Cluster || x.now.Sub(in.OpenedAt) > sameRuleWindow {
			continue
		}
		touched := in.Cause() != state.Unknown || !in.AckedAt.IsZero() || !in.SilencedUntil.IsZero() || len(in.Actions) > 0
		if !touched && len(in.Symptoms) == 1 && in.Symptoms[0].Symptom == state.Unclassified &&
			slices.Equal(in.Symptoms[0].Rules, []string{rule}) {
			out = append(out, in)
		}
	}
	return out
}
