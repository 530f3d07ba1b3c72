package engine

import (
	"math"
	"time"

	"paramedic/rules/signals"
)

// at is one value of a series. Seconds count from the end of the window, so they are zero or
// negative.
type at struct{ seconds, value float64 }

// over applies a function to the points of one series in (to-window, to], as Prometheus does. It
// returns false if there is no result.
func over(fn signals.Fn, points []at, window time.Duration) (float64, bool) {
	if len(points) == 0 {
		return 0, false
	}
	switch fn {
	case signals.FnRate:
		v, ok := increase(points, window)
		return v / window.Seconds(), ok
	case signals.FnIncrease:
		return increase(points, window)
	case signals.FnSlope:
		return slope(points)
	case signals.FnChanges:
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
	case signals.FnAvg:
		return sum / float64(len(points)), true
	case signals.FnMin:
		return low, true
	case signals.FnMax:
		return high, true
	case signals.FnRise:
		lately := math.Inf(1)
		for _, p := range points {
			if p.seconds > -time.Hour.Seconds() {
				lately = math.Min(lately, p.value)
			}
		}
		return lately - low, !math.IsInf(lately, 1)
	}
	return 0, false
}

// increase computes Prometheus' increase. It corrects for counter resets and extrapolates to the
// edges of the window. It does not extrapolate below zero, nor by more than half an interval if the
// series begins or ends within the window. So a direct scrape gives the same value as Prometheus.
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

// slope returns the least-squares slope per second.
func slope(points []at) (float64, bool) {
	if len(points) < 2 {
		return 0, false
	}
	var n, sx, sy, sxy, sxx float64
	x0, y0 := points[0].seconds, points[0].value // offsets keep the numbers small, and so precise
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
