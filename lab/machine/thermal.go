package machine

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
func (g *GPU) govern(now float64) {
	over := min(1, max(0, (g.temp-throttleFrom)/(throttleFull-throttleFrom)))
	g.clock = fullClock - over*(fullClock-lowestClock)
	g.slowed = slices.DeleteFunc(g.slowed, func(at float64) bool { return at < now-clockWindow })
	if n := len(g.slowed); over > 0 && (n == 0 || now-g.slowed[n-1] >= 1) {
		g.slowed = append(g.slowed, now)
	}
	g.limit(now)
}

// limit lowers the clock to the GPU's limit, and records the seconds of a brake.
func (g *GPU) limit(now float64) {
	if g.Clock == 0 || g.clock <= g.Clock {
		return
	}
	g.clock = g.Clock
	if n := len(g.slowed); g.Brake && (n == 0 || now-g.slowed[n-1] >= 1) {
		g.slowed = append(g.slowed, now)
	}
}

// Slowdown returns the factor by which a low clock slows a step, 1 at the full clock. A GPU with a
// low clock does not use its full memory bandwidth, so decoding slows down, too.
func (g *GPU) Slowdown() float64 { return fullClock / g.clock }
