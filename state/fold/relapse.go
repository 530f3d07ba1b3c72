package fold

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
	"paramedic/state/fold/index"
)

// relapseWindow is the time after its end during which a trouble that comes back is the same
// incident. Engines that leak crash, start again and leak on, and an alert whose value is near its
// threshold fires again and again.
const relapseWindow = 15 * time.Minute

// byAlerts says in ResolvedBy that no alert fired any more.
const byAlerts = "alerts"

// endKey returns the key of the list of ended incidents with a cause.
func endKey(cluster string, cause state.Cause) string { return cluster + "\x00" + string(cause) }

// byEnd orders resolved incidents by the time of their end, the newest last.
func byEnd(x, y *state.Incident) int {
	return cmp.Or(x.ResolvedAt.Compare(y.ResolvedAt), strings.Compare(string(x.ID), string(y.ID)))
}

// rememberEnd makes an incident that ended by itself findable by its cause, if it is one of the
// newest index.MaxCandidates. An end that a person decided stays.
func (b *Board) rememberEnd(in *state.Incident) {
	if in.Status != state.StatusResolved || in.ResolvedBy != byAlerts {
		return
	}
	key := endKey(in.Cluster, in.Cause())
	recent := b.ended[key]
	at, found := slices.BinarySearchFunc(recent, in, byEnd)
	if found {
		return
	}
	recent = slices.Insert(recent, at, in) // a loaded board remembers them in another order
	newest := recent[len(recent)-1].ResolvedAt
	recent = slices.DeleteFunc(recent, func(old *state.Incident) bool { return newest.Sub(old.ResolvedAt) > relapseWindow })
	b.ended[key] = recent[max(0, len(recent)-index.MaxCandidates):]
}

func (b *Board) forgetEnd(in *state.Incident) {
	key := endKey(in.Cluster, in.Cause())
	left := slices.DeleteFunc(b.ended[key], func(old *state.Incident) bool { return old.ID == in.ID })
	if b.ended[key] = left; len(left) == 0 {
		delete(b.ended, key)
	}
}

// relapsed returns the last incident that ended a short time ago and whose trouble is back in this
// one, or nil.
func (x *step) relapsed(in *state.Incident) *state.Incident {
	if x.acted(in) {
		return nil
	}
	var last *state.Incident
	for key, ended := range x.ended {
		if !strings.HasPrefix(key, endKey(in.Cluster, "")) {
			continue
		}
		for _, old := range slices.Backward(ended) {
			if x.now.Sub(old.ResolvedAt) > relapseWindow || last != nil && byEnd(old, last) < 0 {
				break
			}
			if sameTrouble(old, in) && !x.acted(old) {
				last = old
				break
			}
		}
	}
	return last
}

// sameTrouble reports whether the verdicts of two incidents are about one trouble: one cause, or a
// cause and what it leads to, on a common pod or node, or on the whole pool. Without a cause, the
// second must have no symptom on no entity that the first did not have.
func sameTrouble(old, in *state.Incident) bool {
	a, b := old.Diagnosis, in.Diagnosis
	if a.Cause == state.Unknown && b.Cause == state.Unknown {
		return repeats(old, in)
	}
	if a.Cause != b.Cause && !slices.Contains(a.LeadsTo, b.Cause) && !slices.Contains(b.LeadsTo, a.Cause) {
		return false
	}
	if intersect(a.Scope.Nodes, b.Scope.Nodes) || a.Cause.IsShared() && old.ShowsIn(in.Scope.Namespace, in.Scope.Pool) {
		return true
	}
	differ := func(x, y string) bool { return x != "" && y != "" && x != y }
	if differ(old.Scope.Namespace, in.Scope.Namespace) || differ(old.Scope.Pool, in.Scope.Pool) ||
		differ(old.Scope.Model, in.Scope.Model) || old.Scope.Pool+old.Scope.Model == "" {
		return false
	}
	whole := func(s state.Scope) bool { return len(s.Pods)+len(s.Nodes) == 0 }
	return whole(a.Scope) && whole(b.Scope) || intersect(a.Scope.Pods, b.Scope.Pods)
}

// repeats reports whether an incident has only symptoms that an older one had, on entities where it
// had them.
func repeats(old, in *state.Incident) bool {
	return !slices.ContainsFunc(in.Symptoms, func(s state.SymptomCount) bool {
		at := slices.IndexFunc(old.Symptoms, func(o state.SymptomCount) bool { return o.Symptom == s.Symptom })
		return at < 0 || len(s.Entities) == 0 || slices.ContainsFunc(s.Entities, func(e state.Entity) bool {
			return !slices.Contains(old.Symptoms[at].Entities, e)
		})
	})
}

// acted reports whether a run of the incident has changed something. What comes after a change is
// judged by itself.
func (x *step) acted(in *state.Incident) bool {
	return slices.ContainsFunc(in.Actions, func(id state.ActionID) bool { return x.actions[id].Reached(state.Intent) })
}

// holdOf returns how long an incident without active alerts is held open. Each relapse after the
// first doubles it, up to relapseWindow, so that an alert that flaps for hours pages a few times.
func (x *step) holdOf(in *state.Incident) time.Duration {
	hold := x.Settings.ResolveHold
	for range in.Relapses - 1 {
		if hold >= relapseWindow {
			break
		}
		hold = min(2*hold, relapseWindow)
	}
	return hold
}

// comeBack reopens an incident that has ended, and merges the new incident of the same trouble into
// it. It pages again as a new incident would.
func (x *step) comeBack(old, in *state.Incident) {
	after := state.FormatDuration(x.now.Sub(old.ResolvedAt).Round(time.Minute))
	x.reopen(old, nil)
	x.endPage(old)
	if old.Cause() == in.Cause() || slices.Contains(in.Diagnosis.LeadsTo, old.Cause()) {
		old.Diagnosis, old.NamedAt, old.Title, old.RuledOut = in.Diagnosis, in.NamedAt, in.Title, in.RuledOut
	}
	old.Over = nil
	old.Relapses++
	silenced := in.SilencedUntil // by a person who has seen this severity; the merge clears it
	x.merge(old, in)
	if silenced.After(old.SilencedUntil) {
		old.SilencedUntil = silenced
		x.setTimer(old, silenced)
	}
	if old.Status == state.StatusMonitoring { // its alert has ended again before the verdict
		old.HoldUntil = x.now.Add(x.holdOf(old))
		x.setTimer(old, old.HoldUntil)
	}
	x.record(old, state.Entry{Kind: "reopened", Text: fmt.Sprintf("reopened: the trouble is back, %s after its end", after)})
	x.planNow(old)
	x.publish(old)
}
