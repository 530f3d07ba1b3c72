package engine

import (
	"math"
	"slices"
	"time"

	"paramedic/rules"
)

// at is one value of a series; seconds count from the end of the window, so they are zero or negative.
type at struct{ seconds, value float64 }

// over applies a function to the points of one series in (to-window, to], as Prometheus does; false where it has no answer.
func over(fn rules.Fn, points []at, window time.Duration) (float64, bool) {
	if len(points) == 0 {
		return 0, false
	}
	switch fn {
	case rules.FnRate:
		v, ok := increase(points, window)
		return v / window.Seconds(), ok
	case rules.FnIncrease:
		return increase(points, window)
	case rules.FnSlope:
		return slope(points)
	case rules.FnChanges:
		n := 0.0
		for i := 1; i < len(points); i++ {
			if points[i].value != points[i-1].value {
				n++
			}
		}
		return n, true
	}
	sum, low, high := 0.0, math.Inf(1), math.Inf(-1)
	for _, p := range points {
		sum, low, high = sum+p.value, math.Min(low, p.value), math.Max(high, p.value)
	}
	switch fn {
	case rules.FnAvg:
		return sum / float64(len(points)), true
	case rules.FnMin:
		return low, true
	case rules.FnMax:
		return high, true
	}
	return 0, false
}

// increase is Prometheus's: resets are healed, and what was seen is extrapolated to the window's edges, but never below a counter's
// zero, nor further than half an interval where the series begins or ends within the window. A direct scrape and a Prometheus then
// tell the same story of the same pages.
func increase(points []at, window time.Duration) (float64, bool) {
	if len(points) < 2 {
		return 0, false
	}
	first, last := points[0], points[len(points)-1]
	result := last.value - first.value
	for i := 1; i < len(points); i++ {
		if points[i].value < points[i-1].value {
			result += points[i-1].value
		}
	}
	sampled := last.seconds - first.seconds
	interval := sampled / float64(len(points)-1)
	toStart, toEnd := first.seconds+window.Seconds(), -last.seconds
	if toStart >= interval*1.1 {
		toStart = interval / 2
	}
	if result > 0 && first.value >= 0 {
		toStart = math.Min(toStart, sampled*first.value/result)
	}
	if toEnd >= interval*1.1 {
		toEnd = interval / 2
	}
	return result * (sampled + toStart + toEnd) / sampled, true
}

// slope is the least-squares slope per second.
func slope(points []at) (float64, bool) {
	if len(points) < 2 {
		return 0, false
	}
	var n, sx, sy, sxy, sxx float64
	x0, y0 := points[0].seconds, points[0].value // small numbers keep their digits
	for _, p := range points {
		x, y := p.seconds-x0, p.value-y0
		n, sx, sy, sxy, sxx = n+1, sx+x, sy+y, sxy+x*y, sxx+x*x
	}
	d := sxx - sx*sx/n
	if d == 0 {
		return 0, false
	}
	return (sxy - sx*sy/n) / d, true
}

// bucket is one bucket of a histogram: how much was observed up to an upper bound.
type bucket struct{ le, count float64 }

// quantile is histogram_quantile: linear within a bucket, from 0 in the first, and the last finite bound for what lies above it.
func quantile(q float64, buckets []bucket) (float64, bool) {
	slices.SortFunc(buckets, func(a, b bucket) int {
		if a.le < b.le {
			return -1
		}
		return 1
	})
	if len(buckets) < 2 || !math.IsInf(buckets[len(buckets)-1].le, 1) {
		return 0, false
	}
	for i := 1; i < len(buckets); i++ { // pages are not read in one instant: counts can be out of step by one
		buckets[i].count = math.Max(buckets[i].count, buckets[i-1].count)
	}
	total := buckets[len(buckets)-1].count
	if total == 0 {
		return 0, false
	}
	rank := q * total
	b := 0
	for b < len(buckets)-1 && buckets[b].count < rank {
		b++
	}
	switch {
	case b == len(buckets)-1:
		return buckets[b-1].le, true
	case b == 0 && buckets[0].le <= 0:
		return buckets[0].le, true
	case b == 0:
		return buckets[0].le * rank / buckets[0].count, true
	}
	from := buckets[b-1]
	return from.le + (buckets[b].le-from.le)*(rank-from.count)/(buckets[b].count-from.count), true
}
