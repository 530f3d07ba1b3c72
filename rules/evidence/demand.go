package evidence

import (
	"paramedic/rules/catalog"
	"paramedic/rules/condition"
)

// alike is the greatest factor between the gateway's and the engines' count of usual arrivals at
// which both count the same requests.
const alike = 1.5

// countAtGateway gives the pool the arrivals that its gateway counts, as their sum and as the value
// per worker. Engines count requests that they finish. They fall behind the clients if the pool is
// saturated or fails. The workers keep their own counts, and these keep their mean (avg). If the
// counts of an hour ago differ, the gateway serves other pools too, or it is not the only way to
// this one; the engines' counts stay.
func (v *View) countAtGateway() {
	engines, gateway := v.signals["arrival_rate"], v.signals[catalog.GatewayArrivals]
	if engines == nil || gateway == nil || engines.pool != nil || engines.Whole.Count == 0 {
		return
	}
	r, at, n := engines.Whole, gateway.Whole, float64(engines.Whole.Count)
	now, was, usual := at.CurrentValue(), at.BaselineValue(), r.BaselineValue()
	if !now.OK || !was.OK || !usual.OK || was.V > alike*n*usual.V || n*usual.V > alike*was.V {
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
