package fold

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// relapseWindow is the time after its end during which a trouble that comes back is the same
// incident. Engines that leak crash, start again and leak on, and an alert whose value is near its
// threshold fires again and again.
const relapseWindow = 15 * time.Minute

// byAlerts says in ResolvedBy that no alert fired any more.
const byAlerts = "alerts"

// placeKey returns the key under which an incident that has ended is found.
func placeKey(in *state.Incident) string {
	s := in.Scope
	return strings.Join([]string{in.Cluster, s.Namespace, s.Pool, s.Model}, "\x00")
}

// rememberEnd makes an incident that ended by itself findable by its place. An end that a person
// decided stays.
func (b *Board) rememberEnd(in *state.Incident) {
	if in.Status != state.StatusResolved || in.ResolvedBy != byAlerts {
		return
	}
	key := placeKey(in)
	recent := slices.DeleteFunc(b.ended[key],
		func(old *state.Incident) bool {
			return in.ResolvedAt.Sub(old.ResolvedAt) > relapseWindow || old.ID == in.ID
		})
	recent = append(recent, in)
	b.ended[key] = recent[max(0, len(recent)-maxCandidates):]
}

func (b *Board) forgetEnd(in *state.Incident) {
	key := placeKey(in)
	left := slices.DeleteFunc(b.ended[key], func(old *state.Incident) bool { return old.ID == in.ID })
	if b.ended[key] = left; len(left) == 0 {
		delete(b.ended, key)
	}
}

// relapsed returns the incident that ended a short time ago and whose trouble is back in this one,
// or nil.
func (x *step) relapsed(in *state.Incident) *state.Incident {
	if in.Cause() == state.Unknown || x.acted(in) {
		return nil
	}
	for _, old := range slices.Backward(x.ended[placeKey(in)]) {
		if x.now.Sub(old.ResolvedAt) <= relapseWindow && sameTrouble(old.Diagnosis, in.Diagnosis) && !x.acted(old) {
			return old
		}
	}
	return nil
}

// sameTrouble reports whether two verdicts are about one trouble: one cause, or a cause and what it
// leads to, on a common pod or node, or on the whole pool.
func sameTrouble(a, b state.Diagnosis) bool {
	if a.Cause != b.Cause && !slices.Contains(a.LeadsTo, b.Cause) && !slices.Contains(b.LeadsTo, a.Cause) {
		return false
	}
	whole := func(s state.Scope) bool { return len(s.Pods)+len(s.Nodes) == 0 }
	return whole(a.Scope) && whole(b.Scope) || intersect(a.Scope.Pods, b.Scope.Pods) || intersect(a.Scope.Nodes, b.Scope.Nodes)
}

// acted reports whether a run of the incident has changed something. What comes after a change is
// judged by itself.
func (x *step) acted(in *state.Incident) bool {
	return slices.ContainsFunc(in.Actions, func(id state.ActionID) bool { return x.actions[id].Reached(state.Intent) })
}

// comeBack reopens an incident that has ended, and merges the new incident of the same trouble into
// it. It pages again as a new incident would.
func (x *step) comeBack(old, in *state.Incident) {
	after := state.FormatDuration(x.now.Sub(old.ResolvedAt).Round(time.Minute))
	x.reopen(old, nil)
	x.setPageStatus(old, "")
	if old.Cause() == in.Cause() || slices.Contains(in.Diagnosis.LeadsTo, old.Cause()) {
		old.Diagnosis, old.NamedAt, old.Title, old.RuledOut = in.Diagnosis, in.NamedAt, in.Title, in.RuledOut
	}
	old.Over = nil
	old.Relapses++
	x.merge(old, in)
	x.record(old, state.Entry{Kind: "reopened", Text: fmt.Sprintf("reopened: the trouble is back, %s after its end", after)})
	x.planNow(old)
	x.publish(old)
}
