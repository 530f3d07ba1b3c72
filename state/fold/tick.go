package fold

import (
	"container/heap"
	"fmt"
	"maps"
	"slices"
	"time"

	"paramedic/state"
	"paramedic/state/fold/packed"
)

const (
	// maxWoken bounds the timers that one tick handles. Another tick handles the rest.
	maxWoken   = 50
	sweepEvery = 10 * time.Minute
	// silentFor is a pause between two sweeps after which the bot was down or had nothing to do.
	silentFor = time.Hour
	// maxErased bounds the timeline entries, workers and alerts that one sweep deletes. After as
	// many records it erases no further incident, so that its commit stays one message.
	maxErased = 200
	// maxForgotten bounds the incidents that one sweep erases, of at least three records each.
	maxForgotten = 64
	// maxBeforeSweep bounds the changes of an input that a sweep may follow.
	maxBeforeSweep = 40
)

// tick handles the timers that have expired.
func (x *step) tick() {
	for range maxWoken {
		if x.dropIdleTimers(); len(x.timers) == 0 || x.timers[0].at.After(x.now) {
			return
		}
		d := heap.Pop(&x.Board.timers).(timer)
		if a := x.actions[d.action]; a != nil {
			x.expireApproval(a)
		}
		if in := x.incidents[d.incident]; in != nil {
			x.expireTimers(in)
		}
	}
}

// expireApproval ends a run that waits for an approval. A run that was approved in time may be held
// for longer. Its runner ends it.
func (x *step) expireApproval(a *state.Action) {
	if a.State == state.AwaitingApproval && !x.now.Before(a.ExpiresAt) {
		if in := x.root(a.Incident); in != nil {
			x.moveAction(in, a, state.Expired, "no person approved it in time",
				state.Actor{ID: "paramedic", Via: "paramedic"})
		}
	}
}

func (x *step) expireTimers(in *state.Incident) {
	if a := x.unannounced(in); a != nil {
		x.requestPerson(in, a)
		x.record(in, state.Entry{Kind: "action", Action: a.ID,
			Text: fmt.Sprintf("%s: %s: %s", a.Change, state.NeedsHuman.Words(), a.Reason)})
		in.Rev++
	}
	if !in.HoldUntil.IsZero() && in.Status == state.StatusMonitoring && !x.now.Before(in.HoldUntil) {
		switch a := x.runNeedingPerson(in); {
		case a != nil:
			in.HoldUntil = time.Time{} // only a person ends it
			x.record(in, state.Entry{Kind: "note", Action: a.ID, Quiet: true,
				Text: fmt.Sprintf("no alert for %s: it stays open, because %s needs a person",
					state.FormatDuration(x.holdOf(in)), a.Change)})
		case x.hasOpenWrite(in):
			in.HoldUntil = x.now.Add(x.Settings.ResolveHold) // a run is being verified: the incident stays open
			x.setTimer(in, in.HoldUntil)
		default:
			x.record(in, state.Entry{Kind: "resolved",
				Text: fmt.Sprintf("resolved: no alert for %s", state.FormatDuration(x.holdOf(in)))})
			x.resolveIncident(in, byAlerts)
			return
		}
		x.changedIncident(in)
	}
	if !in.SilencedUntil.IsZero() && !x.now.Before(in.SilencedUntil) {
		in.SilencedUntil = time.Time{}
		x.changedIncident(in)
	}
	x.notifyChannels(in)
}

// hasOpenWrite reports whether a run of the incident has written something and has not ended.
func (x *step) hasOpenWrite(in *state.Incident) bool {
	for _, id := range in.Actions {
		if s := x.actions[id].State; s.Running() && !s.BeforeEffect() {
			return true
		}
	}
	return false
}

// sweep deletes old records: alerts and workers that are not reported any more, and incidents past
// retention. If there are more than one commit takes, the next input continues.
func (x *step) sweep() {
	if quiet := x.now.Sub(x.meta.SweptAt); !x.meta.SweptAt.IsZero() && quiet > silentFor {
		x.meta.HeardFrom = x.now // nothing was heard for hours, so that no alert had to be reported
	}
	x.meta.SweptAt = x.now
	x.touch(kindMeta, "board")
	goOn := func() { x.meta.SweptAt = x.now.Add(-sweepEvery) }
	if stale := x.staleAlerts(); len(stale) > 0 {
		x.endAlerts(fmt.Sprintf("Alertmanager has not reported it for %s, so it counts as resolved",
			state.FormatDuration(x.Settings.StaleAfter)), stale)
		goOn()
		return
	}
	n := 0
	for _, key := range slices.Sorted(maps.Keys(x.workers)) {
		if x.now.Sub(x.workers[key].At) > workerKept && n < maxErased {
			n++
			x.dropWorker(key)
			x.touch(kindWorker, key)
		}
	}
	var old []state.Fingerprint
	for rec := range x.alerts.All() {
		if rec.Incident() == "" && !rec.Active() && x.now.Sub(rec.LastAt()) > 24*time.Hour {
			old = append(old, rec.Fingerprint())
		}
	}
	slices.Sort(old) // all copies of the state erase the same ones
	for _, fp := range old[:min(len(old), maxErased-n)] {
		n++
		x.alerts.Remove(x.alerts.Get(fp))
		x.touch(kindAlert, string(fp))
	}
	if n == maxErased {
		goOn()
		return
	}
	for _, in := range x.pastRetention() {
		goOn()
		if n += x.forget(in); n >= maxErased {
			return
		}
	}
}

// staleAlerts returns the active alerts that Alertmanager has not reported for StaleAfter.
func (x *step) staleAlerts() []state.Fingerprint {
	if x.Settings.StaleAfter <= 0 || x.now.Sub(x.meta.HeardFrom) <= x.Settings.StaleAfter {
		return nil
	}
	var stale []state.Fingerprint
	for rec := range x.alerts.All() {
		if rec.Active() && x.now.Sub(rec.LastAt()) > x.Settings.StaleAfter {
			stale = append(stale, rec.Fingerprint())
		}
	}
	return stale
}

// pastRetention returns the incidents past retention that ended first, at most maxForgotten.
func (x *step) pastRetention() []*state.Incident {
	var first []*state.Incident
	for _, in := range x.incidents {
		if in.Status != state.StatusResolved || x.Settings.Retain <= 0 || x.now.Sub(in.ResolvedAt) <= x.Settings.Retain {
			continue
		}
		at, _ := slices.BinarySearchFunc(first, in, byEnd)
		if at == maxForgotten || x.runNeedingPerson(in) != nil || x.isUsed(in) {
			continue
		}
		first = slices.Insert(first[:min(len(first), maxForgotten-1)], at, in)
	}
	return first
}

// isUsed reports whether an open incident counts the firing alerts of one that was merged into it,
// or whether one that was merged into this one is still stored.
func (x *step) isUsed(in *state.Incident) bool {
	if root := x.root(in.ID); root != nil && root != in && root.Open() {
		for a := range x.alerts.Of(in.ID) {
			if a.Active() {
				return true
			}
		}
	}
	return slices.ContainsFunc(in.Absorbed, func(id state.IncidentID) bool { return x.incidents[id] != nil })
}

// forget erases an incident past retention, and returns the number of erased records. A long
// timeline is erased first, over several inputs.
func (x *step) forget(in *state.Incident) (records int) {
	for n := 0; in.Entries > 0 && n < maxErased; n++ {
		x.erased = append(x.erased, timelineKey(in.ID, in.Entries))
		in.Entries--
		records++
	}
	held := slices.SortedFunc(x.alerts.Of(in.ID), packed.ByFingerprint)
	for _, a := range held[:min(len(held), maxErased)] {
		x.alerts.Remove(a)
		x.touch(kindAlert, string(a.Fingerprint()))
		records++
	}
	x.changedIncident(in)
	if in.Entries > 0 || x.alerts.Count(in.ID) > 0 {
		return records // not done: the next input continues
	}
	delete(x.Board.evidence, in.ID)
	x.touch(kindEvidence, string(in.ID))
	x.forgetEnd(in)
	delete(x.incidents, in.ID)
	x.forgetRuns(in)
	effects := slices.Clone(x.effectsByIncident[in.ID])
	for _, id := range effects {
		x.dropEffect(id)
	}
	return records + len(in.Actions) + len(effects) + 2 // itself and its evidence
}

// forgetRuns erases the runs of an erased incident. After a merge two incidents list one run. It is
// erased with the incident that it was planned for, and removed from both lists.
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
