package deviation

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/signals"
	"paramedic/state"
)

const (
	fewestPoints = 20 // points of a correlation, and of the course that is usual
	closely      = 0.8
	mostTogether = 4
)

// movers are the signals that are correlated with latency, errors and the queue.
var movers = []string{"arrival_rate", "requests_running", "kv_usage", "preemption_rate", "generation_tokens_rate",
	"prefix_hit_ratio", "container_memory", "gpu_util"}

// A movement is a signal's chart with the moment at which it left its usual course.
type movement struct {
	signal string
	points []state.Point
	moved  int           // index of the first point off the course
	usual  float64       // mean of the course
	shift  float64       // mean distance from the course since then
	smear  time.Duration // the possible delay of moved, from the window that the signal is averaged over
}

// Correlations returns the signals that moved together with latency, errors or the queue. Signals
// of the verdict come first, and in each part those that moved first.
//
// Both signals must have left their course. Pearson's coefficient over all points must be beyond
// ±0.8 without any single point: a common spike is not a correlation. Spearman's coefficient is not
// used. With fifty calm points of sixty, two steps at the same moment reach only 0.42, because calm
// points have random ranks. The charts are not shifted in time, since any two steps match after
// some shift.
func Correlations(c *catalog.Catalog, g *evidence.Subject, findings []state.Finding) []state.Correlation {
	tracks := make([]movement, 0, len(felt)+len(movers))
	for _, id := range felt {
		if t, ok := movementOf(c, g, id); ok {
			tracks = append(tracks, t)
		}
	}
	users := len(tracks)
	if users == 0 {
		return nil
	}
	for _, id := range movers {
		if t, ok := movementOf(c, g, id); ok {
			tracks = append(tracks, t)
		}
	}
	var out []state.Correlation
	var both values
	for i, t := range tracks {
		if found, ok := moved(c, t, tracks[:min(i, users)], &both); ok {
			found.Pod = g.Pod()
			out = append(out, found)
		}
	}
	slices.SortStableFunc(out, func(a, b state.Correlation) int {
		return cmp.Or(rank(a, findings)-rank(b, findings), cmp.Compare(b.Lead, a.Lead),
			cmp.Compare(math.Abs(b.R), math.Abs(a.R)), cmp.Compare(a.Signal, b.Signal))
	})
	return out[:min(len(out), mostTogether)]
}

// rank puts signals of the verdict first and symptoms of users last: that two symptoms of users
// coincide is expected.
func rank(c state.Correlation, findings []state.Finding) int {
	switch {
	case slices.ContainsFunc(findings, func(f state.Finding) bool { return f.Signal == c.Signal && f.Weight > 0 }):
		return 0
	case slices.Contains(felt, c.Signal):
		return 2
	}
	return 1
}

// moved returns the strongest correlation of a track with the signals that users notice.
func moved(c *catalog.Catalog, t movement, with []movement, both *values) (state.Correlation, bool) {
	var out state.Correlation
	for _, u := range with {
		both.align(t.points, u.points)
		r, ok := pearson(both.x, both.y)
		if !ok || math.Abs(r) <= math.Abs(out.R) {
			continue
		}
		out = state.Correlation{Signal: t.signal, With: u.signal, R: condition.Round(r, 2), Points: len(both.x),
			Lead: lead(t, u).Seconds()}
		out.Text = fmt.Sprintf("%s %s %s %s %s (r = %s over %d points)", c.Titles()[t.signal], t.verb(), order(out.Lead),
			state.InSentence(c.Titles()[u.signal]), u.verb(), state.FormatNumber(out.R), out.Points)
	}
	return out, out.Signal != ""
}

func (t movement) verb() string {
	if t.shift < 0 {
		return "fell"
	}
	return "rose"
}

// order describes the order of two movements, between two clauses.
func order(lead float64) string {
	apart := math.Abs(lead)
	if apart >= 180 { // the points are about a minute apart
		apart = math.Round(apart/60) * 60
	}
	switch {
	case lead > 0:
		return signals.Quantity(apart, "s") + " before"
	case lead < 0:
		return signals.Quantity(apart, "s") + " after"
	}
	return "when"
}

// lead returns by how long t left its course before u.
func lead(t, u movement) time.Duration { return t.began().lead(u.began()) }

// A moment is the time at which a signal left its course. It may be late by the delay. The zero
// moment is unknown.
type moment struct {
	at    time.Time
	delay time.Duration
}

// began returns the moment at which the signal left its course. It may be late by a step of the
// chart plus the averaging window: a five-minute mean shows a change with a delay.
func (t movement) began() moment {
	// Steps after the onset may be wider than before.
	at := t.points[t.moved].At
	return moment{at, at.Sub(t.points[t.moved-1].At) + t.smear}
}

// lead returns by how long m is before n. It returns zero if the difference is at most the possible
// delay of the later one, or if one of them is unknown.
func (m moment) lead(n moment) time.Duration {
	if m.at.IsZero() || n.at.IsZero() {
		return 0
	}
	by, late := n.at.Sub(m.at), n
	if by < 0 {
		late = m
	}
	if by.Abs() <= late.delay {
		return 0
	}
	return by
}

// movementOf returns the chart of a signal if it left its course, which is that of its first twenty
// points. It left where two points in a row, and two thirds of all that follow, are over three
// standard deviations away on the same side.
func movementOf(c *catalog.Catalog, g *evidence.Subject, signal string) (movement, bool) {
	t := movement{signal: signal, points: g.Chart(signal)}
	if len(t.points) < fewestPoints+2 {
		return t, false
	}
	mean, far := usual(t.points[:fewestPoints], c.Units()[signal])
	return t, t.leave(fewestPoints, mean, far, c.Windows()[signal])
}

// leave sets the moment, from a point on, at which the signal left a mean by more than a distance.
// It reports whether there is one.
func (t *movement) leave(from int, mean, far float64, window time.Duration) bool {
	t.moved, t.usual = -1, mean
	n := len(t.points)
	above, below := 0, 0 // of the points from i on
	for i := n - 1; i >= from; i-- {
		side := beyond(t.points[i].Value-mean, far)
		above, below = above+max(side, 0), below+max(-side, 0)
		if i < n-1 && side != 0 && beyond(t.points[i+1].Value-mean, far) == side &&
			3*max(above*side, below*-side) >= 2*(n-i) {
			t.moved = i
		}
	}
	if t.moved < 0 {
		return false
	}
	for _, p := range t.points[t.moved:] {
		t.shift += (p.Value - mean) / float64(n-t.moved)
	}
	t.smear = time.Duration(float64(window) * math.Min(1, far/math.Abs(t.shift)))
	return t.shift != 0
}

// leftValue returns the moment at which the chart of a signal left a usual value to a side, as far
// as an unusual value is. It is unknown if the chart begins later.
func leftValue(c *catalog.Catalog, g *evidence.Subject, signal string, value float64, side int) moment {
	t := movement{signal: signal, points: g.Chart(signal)}
	far := math.Abs(value) * (different - 1)
	if side < 0 {
		far /= different
	}
	far = math.Max(far, 2*signals.Negligible(c.Units()[signal]))
	if len(t.points) < 2 || beyond(t.points[0].Value-value, far) != 0 || !t.leave(1, value, far, c.Windows()[signal]) ||
		cmp.Compare(t.shift, 0) != side {
		return moment{}
	}
	return t.began()
}

func beyond(x, far float64) int {
	switch {
	case x > far:
		return 1
	case x < -far:
		return -1
	}
	return 0
}

// usual returns the mean of points and the distance from which a point is unusual. For constant
// points the distance is that of the anomaly score.
func usual(points []state.Point, unit string) (mean, far float64) {
	n := float64(len(points))
	for _, p := range points {
		mean += p.Value / n
	}
	squares := 0.0
	for _, p := range points {
		squares += (p.Value - mean) * (p.Value - mean)
	}
	return mean, anomalous * math.Max(math.Sqrt(squares/n), math.Max(math.Abs(mean)*0.01, signals.Negligible(unit)))
}

// values holds two charts at the moments that both have.
type values struct{ x, y []float64 }

func (v *values) align(a, b []state.Point) {
	v.x, v.y = slices.Grow(v.x[:0], len(a)), slices.Grow(v.y[:0], len(a))
	for i, j := 0, 0; i < len(a) && j < len(b); {
		switch a[i].At.Compare(b[j].At) {
		case -1:
			i++
		case 1:
			j++
		default:
			v.x, v.y = append(v.x, a[i].Value), append(v.y, b[j].Value)
			i, j = i+1, j+1
		}
	}
}

// pearson returns the correlation of at least twenty points. ok reports whether it stays beyond
// ±0.8 without any single point.
func pearson(x, y []float64) (r float64, ok bool) {
	if len(x) < fewestPoints {
		return 0, false
	}
	n := float64(len(x))
	var mx, my float64
	for i := range x {
		mx, my = mx+x[i]/n, my+y[i]/n
	}
	var xx, yy, xy float64
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		xx, yy, xy = xx+dx*dx, yy+dy*dy, xy+dx*dy
	}
	if xx == 0 || yy == 0 {
		return 0, false
	}
	r = xy / math.Sqrt(xx*yy)
	weight := n / (n - 1) // of the omitted point
	for i := range x {
		dx, dy := x[i]-mx, y[i]-my
		rest := (xx - weight*dx*dx) * (yy - weight*dy*dy)
		if rest <= 0 || math.Copysign(1, r)*(xy-weight*dx*dy) < closely*math.Sqrt(rest) {
			return r, false
		}
	}
	return r, true
}
