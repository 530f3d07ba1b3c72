package evidence

import (
	"fmt"

	"paramedic/rules/catalog"
)

const (
	// cutGrown is the growth over its baseline from which a biased length still counts. The true
	// length is at least the measured one, and most rules ask for this growth.
	cutGrown = 1.4
	// cutMore is the growth of the abort share over its baseline from which lengths are biased. If
	// as many requests abort as usual, lengths stay comparable with their baseline.
	cutMore = 1.5
)

// dropTruncated removes the output lengths if the share of aborted requests is high (see ends.many)
// and higher than usual. Long answers are aborted first, and an aborted request has only half an
// answer. For log-normal lengths (σ 0.6) without the longest third, the mean is two thirds. The
// measured length can only be too short. So it stays if it shows growth, and it serves an
// expression that asks for .least as a lower bound.
func (v *View) dropTruncated(cat *catalog.Catalog) {
	aborts, finishes := v.signals["abort_rate"], v.signals["finish_rate"]
	if aborts == nil || finishes == nil {
		return
	}
	a, f := aborts.Whole, finishes.Whole
	if !a.Sum.OK || !f.Sum.OK {
		return
	}
	now, usual := completions{a.Sum.V, f.Sum.V}, completions{}
	if a.BaselineValue().OK && f.BaselineValue().OK {
		usual = completions{a.BaselineValue().V, f.BaselineValue().V}
	}
	if !now.many(abortFloor) || now.share() < cutMore*usual.share() {
		return
	}
	for _, id := range cat.TruncatedSignals() {
		s := v.signals[id]
		if s == nil {
			continue
		}
		if was := s.Whole.BaselineValue(); was.OK && s.Whole.Value >= cutGrown*was.V {
			continue
		}
		v.signals[id], v.numbered[cat.SignalNumbers()[id]] = nil, nil
		v.cutShort[id] = s
		v.missing[id] = fmt.Sprintf("%.0f %% of the requests are given up, long answers first", 100*now.share())
	}
}
