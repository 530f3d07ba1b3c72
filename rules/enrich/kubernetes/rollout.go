package kubernetes

import (
	"strconv"
	"time"

	appsv1 "k8s.io/api/apps/v1"
)

// revisionKey is the annotation with which a Deployment numbers its ReplicaSets. A rollback gives
// an old ReplicaSet a new number, but keeps its age.
const revisionKey = "deployment.kubernetes.io/revision"

// rolledOut returns the start of the last rollout of a Deployment. This is the creation of its
// newest ReplicaSet, or, after a rollback, of the first new pod of the older one. It returns the
// zero time if there is no ReplicaSet.
func (b *builder) rolledOut(deployment object) time.Time {
	var newest, current *appsv1.ReplicaSet
	for i := range b.snap.replicaSets {
		rs := &b.snap.replicaSets[i]
		if b.owners[object{rs.Namespace, "ReplicaSet", rs.Name}] != deployment {
			continue
		}
		if newest == nil || rs.CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = rs
		}
		if current == nil || revisionOf(rs) > revisionOf(current) {
			current = rs
		}
	}
	if newest == nil {
		return time.Time{}
	}
	began := newest.CreationTimestamp.Time
	if revisionOf(current) <= revisionOf(newest) {
		return began
	}
	var again time.Time
	for i := range b.snap.pods {
		p := &b.snap.pods[i]
		o, ok := controllerOf(p)
		if !ok || o != (object{current.Namespace, "ReplicaSet", current.Name}) {
			continue
		}
		made := p.CreationTimestamp.Time
		if made.IsZero() && p.Status.StartTime != nil {
			made = p.Status.StartTime.Time
		}
		if made.After(began) && (again.IsZero() || made.Before(again)) {
			again = made
		}
	}
	if again.IsZero() { // no pod has been replaced yet
		return began
	}
	return again
}

// revisionOf returns the number that the Deployment gave a ReplicaSet, or 0 if there is none.
func revisionOf(rs *appsv1.ReplicaSet) int {
	n, _ := strconv.Atoi(rs.Annotations[revisionKey])
	return n
}
