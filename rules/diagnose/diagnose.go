package diagnose

import (
	"time"

	"paramedic/rules/bottleneck"
	"paramedic/rules/catalog"
	"paramedic/state"
)

// Diagnose weighs every cause and names the best one, or returns unknown if none stands out. The
// result always has a title, a scope and a story.
func Diagnose(c *catalog.Catalog, in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	best := bestVerdict(c, in, ev)
	defer best.release()
	d := diagnosis(c, in, ev, best, now)
	d.Impact = impact(c, in, ev)
	if d.Cause != in.Cause() {
		d.Doubts = doubts(c, in, best, now)
	}
	d.Story.Time = bottleneck.WhereTimeGoes(in, best.view)
	return d
}

// Name returns the cause that Diagnose names, without its text and its impact.
func Name(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) state.Cause {
	best := bestVerdict(c, in, ev)
	defer best.release()
	return best.name()
}
