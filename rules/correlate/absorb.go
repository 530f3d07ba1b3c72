package correlate

import (
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/state"
)

// Absorbs reports whether the other incident is part of the root, a consequence of its cause. Their
// scopes must overlap. The other must have the same verdict, or its symptoms must be explained
// while its own verdict is missing or a known consequence. Two incidents with unknown causes are
// one if they are about one pool and began together.
func Absorbs(c *catalog.Catalog, root, other *state.Incident) bool {
	if root.ID == other.ID || root.Cluster != other.Cluster || !root.Open() || !other.Open() {
		return false
	}
	cause, ok := c.CauseTable()[root.Cause()]
	if !ok {
		return bothUnknown(root, other)
	}
	if besideGap(root, other) {
		return true
	}
	if ofSharedPart(root, other) {
		return older(root, other)
	}
	if !overlaps(c, root, other) || elsewhere(c, root, other) || localElsewhere(c, root, other) {
		return false
	}
	same := other.Cause() == root.Cause() // the evidence named the cause despite alerts that it does not explain
	led := consequenceOf(cause, root, other)
	for _, s := range other.Symptoms {
		// The consequence's own verdict explains the symptoms that it causes.
		if !same && s.Symptom != state.Unclassified && !slices.Contains(root.Diagnosis.Explains, s.Symptom) &&
			!(led && slices.Contains(other.Diagnosis.Explains, s.Symptom)) {
			return false
		}
	}
	if same { // regardless of the alerts, since the evidence named the same cause
		return older(root, other)
	}
	if unplaced(other) {
		return false
	}
	return other.Cause() == state.Unknown || other.Cause() == state.BenignAlert && cause.ID != state.BenignAlert || led
}

// gapWindow is the time between the first alerts about two scrapes that fail for one reason: rules
// wait for one to ten minutes.
const gapWindow = 15 * time.Minute

// besideGap reports whether the other incident is only about scrapes that fail beside those of the
// root's workers, such as a router's. The evidence covers workers, so they have no verdict of their
// own.
func besideGap(root, other *state.Incident) bool {
	return root.Cause() == state.MonitoringGap && other.Cause() == state.Unknown && len(other.Symptoms) > 0 &&
		root.Scope.Namespace != "" && root.Scope.Namespace == other.Scope.Namespace &&
		other.StartedAt.Sub(root.StartedAt).Abs() <= gapWindow &&
		!slices.ContainsFunc(other.Symptoms, func(s state.SymptomCount) bool { return s.Symptom != "target_down" })
}

// ofSharedPart reports whether two pools have the same trouble since about the same time, and its
// cause is in a part that they share: one gateway leads to several pools, and one scraper reads
// them.
func ofSharedPart(root, other *state.Incident) bool {
	return root.Cause() == other.Cause() && root.Cause().IsShared() && other.StartedAt.Sub(root.StartedAt).Abs() <= gapWindow
}

// consequenceOf reports whether the cause is known to lead to the other incident's cause, and the
// times allow it. A problem that began over an hour before the root is not its consequence. The
// root's own alerts may be the later ones.
func consequenceOf(c *catalog.Cause, root, other *state.Incident) bool {
	return c.BringsAbout(other.Cause(), root.Symptoms) && root.StartedAt.Sub(other.StartedAt) <= joinWindow
}

// elsewhere reports whether the verdicts name two different causes of single workers, found on
// different workers.
func elsewhere(c *catalog.Catalog, root, other *state.Incident) bool {
	a, b := c.CauseTable()[root.Cause()], c.CauseTable()[other.Cause()]
	if a == nil || b == nil || a == b || !a.Local() || !b.Local() {
		return false
	}
	return catalog.Disjoint(root.Diagnosis.Scope.Pods, other.Diagnosis.Scope.Pods)
}

// localElsewhere reports whether the other incident has no verdict yet and is about symptoms of
// single workers. Those workers must differ from the ones that the root's verdict found broken, and
// the symptoms must be new to the root's incident.
func localElsewhere(c *catalog.Catalog, root, other *state.Incident) bool {
	cause := c.CauseTable()[root.Cause()]
	if cause == nil || !cause.Local() || other.Cause() != state.Unknown || len(other.Symptoms) == 0 {
		return false
	}
	for _, s := range other.Symptoms {
		seen := slices.ContainsFunc(root.Symptoms, func(o state.SymptomCount) bool { return o.Symptom == s.Symptom })
		if !c.OwnSymptom(s.Symptom, s.Hints) || s.Hints["group"] != "" || seen && cause.Scope == "pod" ||
			len(s.Entities) == 0 {
			return false
		}
	}
	return catalog.Disjoint(root.Diagnosis.Scope.Pods, other.Scope.Pods) &&
		!slices.ContainsFunc(other.Scope.Nodes,
			func(n string) bool { return slices.Contains(root.Diagnosis.Scope.Nodes, n) })
}
