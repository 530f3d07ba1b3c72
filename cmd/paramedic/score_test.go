package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
)

// Every fault of the lab is called by its name, and by no other name on the way, in one incident, from webhooks and pages alone.
func TestEveryFaultOfTheLabIsDiagnosed(t *testing.T) {
	seeds := []uint64{8, 21}
	if testing.Short() {
		seeds = seeds[:1]
	}
	for _, fault := range lab.Faults() {
		t.Run(fault, func(t *testing.T) {
			for _, seed := range seeds {
				run, err := newTrial(fault, seed)
				if err != nil {
					t.Fatal(err)
				}
				run.length, run.enough = 15*time.Minute, 2*time.Minute
				p, err := run.play(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if p.Outcome != "right" || len(p.Misled) > 0 || p.Incidents != 1 || p.ToDiagnosis > 5*time.Minute {
					t.Errorf("seed %d: %s after %s, %d incidents, on the way %v\n%s", seed, p.Outcome, p.ToDiagnosis, p.Incidents, p.Misled, p.trace)
				}
				if quiet := fault == lab.BenignAlert; quiet && p.Pages > 0 {
					t.Errorf("seed %d: %d pages for a benign alert", seed, p.Pages)
				}
			}
		})
	}
}

func TestScoresCountWhatRunsCameTo(t *testing.T) {
	scores := sumScores([]string{"kv_leak"}, []played{
		{Fault: "kv_leak", Outcome: "right", ToDiagnosis: time.Minute, Alerts: 3, Incidents: 1, Pages: 1},
		{Fault: "kv_leak", Outcome: "right", ToDiagnosis: 3 * time.Minute, Misled: []string{"benign_alert"}, Alerts: 1, Incidents: 2},
		{Fault: "kv_leak", Outcome: "kv_exhaustion", Alerts: 1, Incidents: 1},
		{Fault: "kv_leak", Outcome: "unknown", Alerts: 1, Incidents: 1},
		{Fault: "kv_leak", Outcome: "silent"},
		{Fault: "gpu_fault", Outcome: "right"},
	})
	var b bytes.Buffer
	printScores(&b, scores)
	got := strings.Join(strings.Fields(strings.Split(b.String(), "\n")[1]), " ")
	if want := "kv_leak 2/5 1 1 1 kv_exhaustion 1 benign_alert 120 s 3/5 1.0 0.2"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestLabScoreInJSON(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(context.Background(), []string{"lab", "score", "--seeds", "1", "--first", "3", "--faults", "engine_hang", "-o", "json"}, &out, &errs); code != exitOK {
		t.Fatalf("exit %d: %s", code, errs.String())
	}
	var got struct {
		Faults []faultScore `json:"faults"`
	}
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Faults) != 1 || got.Faults[0].Right != 1 || got.Faults[0].SecondsToDiagnosis == nil {
		t.Errorf("%+v", got.Faults)
	}
	for _, bad := range [][]string{{"--seeds", "0"}, {"--faults", "nonsense"}} {
		if code := run(context.Background(), append([]string{"lab", "score"}, bad...), &out, &errs); code != exitError {
			t.Errorf("%v: exit %d", bad, code)
		}
	}
}
