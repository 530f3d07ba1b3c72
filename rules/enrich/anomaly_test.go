package enrich

import (
	"math"
	"testing"
	"time"

	"paramedic/state"
)

// minutes returns n points, one a minute; the last is a minute before now.
func minutes(n int, value func(i int) float64) []state.Point {
	var out []state.Point
	for i := range n {
		out = append(out, state.Point{At: now.Add(time.Duration(i-n) * time.Minute), Value: value(i)})
	}
	return out
}

func constant(v float64) func(int) float64 { return func(int) float64 { return v } }

// Each want is calculated by hand.
func TestZScore(t *testing.T) {
	swing := func(i int) float64 { return 4 + 2*float64(i%2*2-1) } // 2, 6, 2, 6 …: mean 4, σ 2
	old := append([]state.Point{{At: now.Add(-61 * time.Minute), Value: 1e9}}, minutes(30, swing)...)
	dense := minutes(240, func(i int) float64 { return float64(min(i/140, 1)) * 10 })
	for i := range dense {
		dense[i].At = now.Add(time.Duration(i-240) * 15 * time.Second)
	}
	for _, c := range []struct {
		name   string
		value  float64
		unit   string
		series []state.Point
		want   float64 // NaN: none
	}{
		{"three deviations up", 10, "requests", minutes(20, swing), 3},
		{"and down", -2, "requests", minutes(20, swing), -3},
		{"nineteen points are too few", 10, "requests", minutes(19, swing), math.NaN()},
		{"points older than an hour do not count", 10, "requests", old, 3},
		{"points after the onset do not count", 10, "requests", append(minutes(20, swing), state.Point{At: now, Value: 1e9}), 3},
		{"the last hundred points: (11 - 10) / negligible amount", 11, "requests", dense, 1},
		{"a jump from a flat line: (0.99 - 0.5) / 0.01", 0.99, "ratio", minutes(60, constant(0.5)), 49},
		{"one percent of the level: (1030 - 1000) / 10", 1030, "MHz", minutes(60, constant(1000)), 3},
		{"one request after none", 1, "requests", minutes(60, constant(0)), 1},
		{"74 after none", 74, "requests", minutes(60, constant(0)), 74},
		{"just above zero preemptions", 0.001, "1/s", minutes(60, constant(0)), 0.1},
		{"bounded", 5e9, "bytes", minutes(60, constant(1e6)), 100},
		{"flat and the same", 0.5, "ratio", minutes(60, constant(0.5)), 0},
	} {
		z := ZScore(c.value, c.unit, c.series, now)
		switch {
		case math.IsNaN(c.want):
			if z != nil {
				t.Errorf("%s: %g", c.name, *z)
			}
		case z == nil || math.Abs(*z-c.want) > 1e-6:
			t.Errorf("%s: %v, want %g", c.name, z, c.want)
		}
	}
}

// The hour before a long incident keeps enough points for ZScore, as long as the chart has space.
func TestChartStepKeepsTwentyPointsPerHour(t *testing.T) {
	for _, c := range []struct {
		lasted, want time.Duration
	}{{0, 90 * time.Second}, {time.Hour, time.Hour / 21}, {3 * time.Hour, time.Hour / 21}, {4 * time.Hour, time.Hour / 21},
		{20 * time.Hour, 21 * time.Hour / 119}} {
		step := ChartStep(now, now.Add(c.lasted))
		if step != c.want {
			t.Errorf("after %s a point every %s, want %s", c.lasted, step, c.want)
		}
		if n := int((c.lasted+time.Hour)/step) + 1; n > 120 {
			t.Errorf("after %s %d points", c.lasted, n)
		}
	}
}

// A signal with bursts is compared with the bursts of the hour before. An even one, or one that
// drifts, is compared with its value an hour ago. The last 15 minutes may belong to the fault, and
// a single point is no usual level.
func TestBurstIsComparedWithEarlierBursts(t *testing.T) {
	bursts := func(i int) float64 { // ten minutes with no traffic, then ten with 6 a second; in the last 15 minutes 40
		if i >= 60-15 {
			return 40
		}
		return float64(i/10%2) * 6
	}
	once := func(i int) float64 { return map[bool]float64{true: 50, false: 2}[i == 10] }
	for _, c := range []struct {
		name             string
		value, was, want float64
		unit             string
		series           []state.Point
	}{
		{"a burst like the others", 5.8, 0, 6, "1/s", minutes(60, bursts)},
		{"between two of them", 0.1, 6, 0, "1/s", minutes(60, bursts)},
		{"more than any of them", 20, 0, 6, "1/s", minutes(60, bursts)},
		{"an even hour", 9, 2.9, 2.9, "1/s", minutes(60, func(i int) float64 { return 2.8 + 0.1*float64(i%3) })},
		{"one point of sixty", 50, 2, 2, "1/s", minutes(60, once)},
		{"mostly none, sometimes one", 3, 0, 0, "requests", minutes(60, func(i int) float64 { return float64(i % 2) })},
		{"memory that drifts", 6, 1, 1, "bytes", minutes(60, bursts)},
		{"a past that is too short", 5.8, 0, 0, "1/s", minutes(26, constant(6))},
	} {
		got := usualValue(&state.Sample{Value: c.value, Unit: c.unit, Baseline: &c.was, Series: c.series}, now)
		if got == nil || *got != c.want {
			t.Errorf("%s: %v, want %g", c.name, got, c.want)
		}
	}
	if got := usualValue(&state.Sample{Value: 1, Unit: "1/s", Series: minutes(60, bursts)}, now); got != nil {
		t.Errorf("a past that was not read: %g", *got)
	}
}

// A rule may fire long after the fault began. The points of the fault do not count as usual.
func TestOldFaultIsNotItsOwnBaseline(t *testing.T) {
	since := func(began int, before, after func(i int) float64) func(int) float64 {
		return func(i int) float64 {
			if i >= 60-began {
				return after(i)
			}
			return before(i)
		}
	}
	noisy := func(mean float64) func(int) float64 {
		return func(i int) float64 { return mean * (1 + 0.2*float64(i%3-1)) }
	}
	bursts := func(i int) float64 { return 1 + float64(i/10%2)*5 }
	comes := func(i int) float64 { return 2 + float64(i/3%2)*20 } // rises and falls
	for _, c := range []struct {
		name             string
		value, was, want float64
		series           []state.Point
	}{
		{"35 minutes older than its first alert", 22, 2, 2, minutes(60, since(35, noisy(2), noisy(20)))},
		{"20 minutes older", 22, 2, 2, minutes(60, since(20, noisy(2), noisy(20)))},
		{"30 minutes, rising and falling", 22, 2, 2, minutes(60, since(30, noisy(2), comes))},
		{"30 minutes, in a pool with bursts", 60, 1, 6, minutes(60, since(30, bursts, noisy(60)))},
		{"a fall half an hour ago", 1, 20, 20, minutes(60, since(30, noisy(20), noisy(1)))},
		{"a burst like earlier ones", 5.8, 1, 6, minutes(60, bursts)},
		{"a burst that is over", 2, 2, 2,
			minutes(60, since(30, noisy(2), func(i int) float64 { return map[bool]float64{true: 20, false: 2}[i < 40] }))},
	} {
		got := usualValue(&state.Sample{Value: c.value, Unit: "requests", Baseline: &c.was, Series: c.series}, now)
		if got == nil || math.Abs(*got-c.want) > 0.25*c.want {
			t.Errorf("%s: %v, want %g", c.name, *got, c.want)
		}
	}
}
