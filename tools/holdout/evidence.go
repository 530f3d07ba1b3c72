package main

import (
	"strings"
	"time"

	"paramedic/rules"
	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

// A sum is the score of one cause: how often each of its terms was added. The IDs of its own terms
// lack the cause. The prior is always added.
type sum struct {
	Cause string         `json:"cause"`
	Terms map[string]int `json:"terms,omitempty"`
}

// A recorder is the bot's triage, and keeps the sums of every verdict.
type recorder struct {
	rules.Rules
	verdicts map[state.IncidentID][]recorded
}

// A recorded is a verdict with the sums that it came from.
type recorded struct {
	at     time.Time
	cause  state.Cause
	score  float64
	sums   []sum
	shared map[string]float64
}

// Diagnose implements state.Triage.
func (r *recorder) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	d := r.Rules.Diagnose(in, ev, now)
	v := recorded{at: now, cause: d.Cause, score: d.Score}
	v.sums, v.shared = sumsOf(r.Catalog, in, ev)
	r.verdicts[in.ID] = append(r.verdicts[in.ID], v)
	return d
}

// sumsOf returns the sums of an incident, and the weights of the terms without a cause.
func sumsOf(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) ([]sum, map[string]float64) {
	var sums []sum
	shared := map[string]float64{}
	for _, s := range diagnose.Sums(c, in, ev) {
		own := sum{Cause: string(s.Cause), Terms: map[string]int{}}
		for _, t := range s.Terms[1:] {
			id, ofCause := strings.CutPrefix(t.ID, own.Cause+"/")
			own.Terms[id] = t.Count
			if !ofCause {
				shared[id] = t.Weight
			}
		}
		sums = append(sums, own)
	}
	return sums, shared
}

// of returns the record of the verdict that an incident has, or false if it has none.
func (r *recorder) of(in *state.Incident) (recorded, bool) {
	d := in.Diagnosis
	for _, v := range r.verdicts[in.ID] {
		if v.at.Equal(d.At) && v.cause == d.Cause && v.score == d.Score {
			return v, true
		}
	}
	return recorded{}, false
}
