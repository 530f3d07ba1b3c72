package rules_test

import (
	"testing"
	"time"

	"paramedic/rules"
	"paramedic/state"
)

var _ state.Triage = rules.Rules{}

func TestLoadedRulesJudgeAnAlert(t *testing.T) {
	r, problems, err := rules.Load("")
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	sign := r.Classify(state.Alert{Labels: map[string]string{"alertname": "VLLMHighTTFT"}}, "default")
	if sign.Symptom != "ttft_high" {
		t.Errorf("the alert means %s", sign.Symptom)
	}
	if _, joins := r.Correlate(sign, nil, nil, time.Unix(0, 0)); joins {
		t.Error("it joins an incident though none is open")
	}
	if d := r.Diagnose(&state.Incident{}, nil, time.Unix(0, 0)); d.Cause != state.Unknown {
		t.Errorf("without evidence the cause is %s", d.Cause)
	}
}

func TestMissingDirectoryIsAnError(t *testing.T) {
	if _, _, err := rules.Load(t.TempDir() + "/none"); err == nil {
		t.Error("no error")
	}
}
