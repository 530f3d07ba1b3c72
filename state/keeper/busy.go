package keeper

import (
	"sync"
	"time"

	"paramedic/state"
)

const (
	// tooFarBehind is the wait of accepted alerts from which triage needs the processors. The
	// product's bound is 5 s.
	tooFarBehind = 300 * time.Millisecond
	// manyAlerts is the number of alerts in a second from which accepting and triaging them needs
	// the processors: a tenth of what two of them do, one alert a payload (BenchmarkServe).
	manyAlerts = 800
)

// Busy reports whether the alerts need the processors, so that gatherings of evidence should yield:
// accepted alerts wait for triage, or this process triages many. It counts also those that other
// replicas accept.
func (k *Keeper) Busy() bool {
	return k.triaged.perSecond(k.cfg.Clock.Now()) >= manyAlerts || k.behind() > tooFarBehind
}

// behind returns the longest expected wait of an accepted input in any partition.
func (k *Keeper) behind() time.Duration {
	longest := time.Duration(0)
	for _, l := range k.Lag() {
		longest = max(longest, l.Behind())
	}
	return longest
}

// A rate counts alerts by the second. It is safe for concurrent use.
type rate struct {
	mu           sync.Mutex
	second       int64 // since 1970
	now, earlier int   // alerts in that second, and in the one before
}

// add counts the alerts of an input.
func (r *rate) add(in *state.Input, at time.Time) {
	if in.Alerts == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(at)
	r.now += len(in.Alerts.Alerts)
}

// perSecond returns the larger count of this second and the one before.
func (r *rate) perSecond(at time.Time) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.turn(at)
	return max(r.now, r.earlier)
}

// turn begins a new second. A clock that is set back by more than a second begins one, too; less is
// the order in which callers have read the clock.
func (r *rate) turn(at time.Time) {
	switch second := at.Unix(); second {
	case r.second, r.second - 1:
	case r.second + 1:
		r.second, r.now, r.earlier = second, 0, r.now
	default:
		r.second, r.now, r.earlier = second, 0, 0
	}
}
