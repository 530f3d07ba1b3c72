package casetest

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"paramedic/rules/catalog"
	"paramedic/rules/correlate"
	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// HolmesGPT, pull request 2477: it asserted chains of cause and effect without evidence. Here a
// verdict cites only measured signals and the content of its alerts. Without evidence it names a
// cause only if its alerts are typical of that cause. Of two unconnected problems, neither is a
// consequence of the other.
func TestHolmes2477NoChainWithoutEvidence(t *testing.T) {
	c := rulestest.MustLoad(t)
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	verdicts := 0
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		k := caseRun{cat: c, dir: filepath.Dir(file), result: &CaseResult{}, short: map[string]state.Worker{}}
		k.run(ar) // cases with recorded pages have no incidents here
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		read := map[string]bool{}
		for _, s := range k.ev.Samples {
			read[s.Signal] = true
		}
		for _, in := range k.result.Incidents {
			if in.Cause() != state.Unknown {
				verdicts++
			}
			shows := map[string]bool{}
			for _, s := range in.Symptoms {
				shows["symptom:"+string(s.Symptom)] = true
			}
			for _, f := range in.Diagnosis.Findings {
				if !read[f.Signal] && !shows[f.Signal] && !citesAlert(f) {
					t.Errorf("%s: %s is said to have %q, of %s, which nothing showed", name, in.Cause(), f.Text, f.Signal)
				}
			}
			d := diagnose.Diagnose(c, in, &state.Evidence{At: rulestest.Now, Workers: k.ev.Workers}, rulestest.Now)
			for _, f := range d.Findings {
				if !shows[f.Signal] && !citesAlert(f) {
					t.Errorf("%s, with nothing read: %s is said to have %q", name, d.Cause, f.Text)
				}
			}
			for _, s := range in.Symptoms {
				if cause, known := c.Cause(d.Cause); known && s.Symptom != state.Unclassified && cause.Explains[s.Symptom] <= 0 {
					t.Errorf("%s, with nothing read: %s, of which %s is no sign", name, d.Cause, s.Symptom)
				}
			}
		}
	}
	if verdicts < 50 {
		t.Errorf("only %d verdicts were looked at", verdicts)
	}

	at := func(cause *catalog.Cause, n int) *state.Incident {
		sc := state.Scope{Namespace: "llm", Pool: fmt.Sprint("pool-", n), Model: fmt.Sprint("model-", n),
			Pods: []string{fmt.Sprint("pod-", n)}, Nodes: []string{fmt.Sprint("node-", n)}}
		in := &state.Incident{ID: state.IncidentID(fmt.Sprint("INC-", cause.ID, n)), Status: state.StatusOpen,
			OpenedAt: rulestest.Now.Add(time.Duration(n) * time.Minute), Scope: sc}
		in.Diagnosis = state.Diagnosis{Cause: cause.ID, Scope: sc}
		for s := range cause.Explains {
			in.Diagnosis.Explains = append(in.Diagnosis.Explains, s)
		}
		in.Symptoms = []state.SymptomCount{{Symptom: "ttft_high"}}
		return in
	}
	chains := 0
	for _, a := range c.Causes() {
		for _, b := range c.Causes() {
			oneGateway := a == b && a.ID.IsShared() // or one scraper
			if correlate.Absorbs(c, at(a, 1), at(b, 2)) && !oneGateway {
				t.Errorf("%s is taken to lead to %s in another pool, on another machine, of another model", a.ID, b.ID)
			}
			near := at(b, 1)
			near.ID, near.OpenedAt = "INC-near", rulestest.Now.Add(time.Hour)
			if a != b && correlate.Absorbs(c, at(a, 1), near) {
				chains++
			}
		}
	}
	if chains == 0 {
		t.Error("no cause leads to another anywhere: this proves nothing")
	}
}

// citesAlert reports whether a finding cites an alert, or what its rule reads.
func citesAlert(f state.Finding) bool {
	lower := strings.ToLower(f.Text)
	return f.Signal == "symptoms" || strings.Contains(lower, "alert") || strings.Contains(lower, "rule ")
}
