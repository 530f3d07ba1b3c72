package diagnose

import (
	"paramedic/rules/catalog"
	"paramedic/state"
)

// ofQueue holds the symptoms of one queue. A request that waits is counted in the queue, its wait
// is counted in the time in queue, and its first token is late.
var ofQueue = map[state.Symptom]bool{"queue_buildup": true, "queue_time_high": true, "ttft_high": true}

// A queueSigns holds which signs of an incident are about one queue, and which of them counts.
type queueSigns struct {
	same    map[int]bool
	loudest int
}

// loudestOfQueue returns the signs of one queue and selects the sign that says most about the
// cause. A late first token alone is no queue: prefill may be slow.
func loudestOfQueue(c *catalog.Cause, signs []sign) queueSigns {
	out, waits := queueSigns{loudest: -1}, false
	var most float64
	for i, s := range signs {
		if !ofQueue[s.Symptom] {
			continue
		}
		if out.same == nil {
			out.same = map[int]bool{}
		}
		out.same[i] = true
		waits = waits || s.Symptom != "ttft_high"
		d, ok := c.Explains[s.Symptom]
		if !ok {
			d = unexplained
		}
		if out.loudest < 0 || d > most {
			out.loudest, most = i, d
		}
	}
	if !waits {
		out.same = nil
	}
	return out
}

// counts reports whether the sign adds to the score.
func (q queueSigns) counts(i int) bool { return !q.same[i] || i == q.loudest }
