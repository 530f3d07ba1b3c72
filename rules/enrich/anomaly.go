package enrich

import (
	"cmp"
	"math"
	"slices"
	"time"

	"paramedic/rules/signals"
	"paramedic/state"
)

// The anomaly score follows the detectors that are common for inference fleets. It counts how many
// standard deviations a value lies from the mean of the points before it. The window has at most
// zWindow and at least zPoints points.
const (
	zWindow = 100
	zPoints = 20
	zMost   = 100
)

// ZScore returns the distance of a value from its usual level: z = (value - mean) / max(σ, 1 % of
// |mean|, the unit's negligible amount). It uses the last 100 points of the hour before the onset
// and limits z to ±100. It returns nil if there are fewer than 20 points. σ is the standard
// deviation of the population, as in numpy.std.
//
// The common detectors skip a flat series, because its σ is 0. They miss the jump from a flat line,
// for example when a KV cache becomes full or the first preemption occurs. Here the deviation is at
// least 1 % of the level, and at least the unit's negligible amount. So a queue of one request
// after an hour of none gives z = 1, not an alarm.
func ZScore(value float64, unit string, series []state.Point, onset time.Time) *float64 {
	before := usual(series, onset)
	if len(before) < zPoints || math.IsNaN(value) {
		return nil
	}
	n := float64(len(before))
	var sum, squares float64
	for _, p := range before {
		sum += p.Value
	}
	mean := sum / n
	for _, p := range before {
		squares += (p.Value - mean) * (p.Value - mean)
	}
	deviation := math.Max(math.Sqrt(squares/n), math.Max(math.Abs(mean)*0.01, signals.Grain(unit)))
	z := math.Max(-zMost, math.Min(zMost, (value-mean)/deviation))
	return &z
}

// swinging are the units of signals that follow the traffic. Memory and shares drift instead, so
// they are compared with the value an hour ago.
var swinging = []string{"1/s", "requests", "s"}

// Troubled is the assumed longest time between the start of a fault and its first alert: rules use
// rates over five minutes, held for ten.
const Troubled = 15 * time.Minute

// usualPoints is the smallest number of points that describes an hour. Without the highest and the
// lowest, four remain. Half an hour of charts has six points.
const usualPoints = 6

// usualValue returns the baseline of a sample. For a signal that follows the traffic, it takes the
// hour before the fault, without the highest and the lowest value. The baseline is then the value
// nearest to the current one. A burst like earlier bursts is then no change, even if there was none
// exactly an hour ago. If the hour was even, the value an hour ago stays the baseline. The fault
// may be older than its first alert, so the points after the signal changed do not count.
func usualValue(s *state.Sample, onset time.Time) *float64 {
	if s.Baseline == nil || !slices.Contains(swinging, s.Unit) {
		return s.Baseline
	}
	until := onset.Add(-Troubled)
	if began := leftUsual(s, onset); began.Before(until) {
		until = began
	}
	var hour []float64
	for _, p := range s.Series {
		if !p.At.Before(onset.Add(-time.Hour)) && p.At.Before(until) {
			hour = append(hour, p.Value)
		}
	}
	if len(hour) < usualPoints || math.IsNaN(s.Value) {
		return s.Baseline
	}
	slices.Sort(hour)
	hour = hour[1 : len(hour)-1]
	if least, most := hour[0], hour[len(hour)-1]; most < 2*least || most-least <= 2*signals.Grain(s.Unit) {
		return s.Baseline
	}
	nearest := slices.MinFunc(hour, func(a, b float64) int {
		return cmp.Compare(math.Abs(a-s.Value),
			math.Abs(b-s.Value))
	})
	return &nearest
}

const (
	// calm: the part of the hour before the change must be at least 1/calm; a shorter one is not a
	// usual level.
	calm = 3
	// away is in standard deviations, as for the anomaly score.
	away = 3.0
	// lasting: at least 1/lasting of the points since the change must be that far away, because
	// faults come and go.
	lasting = 3
	// doubling is the least factor between the means before and after the change.
	doubling = 2.0
)

// leftUsual returns the time when a signal left its level of the hour before the onset, or the
// onset if it did not. It chooses the time that divides the points best: the greatest variance
// between the two parts.
func leftUsual(s *state.Sample, onset time.Time) time.Time {
	from := slices.IndexFunc(s.Series, func(p state.Point) bool { return !p.At.Before(onset.Add(-time.Hour)) })
	if from < 0 {
		return onset
	}
	points := s.Series[from:]
	hour := 0
	for hour < len(points) && points[hour].At.Before(onset) {
		hour++
	}
	least := max(usualPoints, hour/calm)
	at, best := -1, 0.0
	for i := least; i < hour; i++ {
		before, _ := meanAndDeviation(points[:i])
		after, _ := meanAndDeviation(points[i:])
		n, m := float64(i), float64(len(points)-i)
		if between := n * m / (n + m) * (after - before) * (after - before); between > best {
			at, best = i, between
		}
	}
	if at < 0 {
		return onset
	}
	before, deviation := meanAndDeviation(points[:at])
	after, _ := meanAndDeviation(points[at:])
	far := away * math.Max(deviation, math.Max(math.Abs(before)*0.01, signals.Grain(s.Unit)))
	side := math.Copysign(1, after-before)
	beyond := 0
	for _, p := range points[at:] {
		if side*(p.Value-before) > far {
			beyond++
		}
	}
	changed := after > doubling*before || before > doubling*after
	if !changed || lasting*beyond < len(points)-at || side*(s.Value-before) <= 0 {
		return onset
	}
	return points[at].At
}

// meanAndDeviation returns the mean of the points and their standard deviation.
func meanAndDeviation(points []state.Point) (mean, deviation float64) {
	for _, p := range points {
		mean += p.Value / float64(len(points))
	}
	for _, p := range points {
		deviation += (p.Value - mean) * (p.Value - mean) / float64(len(points))
	}
	return mean, math.Sqrt(deviation)
}

// usual returns the points that a value is compared with: the last zWindow points of the hour
// before the onset.
func usual(series []state.Point, onset time.Time) []state.Point {
	from := 0
	for from < len(series) && series[from].At.Before(onset.Add(-time.Hour)) {
		from++
	}
	to := from
	for to < len(series) && series[to].At.Before(onset) {
		to++
	}
	return series[max(from, to-zWindow):to]
}

const (
	chartPoints = 40
	mostPoints  = 120
	coarsest    = time.Hour / (zPoints + 1) // so that an hour has 20 points, wherever they begin
)

// ChartStep returns the time between the points of a chart, which begins an hour before the onset.
// A chart has 40 points, because many signals are rates over five minutes. A chart of a longer
// incident has more, up to 120, so that the hour before the onset keeps the 20 points that ZScore
// needs.
func ChartStep(onset, now time.Time) time.Duration {
	total := now.Sub(onset) + time.Hour
	if step := total / chartPoints; step < coarsest {
		return step
	}
	return max(coarsest, total/(mostPoints-1))
}
