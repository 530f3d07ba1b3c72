package lab

import "slices"

// An H100's clock, and the heat at which its hardware holds the clock down: little by little from
// throttleFrom on, to the lowest clock at throttleFull.
const (
	fullClock    = 1980.0 // MHz
	lowestClock  = 345.0
	throttleFrom = 83.0 // °C
	throttleFull = 93.0
	clockWindow  = 300.0 // seconds over which the exporter counts clock events
)

// govern sets the clock by the temperature, and remembers the seconds in which heat held it down.
func (g *gpu) govern(now float64) {
	over := min(1, max(0, (g.temp-throttleFrom)/(throttleFull-throttleFrom)))
	g.clock = fullClock - over*(fullClock-lowestClock)
	g.slowed = slices.DeleteFunc(g.slowed, func(at float64) bool { return at < now-clockWindow })
	if n := len(g.slowed); over > 0 && (n == 0 || now-g.slowed[n-1] >= 1) {
		g.slowed = append(g.slowed, now)
	}
}

// pace is how many times as long as usual the worker's steps take. All ranks of a tensor-parallel
// group wait for each other in every layer, so that its slowest GPU paces it. A GPU whose clock is
// far down cannot keep its memory busy either: decoding, which is bound by memory, slows down with
// it.
func (w *worker) pace() float64 {
	slow := 1.0
	for _, g := range w.gpus {
		slow = max(slow, fullClock/g.clock)
	}
	return slow
}
