package fold

import (
	"container/heap"
	"time"

	"paramedic/state"
)

// A timer is a time at which an incident or an action must be looked at. Timers are not cancelled:
// dropIdleTimers removes those for which nothing waits any more.
type timer struct {
	at       time.Time
	cluster  string // the cluster of the tick: a tick is an input, and every input has a cluster
	incident state.IncidentID
	action   state.ActionID
}

type timerHeap []timer

func (h timerHeap) Len() int           { return len(h) }
func (h timerHeap) Less(i, j int) bool { return h[i].at.Before(h[j].at) }
func (h timerHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *timerHeap) Push(x any)        { *h = append(*h, x.(timer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

// setTimer sets a timer for the incident. A zero time sets none.
func (b *Board) setTimer(in *state.Incident, at time.Time) {
	if !at.IsZero() {
		heap.Push(&b.timers, timer{at: at, cluster: in.Cluster, incident: in.ID})
	}
}

func (b *Board) scheduleAction(a *state.Action) {
	in := b.incidents[a.Incident]
	if in != nil && !a.ExpiresAt.IsZero() && a.State == state.AwaitingApproval {
		heap.Push(&b.timers, timer{at: a.ExpiresAt, cluster: in.Cluster, action: a.ID})
	}
}

// waits reports whether the timer's incident or run still has something to do at its time. Later
// times of theirs have timers of their own.
func (b *Board) waits(t timer) bool {
	if a := b.actions[t.action]; a != nil {
		return a.State == state.AwaitingApproval
	}
	in := b.incidents[t.incident]
	if in == nil {
		return false
	}
	for _, at := range []time.Time{in.NotifyBy, in.HoldUntil, in.SilencedUntil} {
		if !at.IsZero() && !at.After(t.at) {
			return true
		}
	}
	return b.unannounced(in) != nil
}

// dropIdleTimers removes timers for which nothing waits, up to the next one for which something
// does. Each tick is an input and a commit.
func (b *Board) dropIdleTimers() {
	for len(b.timers) > 0 && !b.waits(b.timers[0]) {
		heap.Pop(&b.timers)
	}
}

// NextDue returns the time of the next timer and its cluster. The time is zero if no timer is set.
func (b *Board) NextDue() (at time.Time, cluster string) {
	if len(b.timers) == 0 {
		return time.Time{}, ""
	}
	return b.timers[0].at, b.timers[0].cluster
}
