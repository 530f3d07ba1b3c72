package rules

import (
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/correlate"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

// Rules judges alerts and evidence by a catalogue. It implements state.Triage.
type Rules struct{ Catalog *catalog.Catalog }

// Load returns the rules of the built-in catalogue with the user's files in dir over it. An empty
// dir means the built-in catalogue alone. The problems are those of the files; see [catalog.Load].
func Load(dir string) (Rules, []catalog.Problem, error) {
	c, problems, err := catalog.Load(dir)
	return Rules{Catalog: c}, problems, err
}

// Classify returns the symptom and the entity of an alert.
func (r Rules) Classify(a state.Alert, cluster string) state.Sign {
	return classify.Classify(r.Catalog, a, cluster)
}

// Correlate returns the open incident that a sign belongs to, or false if it needs a new one.
func (r Rules) Correlate(s state.Sign, workers []state.Worker, open []*state.Incident, now time.Time) (state.IncidentID,
	bool) {
	return correlate.Correlate(r.Catalog, s, workers, open, now)
}

// Diagnose returns the verdict that the evidence supports, or unknown.
func (r Rules) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	return diagnose.Diagnose(r.Catalog, in, ev, now)
}

// SplitOff returns the alerts of an incident that have another cause than its verdict names.
func (r Rules) SplitOff(in *state.Incident, firing func() []*state.AlertRecord, ev *state.Evidence) []*state.AlertRecord {
	return diagnose.SplitOff(r.Catalog, in, firing, ev)
}

// Absorbs reports whether all of the other incident is a consequence of the root's cause.
func (r Rules) Absorbs(root, other *state.Incident) bool {
	return correlate.Absorbs(r.Catalog, root, other)
}
