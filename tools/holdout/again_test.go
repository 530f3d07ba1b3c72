package main

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/rules/casetest"
)

// againOf prints what today's catalogue makes of a written case that was kept with other verdicts.
func againOf(t *testing.T, kept []result, args ...string) string {
	t.Helper()
	k, err := learn("")
	if err != nil {
		t.Fatal(err)
	}
	all, err := casetest.RunCases(k.catalog, writtenCases)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "runs.jsonl")
	for i := range all {
		c := &all[i]
		if !strings.HasSuffix(c.File, "kv_leak_idle_blocks.txtar") {
			continue
		}
		in, err := json.Marshal(c.Incidents[0])
		if err != nil {
			t.Fatal(err)
		}
		packed, err := moment{c.Incidents[0].Diagnosis.At, in, &c.Evidence}.pack()
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range kept {
			r.Moment = packed
			if err := keep(file, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	var out bytes.Buffer
	if err := againCommand(context.Background(), append(args, "-runs", file), &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestAgainPrintsWhatChanged(t *testing.T) {
	out := againOf(t, []result{
		{Seed: 1, Fault: "kv_leak", Outcome: "unknown", Incidents: 1},
		{Seed: 2, Fault: "kv_leak", Outcome: "right", Incidents: 1},
		{Seed: 3, Fault: "kv_exhaustion", Outcome: "right", Incidents: 1},
		{Seed: 4, Fault: "kv_leak", Outcome: "unknown", Incidents: 2},
	})
	for _, want := range []string{"seed 1: kv_leak was called unknown, and is called right\n",
		"seed 3: kv_exhaustion was called right, and is called kv_leak\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	for _, seed := range []string{"seed 2:", "seed 4:"} { // unchanged, and with two incidents
		if strings.Contains(out, seed) {
			t.Errorf("%s is printed:\n%s", seed, out)
		}
	}
}

func TestAgainPrintsEvidenceOfASeed(t *testing.T) {
	out := againOf(t, []result{{Seed: 1, Fault: "kv_exhaustion", Incidents: 1}, {Seed: 2, Fault: "kv_leak", Incidents: 1}}, "-seed", "2")
	for _, want := range []string{"open kv_leak", "kv_idle_usage", "kv_leak adds evidence/"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if strings.Contains(out, "kv_exhaustion adds") || strings.Contains(out, "right%") {
		t.Errorf("more than the incident is printed:\n%s", out)
	}
}
