package deviation

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/rules/signals"
	"paramedic/state"
)

// Each want is the sentence that a person would say about the four numbers.
func TestComparisonWithUsualValues(t *testing.T) {
	none := math.NaN()
	for _, c := range []struct {
		unit               string
		v, hour, day, week float64
		want               string
		young              bool
	}{
		{"requests", 60, 10, 10.4, 9.8, "×6 vs an hour ago, ×5.8 vs this hour yesterday and ×6.1 vs this hour last week", false},
		{"1/s", 6.3, 2.1, 6.2, 6.4, "×3 vs an hour ago, but the same as this hour yesterday and this hour last week", false},
		{"1/s", 6.3, 6.2, 2.1, 2.1, "×3 vs this hour yesterday and ×3 vs this hour last week, but the same as an hour ago", false},
		{"requests", 74, 0, none, none, "up from 0 an hour ago", false},
		{"requests", 74, 0.4, 1, none, "up from 0.4 an hour ago and up from 1 this hour yesterday", false},
		{"tokens", 300, 2400, none, none, "×0.13 vs an hour ago", false},
		{"1/s", 0, 2350, 2300, none, "down from 2350/s an hour ago and down from 2300/s this hour yesterday", false},
		{"s", 41.2, 0.4, none, none, "up from 400 ms an hour ago", false},
		{"s", 9.4, 0.4, none, none, "×24 vs an hour ago", false},
		{"ratio", 0.98, none, none, none, "", false},
		{"ratio", 0.805, 0.8, none, none, "the same as an hour ago", false},
		{"s", 9.4, 0.4, none, none, "×24 vs before", true},
		{"requests", 74, 0, none, none, "up from 0 before", true},
	} {
		if got := against(c.v, c.unit, [3]condition.Number{condition.Some(c.hour), condition.Some(c.day), condition.Some(c.week)}, c.young); got != c.want {
			t.Errorf("%g %s against %g, %g, %g:\n got %s\nwant %s", c.v, c.unit, c.hour, c.day, c.week, got, c.want)
		}
	}
}

// chartOf returns a chart with a point per minute that ends at the case's time.
func chartOf(n int, value func(i int) float64) []state.Point {
	out := make([]state.Point, n)
	for i := range out {
		out[i] = state.Point{At: rulestest.Now.Add(time.Duration(i-n+1) * time.Minute), Value: value(i)}
	}
	return out
}

// ripple alternates around a level by amount, so that its standard deviation is known.
func ripple(level, amount float64, i int) float64 { return level + amount*float64(i%2*2-1) }

// surge returns a pool of four workers whose arrivals, queue and time to first token leave their
// course at given points of sixty.
func surge(at map[string]int, to map[string]float64) (*state.Incident, *state.Evidence) {
	in, ev := rulestest.Fleet(mustLoadOnce(), 4)
	ev.Samples = slices.DeleteFunc(ev.Samples, func(s state.Sample) bool { return at[s.Signal] == 0 })
	for i := range ev.Samples {
		s := &ev.Samples[i]
		from, level := at[s.Signal], to[s.Signal]
		s.Series = chartOf(60, func(i int) float64 {
			if i >= from {
				return ripple(level, level/20, i)
			}
			return ripple(level/5, level/100, i)
		})
		s.Value = s.Series[59].Value
	}
	return in, ev
}

var loaded *catalog.Catalog

func mustLoadOnce() *catalog.Catalog {
	if loaded == nil {
		c, _, err := catalog.Load("")
		if err != nil {
			panic(err)
		}
		loaded = c
	}
	return loaded
}

func correlationLines(list []state.Correlation) string {
	var b strings.Builder
	for _, c := range list {
		fmt.Fprintf(&b, "%s with %s lead %g over %d\n", c.Signal, c.With, c.Lead, c.Points)
	}
	return b.String()
}

// The earliest movement comes first, with its lead. A lead of one step or less is not shown, and
// signals that did not move are not listed.
func TestEarliestMovementComesFirst(t *testing.T) {
	c := mustLoadOnce()
	in, ev := surge(map[string]int{"requests_running": 36, "kv_usage": 39, "requests_waiting": 40, "gpu_util": 90},
		map[string]float64{"requests_running": 100, "kv_usage": 0.9, "requests_waiting": 50, "gpu_util": 95})
	got := Correlations(c, evidence.ArrangeScope(in, in.Scope, ev, c).Whole(), nil)
	want := "requests_running with requests_waiting lead 240 over 60\nkv_usage with requests_waiting lead 0 over 60\n"
	if lines := correlationLines(got); lines != want {
		t.Errorf("got\n%swant\n%s", lines, want)
	}
	if got := got[0].Text; !strings.HasPrefix(got, "Requests running rose 4 min before requests waiting rose (r = 0.8") {
		t.Errorf("%s", got)
	}
	// The independent formula: r of two steps in 60 points, of 20 and 24 points, is sqrt(p(1-q) /
	// (q(1-p))) with p = 20/60 and q = 24/60. It is 0.87; the ripple changes it a little.
	p, q := 20.0/60, 24.0/60
	if want := math.Sqrt(p * (1 - q) / (q * (1 - p))); math.Abs(got[0].R-want) > 0.02 {
		t.Errorf("r = %g, want %g", got[0].R, want)
	}
}

// A rate over five minutes shows a change late: a lead within that delay does not count.
func TestLeadExceedsAveragingWindow(t *testing.T) {
	five := 5 * time.Minute
	steps := func(from int) movement {
		return movement{points: chartOf(60, func(int) float64 { return 0 }), moved: from}
	}
	for _, c := range []struct {
		first, second int
		smear         time.Duration // of the second
		want          time.Duration
	}{{30, 31, 0, 0}, {30, 32, 0, 2 * time.Minute}, {30, 36, five, 0}, {30, 37, five, 7 * time.Minute}, {30, 37, 2 * five, 0},
		{37, 30, five, -7 * time.Minute}} {
		a, b := steps(c.first), steps(c.second)
		b.smear = c.smear
		if got := lead(a, b); got != c.want {
			t.Errorf("point %d before %d with a smear of %s: %s, want %s", c.first, c.second, c.smear, got, c.want)
		}
	}
	// Points after the onset may have wider steps than those before.
	wider := func(from int) movement {
		t := steps(from)
		for i := range t.points {
			t.points[i].At = t.points[0].At.Add(time.Duration(i+max(0, i-28)) * time.Minute)
		}
		return t
	}
	if got := lead(wider(32), wider(33)); got != 0 {
		t.Errorf("one step is a lead of %s", got)
	}
	if got := lead(wider(32), wider(36)); got != 8*time.Minute {
		t.Errorf("four steps are a lead of %s", got)
	}
	// With a window of five minutes, a value exceeds three deviations after far/shift of the
	// window.
	c := mustLoadOnce()
	in, ev := surge(map[string]int{"arrival_rate": 40}, map[string]float64{"arrival_rate": 10})
	g := evidence.ArrangeScope(in, in.Scope, ev, c).Whole()
	tr, ok := movementOf(c, g, "arrival_rate")
	// Calm: mean 2, σ 0.1, so 0.3 is far; then 10: a shift of 8.
	if !ok || tr.moved != 40 || math.Abs(tr.shift-8) > 0.01 ||
		(tr.smear-time.Duration(float64(c.Windows()["arrival_rate"])*0.3/8)).Abs() > time.Second {
		t.Errorf("%v: moved at %d by %g, smear %s of %s", ok, tr.moved, tr.shift, tr.smear, c.Windows()["arrival_rate"])
	}
}

// Pearson's coefficient is compared with values computed by hand. Too few points, one common spike
// and flat lines are no correlation.
func TestPearson(t *testing.T) {
	series := func(n int, f func(i int) float64) []float64 {
		out := make([]float64, n)
		for i := range out {
			out[i] = f(i)
		}
		return out
	}
	line := func(i int) float64 { return float64(i) }
	spike := func(i int) float64 { return map[bool]float64{true: 1000}[i == 7] + float64(i*7%5) }
	other := func(i int) float64 { return map[bool]float64{true: 900}[i == 7] + float64(i*3%4) }
	for _, c := range []struct {
		name string
		x, y []float64
		r    float64
		ok   bool
	}{
		{"a line and itself", series(20, line), series(20, func(i int) float64 { return 1e10 + 3*float64(i) }), 1, true},
		{"and its opposite", series(20, line), series(20, func(i int) float64 { return -float64(i) }), -1, true},
		{"nineteen points", series(19, line), series(19, line), 0, false},
		{"a flat line", series(20, line), series(20, func(int) float64 { return 4 }), 0, false},
		{"one common spike", series(60, spike), series(60, other), 1, false},
		// Σxy of 0…19 with the parabola (i-9.5)² is 0 by symmetry.
		{"a parabola", series(20, line), series(20, func(i int) float64 { return (float64(i) - 9.5) * (float64(i) - 9.5) }), 0, false},
	} {
		r, ok := pearson(c.x, c.y)
		if ok != c.ok || math.Abs(r-c.r) > 0.001 {
			t.Errorf("%s: r = %.4f, %v; want %.4f, %v", c.name, r, ok, c.r, c.ok)
		}
	}
	// Two steps in noise-free data: 10 of 60 points and 12 of 60, one within the other: r =
	// sqrt(p(1-q) / (q(1-p))).
	x := series(60, func(i int) float64 { return float64(max(0, min(1, i-49))) })
	y := series(60, func(i int) float64 { return float64(max(0, min(1, i-47))) })
	if r, _ := pearson(x, y); math.Abs(r-math.Sqrt((10.0/60*48/60)/(12.0/60*50/60))) > 1e-12 {
		t.Errorf("two steps: %g", r)
	}
}

// The explanation of a fault that a person can verify by hand: a queue in a pool that has never had
// one, with arrivals as on any Friday.
func TestAnomaliesOfANewQueue(t *testing.T) {
	c := mustLoadOnce()
	in, ev := rulestest.Fleet(c, 4)
	number := func(v float64) *float64 { return &v }
	set := map[string]state.Sample{
		"requests_waiting": {Value: 33, Baseline: number(0), DayAgo: number(0), WeekAgo: number(1), Z: number(33)},
		"arrival_rate":     {Value: 6.3, Baseline: number(2.1), DayAgo: number(6.2), WeekAgo: number(6.4), Z: number(8)},
		"gpu_util":         {Value: 91, Baseline: number(88), Z: number(4)},
		"requests_running": {Value: 60, Baseline: number(59), DayAgo: number(60), WeekAgo: number(61), Z: number(0.4)},
	}
	var kept []state.Sample
	for _, s := range ev.Samples {
		if is, ok := set[s.Signal]; ok {
			s.Value, s.Baseline, s.DayAgo, s.WeekAgo, s.Z = is.Value, is.Baseline, is.DayAgo, is.WeekAgo, is.Z
			kept = append(kept, s)
		}
	}
	ev.Samples = kept
	var got []string
	for _, a := range Anomalies(c, evidence.ArrangeScope(in, in.Scope, ev, c).Whole(), nil) {
		got = append(got, a.Text)
	}
	slices.Sort(got)
	want := []string{
		"Requests arriving: 6.3/s per worker, ×3 vs an hour ago, but the same as this hour yesterday and this hour last week (8 σ above " +
			"usual)",
		"Requests waiting: 33 per worker, up from 0 an hour ago, up from 0 this hour yesterday and up from 1 this hour last week (33 σ " +
			"above usual)",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// For one broken worker its own numbers are shown, not the pool's.
func TestAnomaliesDescribeBrokenWorker(t *testing.T) {
	c := mustLoadOnce()
	in, ev := rulestest.Fleet(c, 4)
	v := evidence.ArrangeScope(in, in.Scope, ev, c)
	pods := []string{v.Pods()[1].Pod()}
	if g := Subject(v, pods); g.Pod() != pods[0] {
		t.Errorf("looked at %q", g.Pod())
	}
	for i := range ev.Samples {
		if s := &ev.Samples[i]; s.Signal == "requests_waiting" && s.Entity.Pod == pods[0] {
			s.Value, s.Baseline = 88, new(float64)
		}
	}
	if a, ok := anomaly(c, Subject(evidence.ArrangeScope(in, in.Scope, ev, c), pods), "requests_waiting"); !ok || a.Pod != pods[0] ||
		a.Text != "Requests waiting: 88 on "+pods[0]+", up from 0 an hour ago" {
		t.Errorf("%v %+v", ok, a)
	}
	if g := Subject(v, []string{v.Pods()[0].Pod(), v.Pods()[1].Pod(), v.Pods()[2].Pod()}); g != v.Whole() {
		t.Errorf("three of four: %q", g.Pod())
	}
	if g := Subject(v, nil); g != v.Whole() {
		t.Errorf("none: %q", g.Pod())
	}
}

// Every signal of the explanation exists, is read by some evidence (otherwise the view omits it),
// and has a chart if the explanation uses one.
func TestKeySignalsExist(t *testing.T) {
	c := mustLoadOnce()
	charted := map[string]bool{}
	all, err := signals.LoadSignals()
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range all {
		charted[s.ID] = s.Chart
	}
	for _, id := range append(slices.Clone(keySignals), movers...) {
		if c.Titles()[id] == "" || !c.UsedSignals()[id] {
			t.Errorf("%s: title %q, read by evidence: %v", id, c.Titles()[id], c.UsedSignals()[id])
		}
	}
	for _, id := range append(slices.Clone(felt), movers...) {
		if !charted[id] {
			t.Errorf("%s has no chart to correlate", id)
		}
	}
}
