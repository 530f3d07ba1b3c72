package casetest

import (
	"fmt"
	"slices"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/classify"
	"paramedic/rules/correlate"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

// A caseIncident is an incident of a case with its alerts.
type caseIncident struct {
	in     *state.Incident
	alerts []*state.AlertRecord
}

// incidentsOf assigns alerts to incidents as the fold does with those of the log: each joins an
// incident or opens one.
func incidentsOf(c *catalog.Catalog, alerts []alertJSON, workers []state.Worker) []*caseIncident {
	var out []*caseIncident
	var open []*state.Incident
	begin := begins(alerts)
	for i, a := range alerts {
		rec := &state.AlertRecord{Active: true,
			Alert: state.Alert{Fingerprint: state.Fingerprint(fmt.Sprint(i)), Status: state.Firing, Labels: a.Labels,
				Annotations: a.Annotations, GeneratorURL: a.GeneratorURL, StartsAt: begin[i]}}
		rec.Sign = classify.Classify(c, rec.Alert, "test")
		id, ok := correlate.Correlate(c, rec.Sign, workers, open, begin[i])
		n := slices.IndexFunc(open, func(in *state.Incident) bool { return in.ID == id })
		if !ok {
			n = len(open)
			out = append(out, newTrouble(n+1, begin[i]))
			open = append(open, out[n].in)
		}
		out[n].take(rec)
	}
	return out
}

func newTrouble(number int, at time.Time) *caseIncident {
	return &caseIncident{in: &state.Incident{
		ID: state.IncidentID(fmt.Sprintf("INC-%d", number)), Number: number, Cluster: "test", Status: state.StatusOpen,
		StartedAt: at, OpenedAt: at, Scope: state.Scope{Cluster: "test"},
	}}
}

func (t *caseIncident) firing() []*state.AlertRecord { return t.alerts }

func (t *caseIncident) take(rec *state.AlertRecord) {
	t.alerts = append(t.alerts, rec)
	t.in.Count(rec, false, rec.Alert.StartsAt)
}

// judge diagnoses an incident, given the verdicts of the others. It moves a second problem in it to
// an incident of its own, which is diagnosed after it.
func (k *caseRun) judge(t *caseIncident) {
	k.diagnose(t)
	moved := diagnose.SplitOff(k.cat, t.in, t.firing, &k.ev)
	if len(moved) == 0 {
		return
	}
	other, rest := newTrouble(len(k.troubles)+1, moved[0].Alert.StartsAt), newTrouble(t.in.Number, t.in.StartedAt)
	for _, rec := range t.alerts {
		if slices.Contains(moved, rec) {
			other.take(rec)
		} else {
			rest.take(rec)
		}
	}
	k.diagnose(other)
	k.troubles = append(k.troubles, other)
	*t = *rest
	k.judge(t)
}

func (k *caseRun) diagnose(t *caseIncident) {
	k.ev.Beside = nil
	for _, o := range k.troubles {
		if d := o.in.Diagnosis; o.in.ID != t.in.ID && o.in.Cause() != state.Unknown &&
			o.in.Cause() != state.BenignAlert {
			k.ev.Beside = append(k.ev.Beside, state.Beside{Incident: o.in.ID, Cause: d.Cause, Scope: d.Scope})
		}
	}
	t.in.Diagnosis = diagnose.Diagnose(k.cat, t.in, &k.ev, caseTime)
	t.in.Title = t.in.Diagnosis.Title
}
