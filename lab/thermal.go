package lab

import "slices"

// An H100's clock. Its hardware lowers the clock from throttleFrom on, down to the lowest clock at
// throttleFull; the lab assumes a straight line between them.
const (
	fullClock    = 1980.0 // MHz
	lowestClock  = 345.0
	throttleFrom = 83.0 // °C
	throttleFull = 93.0
	clockWindow  = 300.0 // seconds over which the exporter counts clock events
)

// govern sets the clock by the temperature, and records the seconds of thermal throttling.
func (g *gpu) govern(now float64) {
	over := min(1, max(0, (g.temp-throttleFrom)/(throttleFull-throttleFrom)))
	g.clock = fullClock - over*(fullClock-lowestClock)
	g.slowed = slices.DeleteFunc(g.slowed, func(at float64) bool { return at < now-clockWindow })
	if n := len(g.slowed); over > 0 && (n == 0 || now-g.slowed[n-1] >= 1) {
		g.slowed = append(g.slowed, now)
	}
	g.limit(now)
}

// pace returns the factor by which a low clock slows the worker's steps. All ranks of a
// tensor-parallel group wait for each other in every layer, so the slowest GPU sets the pace. A GPU
// with a low clock does not use its full memory bandwidth, so decoding slows down, too.
func (w *worker) pace() float64 {
	slow := 1.0
	for _, g := range w.gpus {
		slow = max(slow, fullClock/g.clock)
	}
	return slow * max(1, w.Slow)
}
