package fold

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

const (
	// mostAlone is how many open incidents a rule that is not known may have opened for itself.
	// With the next one they become one.
	mostAlone = 8
	// atOnce is how far back such incidents count: a rule that fires now and then in other places
	// stays with those.
	atOnce = time.Hour
	// mostGathered bounds how many incidents one input merges so: more than 999 records
	// (jetstream.MaxRecords) are written twice, and a merge is about eight. The next alert of the
	// rule merges the rest.
	mostGathered = 2 * mostAlone
	// groupHint marks the alerts that belong together because they are of one group, wherever they
	// are. The rules read it.
	groupHint = "group"
)

func everywhereKey(cluster, rule string) string { return cluster + "\x00" + rule }

// indexEverywhere makes the incident findable by the rule whose alerts it takes. Where one was
// reopened there may be two: the one that opened last stays the rule's.
func (b *Board) indexEverywhere(in *state.Incident) {
	if in.Everywhere == "" {
		return
	}
	key := everywhereKey(in.Cluster, in.Everywhere)
	if other := b.everywhere[key]; other == nil || byOpening(other, in) < 0 {
		b.everywhere[key] = in
	}
}

// countsEverywhere reports whether the incident counts the alert wherever it fires.
func countsEverywhere(in *state.Incident, rec *state.AlertRecord) bool {
	return in.Everywhere != "" && rec.Sign.Symptom == state.Unclassified && rec.Alert.Name() == in.Everywhere
}

// spread takes the place out of an alert's sign. What fires everywhere says nothing of any one
// place, and an incident with the places of some of its alerts would draw the troubles of those to
// itself.
func spread(rec *state.AlertRecord) {
	rec.Sign.Entity = state.Entity{Cluster: rec.Sign.Entity.Cluster}
	rec.Sign.Hints = map[string]string{groupHint: state.Hash("everywhere", rec.Alert.Name())}
}

// gatherRule returns the incident that counts the alerts of a rule that is not known and fires
// everywhere, or nil. The rule gets that incident when mostAlone others that it opened hold nothing
// else; they are merged into it.
func (x *step) gatherRule(rec *state.AlertRecord) *state.Incident {
	rule := rec.Alert.Name()
	if rec.Sign.Symptom != state.Unclassified || rule == "" {
		return nil
	}
	if in := x.everywhere[everywhereKey(x.in.Cluster, rule)]; in != nil {
		spread(rec)
		x.gather(in, x.alone(rule))
		return in
	}
	alone := x.alone(rule)
	if len(alone) < mostAlone || x.gathered+mostAlone > mostGathered {
		return nil
	}
	spread(rec)
	in := x.openIncident(rec)
	in.Everywhere = rule
	x.indexEverywhere(in)
	x.index(in, x.signKeys(rec))
	x.record(in, state.Entry{Kind: "note", Quiet: true, Text: fmt.Sprintf(
		"no rule here knows %s, and it opened %d incidents within %s: this one counts its alerts from now on", rule, len(alone), atOnce)})
	x.gather(in, alone)
	return in
}

// gather merges incidents into the one that counts the alerts of their rule, as many as the input
// may still merge.
func (x *step) gather(in *state.Incident, alone []*state.Incident) {
	for _, other := range alone[:min(len(alone), mostGathered-x.gathered)] {
		x.gathered++
		x.merge(in, other)
		for i := range in.Symptoms {
			in.Symptoms[i].Entities = []state.Entity{{Cluster: in.Scope.Cluster}}
		}
	}
}

// alone returns the newest open incidents that hold alerts of this rule and nothing else, and that
// no person or verdict has touched.
func (x *step) alone(rule string) []*state.Incident {
	var out []*state.Incident
	for in := range x.near[ruleKey+":"+strings.ToLower(rule)].newest {
		if in.Everywhere != "" || in.Cluster != x.in.Cluster || x.now.Sub(in.OpenedAt) > atOnce {
			continue
		}
		touched := in.Cause() != state.Unknown || !in.AckedAt.IsZero() || len(in.Actions) > 0
		if !touched && len(in.Symptoms) == 1 && in.Symptoms[0].Symptom == state.Unclassified && slices.Equal(in.Symptoms[0].Rules, []string{rule}) {
			out = append(out, in)
		}
	}
	return out
}
