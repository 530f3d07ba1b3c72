package evidence

import (
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
)

// alike is the greatest factor between the gateway's and the engines' count of arrivals at which
// both count the same requests.
const alike = 1.5

// countAtGateway gives the pool the arrivals that its gateway counts, as their sum and as the value
// per worker, now and before. Engines count requests that they finish. They fall behind the clients
// if the pool is saturated or fails. Today's workers share the arrivals of the past too, so a pool
// that lost workers has no surge. The workers keep their own counts, and these keep their mean
// (avg).
//
// The counts have to be alike now or an hour ago: now they differ if requests fail, an hour ago if
// the pool had other workers. If they never are, the gateway serves other pools too, or it is not
// the only way to this one; the engines' counts stay.
func (v *View) countAtGateway() {
	engines, gateway := v.signals["arrival_rate"], v.signals[catalog.GatewayArrivals]
	if engines == nil || gateway == nil || engines.pool != nil || engines.Whole.Count == 0 {
		return
	}
	r, at, n := engines.Whole, gateway.Whole, float64(engines.Whole.Count)
	now, was, usual := at.CurrentValue(), at.BaselineValue(), r.BaselineValue()
	if !now.OK || !was.OK || !usual.OK || !areAlike(now.V, r.Sum.V) && !areAlike(was.V, n*usual.V) {
		return
	}
	per := func(total, own *float64) *float64 {
		if condition.Present(total) == nil {
			return own
		}
		each := *total / n
		return &each
	}
	r.Sum, r.Value = now, now.V/n
	r.Baseline = per(at.Baseline, nil)
	r.HourAgo = per(at.HourAgo, r.Baseline)
	r.DayAgo, r.WeekAgo = per(at.DayAgo, r.DayAgo), per(at.WeekAgo, r.WeekAgo)
}

func areAlike(a, b float64) bool { return a <= alike*b && b <= alike*a }
