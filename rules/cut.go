package rules

import "fmt"

const (
	// cutGrown is how many times its usual a length that is cut has to be to be known: it is at
	// least that, and grown by what most rules ask.
	cutGrown = 1.4
	// cutMore is how many times its usual the share of aborted requests has to be, half as much
	// again: where as many give up as ever, lengths compare as ever.
	cutMore = 1.5
)

// cut leaves out how long answers are where more are given up than usual, a third of the requests
// or about so. Long answers are given up first, and what was given up has half an answer: of
// log-normal lengths (σ 0.6) without the longest third, the mean is two thirds. It can only be too
// short: it stays where it says that answers grew, and tells an expression that asks for .least
// what they are at least.
func (v *view) cut(cat *Catalog) {
	aborts, finishes := v.signals["abort_rate"], v.signals["finish_rate"]
	if aborts == nil || finishes == nil {
		return
	}
	a, f := aborts.whole, finishes.whole
	if !a.sum.ok || !f.sum.ok {
		return
	}
	now, usual := ends{a.sum.v, f.sum.v}, ends{}
	if a.baseline().ok && f.baseline().ok {
		usual = ends{a.baseline().v, f.baseline().v}
	}
	if !now.many(abortFloor) || now.share() < cutMore*usual.share() {
		return
	}
	for _, id := range cat.cut {
		s := v.signals[id]
		if s == nil {
			continue
		}
		if was := s.whole.baseline(); was.ok && s.whole.Value >= cutGrown*was.v {
			continue
		}
		v.signals[id], v.numbered[cat.numbers[id]] = nil, nil
		v.cutShort[id] = s
		v.missing[id] = fmt.Sprintf("%.0f %% of the requests are given up, long answers first", 100*now.share())
	}
}
