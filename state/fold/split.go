package fold

import (
	"fmt"
	"slices"

	"paramedic/state"
	"paramedic/state/fold/packed"
)

// otherVerdicts returns the verdicts of the other open incidents that concern the incident's scope.
func (x *step) otherVerdicts(in *state.Incident) []state.Beside {
	var out []state.Beside
	for _, other := range x.nearby(in.Cluster, in.Scope) {
		known := slices.ContainsFunc(out, func(b state.Beside) bool { return b.Incident == other.ID })
		if known || other.ID == in.ID || !other.Open() || other.Cause() == state.Unknown ||
			other.Cause() == state.BenignAlert {
			continue
		}
		out = append(out, state.Beside{Incident: other.ID, Cause: other.Cause(), Scope: other.Diagnosis.Scope})
	}
	return out
}

// maxMoved bounds the alerts that move to another incident at once. A commit of more than 999
// records (jetstream.MaxRecords) is written twice, and each alert is a record.
const maxMoved = 400

// split opens an incident for another trouble among the incident's alerts, and moves its alerts
// there. The named trouble keeps the incident that people know.
func (x *step) split(in *state.Incident, ev state.Evidence) {
	if in.Cause() == state.Unknown || in.ActiveAlerts < 2 || in.Everywhere != "" {
		return
	}
	moved := x.splitOff(in, &ev)
	if len(moved) == 0 || len(moved) == in.ActiveAlerts || len(moved) > maxMoved {
		return
	}
	first := moved[0].Record()
	other := x.openIncident(&first)
	for _, rec := range moved {
		x.moveAlert(rec, in, other)
	}
	x.recountSymptoms(in)
	in.Scope = in.Diagnosis.Scope.FilledFrom(in.Scope)
	x.titlePools(in, false)
	x.updateStatus(other)
	x.record(other, state.Entry{Kind: "split", Quiet: true, Text: fmt.Sprintf("split off %s: %s", in.ID, in.Title)})
	x.diagnose(other, ev)
	other = x.root(other.ID) // it may have been merged into an incident of the same trouble
	x.record(in, state.Entry{Kind: "split",
		Text: fmt.Sprintf("%s (%s) is another problem: its alerts were moved there", other.ID, other.Title)})
	x.publish(in) // even if the next verdict is not applied
}

// splitOff returns the incident's firing alerts that are about another problem.
func (x *step) splitOff(in *state.Incident, ev *state.Evidence) []*packed.Alert {
	firing := func() (out []*state.AlertRecord) {
		for _, a := range x.alertsOf(in) {
			if a.Active() {
				rec := a.Record()
				out = append(out, &rec)
			}
		}
		return out
	}
	var out []*packed.Alert
	for _, rec := range x.Triage.SplitOff(in, firing, ev) {
		out = append(out, x.alerts.Get(rec.Alert.Fingerprint))
	}
	return out
}

// moveAlert takes a firing alert from one incident to another.
func (x *step) moveAlert(a *packed.Alert, from, to *state.Incident) {
	from.AlertCount--
	from.ActiveAlerts--
	if c := from.Symptom(a.Symptom()); c != nil {
		c.Alerts--
		c.Active--
	}
	x.alerts.Move(a, to.ID)
	x.touch(kindAlert, string(a.Fingerprint()))
	x.open.Add(to, x.alertKeys(a))
	rec := a.Record()
	x.count(to, &rec, false)
}

// recountSymptoms recomputes the incident's symptoms from the alerts that it still has.
func (x *step) recountSymptoms(in *state.Incident) {
	alerts := x.alertsOf(in)
	kept := make([]state.SymptomCount, 0, len(in.Symptoms))
	for _, was := range in.Symptoms {
		c := state.SymptomCount{Symptom: was.Symptom, Alerts: was.Alerts, Active: was.Active, Last: was.Last}
		for _, a := range alerts {
			if a.Symptom() == was.Symptom {
				rec := a.Record()
				c.Learn(&rec)
			}
		}
		if len(c.Entities) > 0 {
			kept = append(kept, c)
		}
	}
	in.Symptoms = kept
	x.changedIncident(in)
}
