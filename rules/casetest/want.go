package casetest

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"paramedic/rules/condition"
	"paramedic/rules/diagnose"
	"paramedic/state"
)

// want checks the lines of the expected results.
func (k *caseRun) want(wanted []wantLine) {
	var in *state.Incident
	if len(k.result.Incidents) > 0 {
		in = k.result.Incidents[0]
	}
	incidents, told := 1, false
	for _, l := range wanted {
		switch l.words[0] {
		case "incidents":
			incidents, _ = strconv.Atoi(l.words[1])
		case "incident":
			n, _ := strconv.Atoi(l.words[1])
			k.cause = ""
			if in, told = nil, n < 1 || n > len(k.result.Incidents); told {
				k.fail("want:%d: the case has %d incidents, and none has number %d", l.n, len(k.result.Incidents), n)
				continue
			}
			in = k.result.Incidents[n-1]
		default:
			switch {
			case in != nil:
				k.check(in, l.words)
			case !told: // report it only once
				told = true
				k.fail("want:%d: the case has no incident", l.n)
			}
		}
	}
	if len(k.result.Incidents) != incidents {
		k.fail("%d incidents, want %d", len(k.result.Incidents), incidents)
	}
}

func (k *caseRun) fail(format string, args ...any) {
	k.result.Failures = append(k.result.Failures, fmt.Sprintf(format, args...))
}

// check checks one line that [caseRun.wanted] has accepted.
func (k *caseRun) check(in *state.Incident, f []string) {
	d := in.Diagnosis
	switch f[0] {
	case "cause":
		k.result.Want, k.cause = append(k.result.Want, f[1]), f[1]
		if string(d.Cause) != f[1] {
			k.fail("cause %s (score %g, margin %g), want %s; %s", d.Cause, d.Score, d.Margin, f[1], sumOf(d))
		}
	case "min_confidence":
		x, _ := strconv.ParseFloat(f[1], 64)
		if d.Confidence < x {
			k.fail("confidence %g, want at least %g; %s", d.Confidence, x, sumOf(d))
		}
	case "impact":
		if string(d.Impact) != f[1] {
			k.fail("impact %s, want %s", d.Impact, f[1])
		}
	case "pods":
		var want []string
		for _, s := range f[1:] {
			want = append(want, k.short[s].Pod)
		}
		k.same("pods", d.Scope.Pods, want)
	case "nodes":
		k.same("nodes", d.Scope.Nodes, f[1:])
	case "gpus":
		k.same("gpus", d.Scope.GPUs, f[1:])
	case "title":
		if want := strings.Join(f[1:], " "); !strings.Contains(d.Title, want) {
			k.fail("title %q, want %q", d.Title, want)
		}
	default:
		k.checkCauses(in, f)
	}
}

// checkCauses checks one line about symptoms, signals and other causes.
func (k *caseRun) checkCauses(in *state.Incident, f []string) {
	d := in.Diagnosis
	switch f[0] {
	case "symptoms":
		for _, s := range f[1:] {
			if !slices.ContainsFunc(in.Symptoms, func(c state.SymptomCount) bool { return string(c.Symptom) == s }) {
				k.fail("no symptom %s", s)
			}
		}
	case "not":
		for _, id := range f[1:] {
			k.not(d, id)
		}
	case "looks_like":
		k.looksLike(in, f[1:])
	case "likely":
		if d.Likely == nil || string(d.Likely.Cause) != f[1] {
			k.fail("likely %+v, want %s; %s", d.Likely, f[1], sumOf(d))
		}
	case "waits_for":
		for _, id := range f[1:] {
			if !slices.ContainsFunc(d.Story.Cautions, func(c state.Caution) bool { return string(c.Cause) == id }) {
				k.fail("no step waits until %s is ruled out: %+v", id, d.Story.Cautions)
			}
		}
	case "missing":
		for _, s := range f[1:] {
			if !slices.ContainsFunc(d.Missing, func(m string) bool { return m == s || strings.HasPrefix(m, s+" ") }) {
				k.fail("%s is not listed as missing: %v", s, d.Missing)
			}
		}
	case "chain":
		k.chain(d.Chain, f[1:])
	}
}

// not checks that a cause is not named and has at most half of the winner's confidence. For an
// unknown winner it uses one minus the confidence of the leading candidate.
func (k *caseRun) not(d state.Diagnosis, id string) {
	winner := d.Confidence
	if d.Cause == state.Unknown && len(d.Alternatives) > 0 {
		winner = 1 - d.Alternatives[0].Confidence
	}
	for _, a := range d.Alternatives {
		if string(a.Cause) == id && a.Confidence > winner/2 {
			k.fail("%s has confidence %g against %g", id, a.Confidence, winner)
		}
	}
	if string(d.Cause) == id {
		k.fail("the cause is %s, and must not be", id)
	}
}

// looksLike checks that obvious but wrong causes are not named. The weights for each must reach the
// margin: a case that does not resemble a cause does not prove that both are distinguished.
func (k *caseRun) looksLike(in *state.Incident, ids []string) {
	supports := diagnose.Supports(k.cat, in, &k.ev)
	for _, id := range ids {
		switch s := supports[state.Cause(id)]; {
		case s.Alerts == 0:
			k.fail("the case does not look like %s: no alert is a sign of it", id)
		case s.All < diagnose.Margin:
			k.fail("the case does not look like %s: alerts and evidence support it with only %g dB, and %d is the minimum",
				id, condition.Round(s.All, 2), diagnose.Margin)
		}
		k.not(in.Diagnosis, id)
		k.result.ToldApart = append(k.result.ToldApart, ToldApart{Cause: k.cause, From: id})
	}
}

// chain checks the signals of a chain, in their order.
func (k *caseRun) chain(links []state.Link, want []string) {
	var got []string
	for _, l := range links {
		got = append(got, l.Signal)
	}
	if !slices.Equal(got, want) {
		k.fail("chain %v, want %v", got, want)
	}
}

func (k *caseRun) same(what string, got, want []string) {
	got, want = slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want))
	if !slices.Equal(got, want) {
		k.fail("%s %v, want %v", what, got, want)
	}
}

// sumOf formats the findings and the alternatives of a failed case.
func sumOf(d state.Diagnosis) string {
	var b strings.Builder
	fmt.Fprintf(&b, "prior %+g", d.Prior)
	for _, f := range d.Findings {
		fmt.Fprintf(&b, "\n    %+5g  %s", f.Weight, f.Text)
	}
	for _, a := range d.Alternatives {
		fmt.Fprintf(&b, "\n    next: %s %+g dB", a.Cause, a.Score)
	}
	return b.String()
}
