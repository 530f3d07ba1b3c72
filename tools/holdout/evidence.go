package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"paramedic/rules"
	"paramedic/rules/catalog"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

// A moment holds what a verdict was given from. Any catalogue can give its own from it.
type moment struct {
	At       time.Time       `json:"at"`
	Incident json.RawMessage `json:"incident"`
	Evidence *state.Evidence `json:"evidence"`
}

// pack returns the compressed moment, without charts that no rule reads.
func (m moment) pack() ([]byte, error) {
	if m.Evidence != nil {
		read := *m.Evidence
		read.Curves, read.Gone = nil, nil
		m.Evidence = &read
	}
	var out bytes.Buffer
	zip := gzip.NewWriter(&out)
	if err := json.NewEncoder(zip).Encode(m); err != nil {
		return nil, fmt.Errorf("packing a verdict: %w", err)
	}
	if err := zip.Close(); err != nil {
		return nil, fmt.Errorf("packing a verdict: %w", err)
	}
	return out.Bytes(), nil
}

// unpack returns the incident and the evidence of a packed moment.
func unpack(packed []byte) (*state.Incident, moment, error) {
	var m moment
	in := &state.Incident{}
	zip, err := gzip.NewReader(bytes.NewReader(packed))
	if err == nil {
		err = json.NewDecoder(zip).Decode(&m)
	}
	if err == nil {
		err = json.Unmarshal(m.Incident, in)
	}
	if err != nil {
		return nil, m, fmt.Errorf("unpacking a verdict: %w", err)
	}
	return in, m, nil
}

// A recorder is the bot's triage, and keeps the moment of every verdict.
type recorder struct {
	rules.Rules
	verdicts map[state.IncidentID][]recorded
	err      error
}

// A recorded is a verdict with its moment.
type recorded struct {
	moment
	cause state.Cause
	score float64
}

// Diagnose implements state.Triage.
func (r *recorder) Diagnose(in *state.Incident, ev *state.Evidence, now time.Time) state.Diagnosis {
	d := r.Rules.Diagnose(in, ev, now)
	raw, err := json.Marshal(in)
	if err != nil {
		r.err = fmt.Errorf("keeping a verdict: %w", err)
		return d
	}
	r.verdicts[in.ID] = append(r.verdicts[in.ID], recorded{moment{now, raw, ev}, d.Cause, d.Score})
	return d
}

// of returns the moment of the verdict that an incident has, or false if it has none.
func (r *recorder) of(in *state.Incident) (moment, bool) {
	d := in.Diagnosis
	for _, v := range r.verdicts[in.ID] {
		if v.At.Equal(d.At) && v.cause == d.Cause && v.score == d.Score {
			return v.moment, true
		}
	}
	return moment{}, false
}

// A sum is the score of one cause: how often each of its terms is added. The IDs of its own terms
// lack the cause. The prior is always added.
type sum struct {
	cause string
	terms map[string]int
}

// sumsOf returns the sums of an incident, and the weights of the terms without a cause.
func sumsOf(c *catalog.Catalog, in *state.Incident, ev *state.Evidence) ([]sum, map[string]float64) {
	var sums []sum
	shared := map[string]float64{}
	for _, s := range diagnose.Sums(c, in, ev) {
		own := sum{string(s.Cause), map[string]int{}}
		for _, t := range s.Terms[1:] {
			id, ofCause := strings.CutPrefix(t.ID, own.cause+"/")
			own.terms[id] = t.Count
			if !ofCause {
				shared[id] = t.Weight
			}
		}
		sums = append(sums, own)
	}
	return sums, shared
}
