package fold

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

const (
	// mostWoken bounds what one tick changes; what is still due brings another tick.
	mostWoken  = 50
	sweepEvery = 10 * time.Minute
	// mostErased bounds the timeline entries that one sweep deletes, and the workers and alerts.
	mostErased = 200
	// mostBeforeSweep bounds the changes of an input that may still be swept with.
	mostBeforeSweep = 40
)

// tick looks at what is due.
func (x *step) tick() {
	for n := 0; n < mostWoken && len(x.due) > 0 && !x.due[0].at.After(x.now); n++ {
		d := heap.Pop(&x.Board.due).(dueItem)
		if a := x.actions[d.action]; a != nil {
			x.expire(a)
		}
		if in := x.incidents[d.incident]; in != nil {
			x.woken(in)
		}
	}
}

// expire ends a run that waits for an approval. One that was approved in time may be held for
// longer; its runner ends it.
func (x *step) expire(a *state.Action) {
	if a.State == state.AwaitingApproval && !x.now.Before(a.ExpiresAt) {
		if in := x.home(a.Incident); in != nil {
			x.moveAction(in, a, state.Expired, "nobody approved it in time", state.Actor{ID: "paramedic", Via: "paramedic"})
		}
	}
}

func (x *step) woken(in *state.Incident) {
	if a := x.waiting(in); a != nil && in.HandedAt.IsZero() && in.MergedInto == "" { // it was loaded so: no step of a run told of it
		x.handOver(in, a)
		x.record(in, state.Entry{Kind: "action", Action: a.ID, Text: fmt.Sprintf("%s: needs human: %s", a.Change, a.Reason)})
		in.Rev++
	}
	if !in.HoldUntil.IsZero() && in.Status == state.StatusMonitoring && !x.now.Before(in.HoldUntil) {
		switch a := x.waiting(in); {
		case a != nil:
			in.HoldUntil = time.Time{} // no time ends it: a person's word does
			x.record(in, state.Entry{Kind: "note", Action: a.ID, Quiet: true, Text: fmt.Sprintf("no alert for %s; it stays open, since a person has to see to %s", x.Settings.ResolveHold, a.Change)})
		case x.busy(in):
			in.HoldUntil = x.now.Add(x.Settings.ResolveHold) // an action is being verified: the incident stays until it is
			x.wake(in, in.HoldUntil)
		default:
			x.record(in, state.Entry{Kind: "resolved", Text: fmt.Sprintf("resolved: no alert for %s", x.Settings.ResolveHold)})
			x.close(in, "alerts")
			return
		}
		x.changedIncident(in)
	}
	if !in.SilencedUntil.IsZero() && !x.now.Before(in.SilencedUntil) {
		in.SilencedUntil = time.Time{}
		x.changedIncident(in)
	}
	x.tell(in)
}

// busy says whether an action of the incident has written something and has not come to its end.
func (x *step) busy(in *state.Incident) bool {
	for _, id := range in.Actions {
		if s := x.actions[id].State; s.Running() && !s.BeforeEffect() {
			return true
		}
	}
	return false
}

// sweep forgets: alerts that nobody mentions, workers that no evidence mentions, and incidents past
// retention. Where it finds more than one commit takes it goes on with the next input.
func (x *step) sweep() {
	x.meta.SweptAt = x.now
	x.touch(kindMeta, "board")
	goOn := func() { x.meta.SweptAt = x.now.Add(-sweepEvery) }
	if x.Settings.StaleAfter > 0 {
		ended := x.endAlerts(fmt.Sprintf("not mentioned for %s, taken for gone", x.Settings.StaleAfter), func(rec *state.AlertRecord) bool {
			return x.now.Sub(rec.LastAt) > x.Settings.StaleAfter
		})
		if ended {
			goOn()
			return
		}
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(x.workers)) {
		if x.now.Sub(x.workers[key].At) > workerKept && n < mostErased {
			n++
			x.dropWorker(key)
			x.touch(kindWorker, key)
		}
	}
	for fp, rec := range x.Board.alerts {
		if rec.Incident == "" && !rec.Active && x.now.Sub(rec.LastAt) > 24*time.Hour && n < mostErased {
			n++
			delete(x.Board.alerts, fp)
			x.touch(kindAlert, string(fp))
		}
	}
	if n == mostErased {
		goOn()
		return
	}
	for _, in := range x.incidents {
		if in.Status == state.StatusResolved && x.now.Sub(in.ResolvedAt) > x.Settings.Retain && x.Settings.Retain > 0 && x.waiting(in) == nil {
			x.forget(in)
			return // one a sweep, so that a commit stays small
		}
	}
}

// forget erases an incident past retention, its timeline first where that is long.
func (x *step) forget(in *state.Incident) {
	for n := 0; in.Entries > 0 && n < mostErased; n++ {
		x.erased = append(x.erased, timelineKey(in.ID, in.Entries))
		in.Entries--
	}
	alerts := 0
	for fp := range x.held[in.ID] {
		if alerts++; alerts > mostErased {
			break
		}
		delete(x.held[in.ID], fp)
		delete(x.Board.alerts, fp)
		x.touch(kindAlert, string(fp))
	}
	x.changedIncident(in)
	if in.Entries > 0 || len(x.held[in.ID]) > 0 {
		x.meta.SweptAt = x.now.Add(-sweepEvery) // not done: go on with the next input
		return
	}
	delete(x.Board.evidence, in.ID)
	x.touch(kindEvidence, string(in.ID))
	delete(x.held, in.ID)
	delete(x.incidents, in.ID)
	x.forgetRuns(in)
	for _, id := range slices.Clone(x.wants[in.ID]) {
		x.drop(id)
	}
}

// forgetRuns erases the runs of an incident that is gone. After a merge two incidents list one run:
// it goes with the one that it was planned for, and no list keeps it.
func (x *step) forgetRuns(in *state.Incident) {
	for at := in; at != nil; at = x.incidents[at.MergedInto] {
		left := slices.DeleteFunc(slices.Clone(at.Actions), func(id state.ActionID) bool {
			a := x.actions[id]
			if a != nil && x.incidents[a.Incident] != nil {
				return false
			}
			delete(x.actions, id)
			x.touch(kindAction, string(id))
			return true
		})
		if at != in && len(left) < len(at.Actions) {
			at.Actions = left
			x.changedIncident(at)
		}
	}
}
