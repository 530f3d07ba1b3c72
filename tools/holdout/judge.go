package main

import (
	"fmt"
	"slices"
	"strings"

	"paramedic/state"
)

// judge counts what the incidents are called at the end.
func (r *run) judge(res *result) {
	res.Alerts = r.Alerts
	var b strings.Builder
	res.Outcome = "silent"
	if res.Decoy {
		res.Outcome = "right"
	}
	for _, in := range r.Board.Incidents() {
		res.Paged = res.Paged || r.Paged[in.ID]
		if in.MergedInto != "" {
			continue
		}
		res.Incidents++
		describe(&b, &in)
		cause := string(in.Cause())
		about := r.about(&in)
		switch {
		case cause == string(state.Unknown):
			if res.Outcome == "silent" {
				res.Outcome, res.Confidence = "unknown", in.Diagnosis.Confidence
			}
			if len(in.Diagnosis.Alternatives) > 0 && res.Likely == "" {
				res.Likely = string(in.Diagnosis.Alternatives[0].Cause)
			}
		case cause == res.Fault && about:
			if len(res.Wrong) == 0 {
				res.Outcome, res.Confidence = "right", in.Diagnosis.Confidence
			}
		case res.Decoy && cause == string(state.BenignAlert):
		default:
			res.Wrong = append(res.Wrong, cause)
			res.Outcome, res.Confidence = cause, in.Diagnosis.Confidence
		}
	}
	res.trace = b.String()
}

// about reports whether an incident names the faulty fleet, or no place at all.
func (r *run) about(in *state.Incident) bool {
	if r.world.neighbour == nil {
		return true
	}
	other := r.world.neighbour.Config()
	s := in.Diagnosis.Scope
	return s.Pool != other.Pool && s.Model != other.Model &&
		!slices.ContainsFunc(s.Pods, func(pod string) bool { return strings.HasPrefix(pod, other.Pool+"-") })
}

func describe(b *strings.Builder, in *state.Incident) {
	d := in.Diagnosis
	fmt.Fprintf(b, "  #%d %s %+g dB (%.2f), impact %s: %s pool=%q pods=%d [", in.Number, in.Cause(), d.Score, d.Confidence, d.Impact,
		in.Title, in.Scope.Pool, len(in.Scope.Pods))
	for _, s := range in.Symptoms {
		fmt.Fprintf(b, " %s(%s)", s.Symptom, strings.Join(s.Rules, ","))
	}
	b.WriteString(" ]\n")
	for _, f := range d.Findings {
		fmt.Fprintf(b, "      %+5g  %s\n", f.Weight, f.Text)
	}
	for _, a := range d.Alternatives {
		fmt.Fprintf(b, "      next: %s %+g dB; %s\n", a.Cause, a.Score, a.WouldWinIf)
	}
	fmt.Fprintf(b, "      why: %s\n", d.Story.Why)
}
