package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestGroupsLeaveOutEveryValue(t *testing.T) {
	times := map[string]int{}
	for _, left := range groups() {
		for name, value := range left {
			times[name+"="+value]++
		}
	}
	for _, d := range dimensions {
		for _, v := range d.values {
			if times[d.name+"="+v] == 0 {
				t.Errorf("no group leaves out %s=%s", d.name, v)
			}
		}
	}
}

// Training runs have no left-out value. Of the test runs half have it, for each dimension.
func TestLeftOutValuesAreTestedOnly(t *testing.T) {
	for g, left := range groups() {
		const n = 1000
		seen := map[string]int{}
		for seed := range uint64(n) {
			train, test := left.drawAround(seed, 0), left.drawAround(seed, 0.5)
			for _, d := range dimensions {
				if train[d.name] == left[d.name] {
					t.Fatalf("group %d: a training run has %s=%s", g, d.name, left[d.name])
				}
				if test[d.name] == left[d.name] {
					seen[d.name]++
				}
			}
		}
		for _, d := range dimensions {
			if seen[d.name] < n*4/10 || seen[d.name] > n*6/10 {
				t.Errorf("group %d: %d of %d test runs have %s=%s", g, seen[d.name], n, d.name, left[d.name])
			}
		}
	}
}

// An interrupted phase continues: it plays no run again, and drops a line that was cut.
func TestPhaseContinues(t *testing.T) {
	dir := t.TempDir()
	l, file := leaveOut{dir: dir, out: &bytes.Buffer{}}, filepath.Join(dir, "train-0.jsonl")
	for seed := range uint64(3) {
		if err := keep(file, result{Seed: seed, Outcome: "right"}); err != nil {
			t.Fatal(err)
		}
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(raw, `{"seed":9,"fau`...), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := l.phase(context.Background(), nil, "train-0", 0, 3, groups()[0], 0)
	if err != nil || len(got) != 3 || got[2].Seed != 2 {
		t.Errorf("%v: %+v", err, got)
	}
}

func TestFolderKeepsItsPlan(t *testing.T) {
	l := leaveOut{dir: t.TempDir(), plan: plan{Train: 10, Test: 5, First: 1}}
	for range 2 {
		if err := l.settle(); err != nil {
			t.Fatal(err)
		}
	}
	l.plan.Train = 11
	if err := l.settle(); err == nil {
		t.Error("no error for another plan in the same folder")
	}
}

func TestCalibrationErrorIsTheMeanDistance(t *testing.T) {
	r := result{Verdicts: []named{{"a", 0.92, true}, {"a", 0.92, false}, {"a", 0.55, true}, {"a", 1, true}}}
	list, off := calibrated([]result{r})
	want := (math.Abs(2*0.92-1) + math.Abs(0.55-1)) / 4
	if math.Abs(off-want) > 1e-9 {
		t.Errorf("the error is %g, want %g", off, want)
	}
	if list[5].named != 2 || list[5].right != 1 || list[len(list)-1].named != 1 {
		t.Errorf("%+v", list)
	}
}

// Wrong names, unknown verdicts and extra incidents are counted apart.
func TestTableCountsOutcomesApart(t *testing.T) {
	var out strings.Builder
	printWhole(&out, []result{{Fault: "kv_leak", Outcome: "right", Incidents: 2}, {Fault: "kv_leak", Outcome: "unknown", Likely: "kv_leak", Incidents: 1},
		{Fault: "kv_leak", Outcome: "kv_exhaustion", Incidents: 1, Harmful: []string{"x"}}, {Fault: "kv_leak", Outcome: "silent"},
		{Fault: "kv_leak", Outcome: "right", Incidents: 1, PagedHealthy: 2}})
	got := strings.Fields(strings.Split(out.String(), "\n")[2])
	want := "faults 5 50.0 25.0 25.0 100.0 25.0 1 1 0 2"
	if strings.Join(got, " ") != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
