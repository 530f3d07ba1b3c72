package enrich

import (
	"cmp"
	"math"
	"slices"
	"time"

	"paramedic/rules"
	"paramedic/state"
)

// The anomaly score is that of the detectors that circulate for inference fleets: how many standard
// deviations a value lies from the mean of the points before it, over a window of at most zWindow
// points and with at least zPoints of them.
const (
	zWindow = 100
	zPoints = 20
	zMost   = 100
)

// ZScore is a value's distance from its usual, z = (value - mean) / max(σ, 1 % of |mean|, the
// unit's grain), over the last hundred points of the hour before the onset, bounded to ±100; nil
// where there are fewer than twenty. σ is the population's standard deviation, as in numpy.std. The
// detectors skip a series that stood still, since σ is 0 there, and so miss the jump from a flat
// line, which is what a full KV cache and the first preemption look like. Here its deviation is
// taken to be one percent of its level, and at least what is no change at all in its unit: a queue
// of one request after an hour of none is one grain, not a catastrophe.
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
	deviation := math.Max(math.Sqrt(squares/n), math.Max(math.Abs(mean)*0.01, rules.Grain(unit)))
	z := math.Max(-zMost, math.Min(zMost, (value-mean)/deviation))
	return &z
}

// swinging are the units of what goes up and down with the traffic. Memory and shares drift: where
// they were an hour ago is what matters.
var swinging = []string{"1/s", "requests", "s"}

// Troubled is how long before its first alert a trouble may have begun unseen: rules look at rates
// of five minutes, held for ten.
const Troubled = 15 * time.Minute

// usualPoints is how many points of the hour it takes: four without the highest and the lowest.
// What is known for half an hour has them.
const usualPoints = 6

// usually is what a sample of a signal that swings with the traffic is compared with: the value of
// the hour before the trouble that is nearest to it, without the highest and the lowest. A burst as
// there were others within the hour is then no change, whether or not there was one exactly an hour
// ago. Where the hour was even, an hour ago is as good, and stays. The trouble may be older than
// its first alert; what the signal itself shows of it is not counted.
func usually(s *state.Sample, onset time.Time) *float64 {
	if s.Baseline == nil || !slices.Contains(swinging, s.Unit) {
		return s.Baseline
	}
	until := onset.Add(-Troubled)
	if began := left(s, onset); began.Before(until) {
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
	if least, most := hour[0], hour[len(hour)-1]; most < 2*least || most-least <= 2*rules.Grain(s.Unit) {
		return s.Baseline
	}
	nearest := slices.MinFunc(hour, func(a, b float64) int { return cmp.Compare(math.Abs(a-s.Value), math.Abs(b-s.Value)) })
	return &nearest
}

const (
	calm     = 3   // the part of the hour that has to be before the change: what is shorter is no habit
	away     = 3.0 // standard deviations, as for the anomaly score
	lasting  = 3   // the part of the points since the change that has to be so far away: troubles come and go, too
	doubling = 2.0 // by how much the mean has to have changed for what swings
)

// left returns when a signal left its course of the hour before the onset for where it is now; the
// onset where it did not. Of all moments at which its points fall in two it takes the one that
// divides them best.
func left(s *state.Sample, onset time.Time) time.Time {
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
		before, _ := spread(points[:i])
		after, _ := spread(points[i:])
		n, m := float64(i), float64(len(points)-i)
		if between := n * m / (n + m) * (after - before) * (after - before); between > best {
			at, best = i, between
		}
	}
	if at < 0 {
		return onset
	}
	before, deviation := spread(points[:at])
	after, _ := spread(points[at:])
	far := away * math.Max(deviation, math.Max(math.Abs(before)*0.01, rules.Grain(s.Unit)))
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

// spread is the mean of points and their standard deviation.
func spread(points []state.Point) (mean, deviation float64) {
	for _, p := range points {
		mean += p.Value / float64(len(points))
	}
	for _, p := range points {
		deviation += (p.Value - mean) * (p.Value - mean) / float64(len(points))
	}
	return mean, math.Sqrt(deviation)
}

// usual are the points that a value is compared with.
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
	coarsest    = time.Hour / (zPoints + 1) // however its points fall, an hour has twenty
)

// ChartStep is how far apart the points of a chart are, which begins an hour before the onset:
// forty of them, since much of it are rates of five minutes, and of a longer incident as many as it
// takes to leave the hour before its onset the twenty that a z-score needs, up to a hundred and
// twenty.
func ChartStep(onset, now time.Time) time.Duration {
	whole := now.Sub(onset) + time.Hour
	if step := whole / chartPoints; step < coarsest {
		return step
	}
	return max(coarsest, whole/(mostPoints-1))
}
