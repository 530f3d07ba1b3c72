package fold

import (
	"fmt"
	"slices"

	"paramedic/state"
)

// beside are the verdicts of the other open incidents that concern what the incident does.
func (x *step) beside(in *state.Incident) []state.Beside {
	var out []state.Beside
	for _, other := range x.around(in.Cluster, in.Scope) {
		known := slices.ContainsFunc(out, func(b state.Beside) bool { return b.Incident == other.ID })
		if known || other.ID == in.ID || !other.Open() || other.Cause() == state.Unknown || other.Cause() == state.BenignAlert {
			continue
		}
		out = append(out, state.Beside{Incident: other.ID, Cause: other.Cause(), Scope: other.Diagnosis.Scope})
	}
	return out
}

// mostMoved bounds how many alerts go to another incident at once: more than 999 records
// (jetstream.MaxRecords) are written twice, and each alert is one.
const mostMoved = 400

// splitOff gives a trouble that came into the incident of another an incident of its own, with the
// alerts that tell of it. The one that is named keeps the incident that people know.
func (x *step) splitOff(in *state.Incident, ev state.Evidence) {
	if in.Cause() == state.Unknown || in.ActiveAlerts < 2 || in.Everywhere != "" {
		return
	}
	moved := x.Triage.Aside(in, x.firing(in), &ev)
	if len(moved) == 0 || len(moved) == in.ActiveAlerts || len(moved) > mostMoved {
		return
	}
	other := x.openIncident(moved[0])
	for _, rec := range moved {
		x.move(rec, in, other)
	}
	x.recount(in)
	in.Scope = mergeScope(in.Diagnosis.Scope, in.Scope)
	x.settle(other)
	x.record(other, state.Entry{Kind: "split", Quiet: true, Text: fmt.Sprintf("split off %s: %s", in.ID, in.Title)})
	x.judge(other, ev)
	other = x.home(other.ID) // where the same trouble had an incident already, that one
	x.record(in, state.Entry{Kind: "split", Text: fmt.Sprintf("%s (%s) is another trouble and has the alerts that tell of it", other.ID, other.Title)})
	x.show(in) // whatever becomes of the next verdict
}

// move takes a firing alert from one incident to another.
func (x *step) move(rec *state.AlertRecord, from, to *state.Incident) {
	from.AlertCount--
	from.ActiveAlerts--
	if c := from.Symptom(rec.Sign.Symptom); c != nil {
		c.Alerts--
		c.Active--
	}
	delete(x.held[rec.Incident], rec.Alert.Fingerprint)
	rec.Incident = to.ID
	x.hold(rec)
	x.touch(kindAlert, string(rec.Alert.Fingerprint))
	x.index(to, x.signKeys(rec))
	x.count(to, rec, false)
}

// recount makes what is known of an incident's symptoms what the alerts tell that it still has.
func (x *step) recount(in *state.Incident) {
	alerts := x.AlertsOf(in)
	kept := make([]state.SymptomCount, 0, len(in.Symptoms))
	for _, was := range in.Symptoms {
		c := state.SymptomCount{Symptom: was.Symptom, Alerts: was.Alerts, Active: was.Active, Last: was.Last}
		for _, rec := range alerts {
			if rec.Sign.Symptom == was.Symptom {
				c.Learn(rec)
			}
		}
		if len(c.Entities) > 0 {
			kept = append(kept, c)
		}
	}
	in.Symptoms = kept
	x.changedIncident(in)
}

// firing are those of an incident's alerts that fire.
func (b *Board) firing(in *state.Incident) []*state.AlertRecord {
	return slices.DeleteFunc(b.AlertsOf(in), func(rec *state.AlertRecord) bool { return !rec.Active })
}
