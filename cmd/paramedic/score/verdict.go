package score

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"paramedic/state"
)

// A TrialResult is the outcome of one trial.
type TrialResult struct {
	Kind    string   `json:"kind"`  // fault, decoy or double
	Fault   string   `json:"fault"` // the fault, the decoy, or the two faults
	Seed    uint64   `json:"seed"`
	Outcome string   `json:"outcome"` // right, unknown, silent, missed, or the wrong cause
	Misled  []string `json:"misled"`  // wrong causes that were named on the way
	Named   []naming `json:"named"`   // what every fault was called in the end
	False   []string `json:"false"`   // causes that were named in the end and are not there
	Harmful []string `json:"harmful"` // advice that was given and makes the fault worse
	// ToDiagnosis is the simulated time from the first alert to the last right verdict. It is zero
	// if one is missing.
	ToDiagnosis time.Duration     `json:"to_diagnosis_ns"`
	Alerts      int               `json:"alerts"`
	Incidents   int               `json:"incidents"` // not merged into others
	Pages       int               `json:"pages"`
	Alone       alertmanagerCount `json:"alertmanager_alone"`
	CalledDecoy string            `json:"called_decoy,omitempty"` // a decoy's incident: benign_alert or unknown

	trace string // every verdict, for people who look into a run
}

// Trace returns every verdict of the trial, with its sum.
func (p TrialResult) Trace() string { return p.trace }

// A naming is a fault with the name that it got.
type naming struct {
	Cause string `json:"cause"`
	As    string `json:"as"` // its own name, another's, unknown, silent (no alert fired), or missed (its alerts went to another's incident)
}

const (
	outcomeRight  = "right"
	outcomeSilent = "silent"
	outcomeMissed = "missed"
)

// about reports whether an incident concerns a pool. An incident without a place concerns every
// pool.
func (p *trialPool) about(in *state.Incident) bool {
	vague := true
	for _, s := range []state.Scope{in.Scope, in.Diagnosis.Scope} {
		if s.Pool == p.name {
			return true
		}
		for _, pod := range s.Pods {
			if strings.HasPrefix(pod, p.name+"-") {
				return true
			}
		}
		for _, n := range p.fleet.Nodes() {
			if slices.Contains(s.Nodes, n.Name) {
				return true
			}
		}
		vague = vague && s.Pool == "" && len(s.Pods) == 0 && len(s.Nodes) == 0
	}
	return vague
}

// truth returns the injected fault that an incident's verdict names, if the incident concerns its
// pool, else nil.
func (t *trial) truth(in *state.Incident) *truth {
	for _, x := range t.truths {
		if x.cause == string(in.Cause()) && x.pool.about(in) {
			return x
		}
	}
	return nil
}

// wrong reports whether a verdict is false. Unknown is never false, and benign_alert is not false
// for a decoy.
func (t *trial) wrong(in *state.Incident) bool {
	cause := in.Cause()
	return cause != state.Unknown && !(t.kind == kindDecoy && cause == state.BenignAlert) && t.truth(in) == nil
}

// look records the current verdict of every incident, and its harmful advice.
func (t *trial) look() {
	for _, in := range t.Board.Incidents() {
		if in.DiagnosedAt.IsZero() {
			continue
		}
		t.harm(&in)
		if t.verdicts[in.ID] == in.Cause() {
			continue
		}
		t.verdicts[in.ID] = in.Cause()
		fmt.Fprintf(&t.trace, "  %s #%d %s\n", t.At.Sub(t.pools[0].fleet.Start()), in.Number, traceOf(&in))
		if x := t.truth(&in); x != nil && x.at.IsZero() {
			x.at = t.At
		}
		if cause := string(in.Cause()); t.wrong(&in) && !slices.Contains(t.misled, cause) {
			t.misled = append(t.misled, cause)
		}
	}
}

// harm records the harmful advice that an open incident gives now. Advice for a fault is about its
// own worker, even beside another fault in the pool.
func (t *trial) harm(in *state.Incident) {
	if !in.Open() || t.truth(in) != nil {
		return
	}
	given := t.advice.Given(in, t.At)
	for _, x := range t.truths {
		if !x.pool.about(in) {
			continue
		}
		for _, line := range t.advice.Harmful(in.Cause(), given, x.cause) {
			if !slices.Contains(t.harmful, line) {
				t.harmful = append(t.harmful, line)
			}
		}
	}
}

func (t *trial) result() TrialResult {
	p := TrialResult{Kind: t.kind, Fault: t.name, Seed: t.seed, Alerts: t.Alerts, Misled: t.misled, Named: []naming{},
		False: []string{},
		Alone: t.alone.count}
	var left []state.Incident
	for _, in := range t.Board.Incidents() {
		if t.Paged[in.ID] {
			p.Pages++
		}
		fmt.Fprintf(&t.trace, "  end #%d %s\n", in.Number, traceOf(&in))
		if in.MergedInto == "" {
			p.Incidents++
			left = append(left, in)
		}
	}
	for i := range left {
		if t.wrong(&left[i]) {
			p.False = append(p.False, string(left[i].Cause()))
		} else if t.kind == kindDecoy && p.CalledDecoy != string(state.BenignAlert) {
			p.CalledDecoy = string(left[i].Cause())
		}
	}
	p.Outcome = outcomeRight
	for _, x := range t.truths {
		n := naming{Cause: x.cause, As: t.called(x, left)}
		p.Named = append(p.Named, n)
		if n.As != x.cause && p.Outcome == outcomeRight {
			p.Outcome = n.As
		}
		if !x.at.IsZero() {
			p.ToDiagnosis = max(p.ToDiagnosis, x.at.Sub(t.FirstAlert))
		}
	}
	if slices.ContainsFunc(t.truths, func(x *truth) bool { return x.at.IsZero() }) {
		p.ToDiagnosis = 0
	}
	if len(p.False) > 0 {
		p.Outcome = p.False[0]
	}
	slices.Sort(t.harmful)
	p.Harmful = t.harmful
	p.Misled = slices.DeleteFunc(p.Misled, func(cause string) bool { return cause == p.Outcome })
	p.trace = t.trace.String()
	return p
}

// called returns the name that a fault has at the end.
func (t *trial) called(x *truth, incidents []state.Incident) string {
	as := outcomeMissed
	if !x.pool.alerted {
		as = outcomeSilent
	}
	for i := range incidents {
		in := &incidents[i]
		switch {
		case !x.pool.about(in):
		case t.truth(in) == x:
			return x.cause
		case t.wrong(in):
			as = string(in.Cause())
		case in.Cause() == state.Unknown && as == outcomeMissed:
			as = string(state.Unknown)
		}
	}
	return as
}

// traceOf returns an incident's verdict with its sum.
func traceOf(in *state.Incident) string {
	var b strings.Builder
	d := in.Diagnosis
	merged := ""
	if in.MergedInto != "" {
		merged = " (merged)"
	}
	fmt.Fprintf(&b, "%s %+g dB, margin %g: %s%s [", d.Cause, d.Score, d.Margin, in.Title, merged)
	for _, s := range in.Symptoms {
		fmt.Fprintf(&b, " %s", s.Symptom)
	}
	fmt.Fprintf(&b, " ] prior %+g", d.Prior)
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "\n      %+5g  %s", f.Weight, f.Text)
	}
	for _, a := range d.Alternatives {
		fmt.Fprintf(&b, "\n      next: %s %+g dB; %s", a.Cause, a.Score, a.WouldWinIf)
	}
	return b.String()
}
