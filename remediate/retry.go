package remediate

import (
	"fmt"
	"time"

	"paramedic/state"
)

// retry waits and looks again. The next look finds out whether the write happened.
func (r *stage) retry(err error) advance {
	since := r.stamp("trouble")
	r.note("trouble_text", err.Error())
	if r.now.Sub(since) > r.cfg.Timing.Stale {
		return r.person(fmt.Sprintf("Paramedic could not reach the cluster for %s: %v",
			state.FormatDuration(r.now.Sub(since).Truncate(1e9)), err))
	}
	return r.backOff(since)
}

// backOff waits longer with each attempt since the first, up to a minute.
func (r *stage) backOff(since time.Time) advance {
	return r.stay(max(r.cfg.Timing.Poll, min(time.Minute, r.now.Sub(since)/2)))
}

// contend tries a write again that did not take effect, although the object allows it. It gives up
// after Timing.Stale. The key names the write.
func (r *stage) contend(key string, err error, giveUp func(why string) advance) advance {
	since := r.stamp(key)
	r.note("trouble_text", err.Error())
	if took := r.now.Sub(since); took > r.cfg.Timing.Stale {
		return giveUp(fmt.Sprintf("no attempt succeeded for %s: %v", state.FormatDuration(took.Truncate(1e9)), err))
	}
	return r.backOff(since)
}
