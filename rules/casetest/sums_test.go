package casetest

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"paramedic/rules/catalog"
	"paramedic/rules/condition"
	"paramedic/rules/diagnose"
	"paramedic/rules/rulestest"
)

func TestDiagnosisIsDeterministic(t *testing.T) {
	c := rulestest.MustLoad(t)
	in, ev := rulestest.Fleet(c, 16)
	want, err := json.Marshal(diagnose.Diagnose(c, in, ev, rulestest.Now))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		// A new catalogue has maps with another iteration order.
		got, err := json.Marshal(diagnose.Diagnose(rulestest.MustLoad(t), in, ev, rulestest.Now))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestFindingsAddUpToTheScore(t *testing.T) {
	c := rulestest.MustLoad(t)
	results, err := RunCases(c, "testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	defer func() { // of the booleans "ready", a sum counts
		if want := "The gateway sees no endpoint, though workers are ready (4)"; !slices.Contains(counted, want) {
			t.Errorf("%q, want %q", counted, want)
		}
	}()
	for _, r := range results {
		for _, in := range r.Incidents {
			d := in.Diagnosis
			sum := d.Prior
			for _, f := range d.Findings {
				sum += f.Weight
				if strings.Contains(f.Text, "sees no endpoint") {
					counted = append(counted, f.Text)
				}
			}
			if condition.Round(sum, 2) != d.Score {
				t.Errorf("%s: findings add up to %g, the score is %g", r.Name, sum, d.Score)
			}
			if d.Title == "" || d.Story.What == "" || d.Story.Why == "" || len(d.Story.Do) == 0 || d.Confidence < 0 || d.Confidence > 1 {
				t.Errorf("%s: not a whole diagnosis: %+v", r.Name, d)
			}
			for _, finding := range append([]string{d.Title, d.Story.What, d.Story.Why, d.Story.Else}, d.Story.Do...) {
				if catalog.PlaceholderForm.MatchString(finding) {
					t.Errorf("%s: a placeholder is left in %q", r.Name, finding)
				}
			}
		}
	}
}
