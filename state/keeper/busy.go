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
	// manyAlerts is the number of alerts in a second from which their senders need them: a tenth
	// of what two processors accept in payloads of one alert (BenchmarkServe).
	manyAlerts = 800
)

// Busy reports whether the alerts need the processors, so that other work in memory should yield:
// accepted alerts wait for triage, or many arrive at this process.
func (k *Keeper) Busy() bool {
	return k.arrivals.atMost(k.cfg.Clock.Now()) >= manyAlerts || k.behind() > tooFarBehind
}

// behind returns the longest expected wait of an accepted input in any partition.
func (k *Keeper) behind() time.Duration {
	longest := time.Duration(0)
	for _, l := range k.Lag() {
		longest = max(longest, l.Behind())
	}
	return longest
}

// arrivals counts the alerts that arrive in a second.
type arrivals struct {
	mu           sync.Mutex
	second       int64 // since 1970
	now, earlier int   // alerts in that second, and in the one before
}

func (a *arrivals) add(inputs []state.Input, at time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(at)
	for i := range inputs {
		if inputs[i].Alerts != nil {
			a.now += len(inputs[i].Alerts.Alerts)
		}
	}
}

// atMost returns the larger count of this second and the one before.
func (a *arrivals) atMost(at time.Time) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.turn(at)
	return max(a.now, a.earlier)
}

// turn begins a new second. A clock that is set back begins one, too.
func (a *arrivals) turn(at time.Time) {
	switch second := at.Unix(); second {
	case a.second:
	case a.second + 1:
		a.second, a.now, a.earlier = second, 0, a.now
	default:
		a.second, a.now, a.earlier = second, 0, 0
	}
}
