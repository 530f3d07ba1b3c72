package query

import "time"

// minimum returns the lowest value over the window, among the times at which all gauges of With
// were zero.
func (b builder) minimum(w string) string {
	s := b.src
	one := b.sel(s.Metric, s.Match)
	if len(s.With) == 0 {
		// The minimum of a series that ended remains for the window, so only current ones count.
		return b.agg(string(b.sig.Combine), "min_over_time("+b.over(one, w)+") and "+b.at(one))
	}
	return "min_over_time(" + b.idle(w) + ")"
}

// rise returns the lowest value of the last hour minus the lowest over the window, of series that
// are current. With has the same meaning as for minimum.
func (b builder) rise(w string) string {
	lately := b
	lately.src.Window = time.Hour
	one := b.sel(b.src.Metric, b.src.Match)
	return "(clamp_min(min_over_time(" + lately.idle(window(time.Hour)) + ") - min_over_time(" + b.idle(w) + "), 0) and " +
		b.agg(string(b.sig.Combine), b.at(one)) + ")"
}

// idle returns the values of the window at the times at which all gauges of With were zero.
func (b builder) idle(w string) string {
	expr := b.agg(string(b.sig.Combine), b.at(b.sel(b.src.Metric, b.src.Match)))
	for _, gauge := range b.src.With {
		expr += " and (" + b.agg("sum", b.at(b.sel(gauge, b.src.Match))) + " == 0)"
	}
	return "(" + expr + ")" + b.steps(w)
}
