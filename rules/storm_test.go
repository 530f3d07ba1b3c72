package rules

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"paramedic/state"
	"paramedic/state/fold"
)

type nobody struct{}

func (nobody) Channels(*state.Incident) []state.Channel { return []state.Channel{state.ChannelConsole} }

// A storm is a case as a running bot meets it: alerts in any order, each twice, nothing known of
// the topology before the first evidence, and evidence for one incident after the other.
type storm struct {
	t     *testing.T
	fold  fold.Fold
	board *fold.Board
	now   time.Time
	seq   uint64
}

func (s *storm) apply(in state.Input) {
	s.t.Helper()
	s.seq++
	s.now = s.now.Add(time.Second)
	in.Seq, in.At, in.Cluster = s.seq, s.now, "test"
	s.fold.Apply(s.board, in)
	if _, _, err := s.board.Take(); err != nil {
		s.t.Fatal(err)
	}
}

func (s *storm) open() []state.Incident {
	var out []state.Incident
	for _, in := range s.board.Incidents() {
		if in.Open() {
			out = append(out, in)
		}
	}
	slices.SortFunc(out, func(a, b state.Incident) int { return a.Number - b.Number })
	return out
}

// run plays the alerts and gives the causes of what stays open, sorted.
func (s *storm) run(alerts []alertJSON, ev state.Evidence) []string {
	s.t.Helper()
	begin := begins(alerts)
	for range 2 {
		for i, a := range alerts {
			s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{{
				Fingerprint: state.Fingerprint(fmt.Sprint(a.Labels, i)), Status: state.Firing, Labels: a.Labels, Annotations: a.Annotations,
				GeneratorURL: a.GeneratorURL, StartsAt: begin[i].Truncate(time.Minute),
			}}}})
		}
	}
	for range 2 {
		for _, in := range s.open() {
			ev.Incident, ev.At = in.ID, Now
			s.apply(state.Input{Evidence: &ev})
		}
	}
	var causes []string
	for _, in := range s.open() {
		causes = append(causes, string(in.Cause()))
	}
	slices.Sort(causes)
	return causes
}

// Whatever the order in which a storm's alerts come, and though each comes twice, what stays open
// in the end is the same: one incident for each trouble, under its cause. A root that shows itself
// last takes its consequences; troubles that are not one stay apart.
func TestAStormEndsTheSameInEveryOrder(t *testing.T) {
	c := MustLoad(t)
	files, err := filepath.Glob("testdata/cases/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	played := 0
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			t.Fatal(err)
		}
		parts := map[string]string{}
		for _, f := range ar.Files {
			parts[f.Name] = string(f.Data)
		}
		alerts := (&caseRun{result: &CaseResult{}}).alerts(parts)
		if len(alerts) < 2 || parts["pages"] != "" {
			continue
		}
		played++
		t.Run(filepath.Base(file), func(t *testing.T) {
			k := caseRun{cat: c, dir: filepath.Dir(file), result: &CaseResult{}, short: map[string]state.Worker{}}
			if k.run(ar); len(k.result.Failures) > 0 {
				t.Skip("SKIPPED: the case fails by itself, which TestCases tells")
			}
			var want []string
			for _, in := range k.result.Incidents {
				want = append(want, string(in.Cause()))
			}
			slices.Sort(want)
			seen := map[string]uint64{}
			for seed := range uint64(6) {
				s := &storm{t: t, board: fold.NewBoard(), now: Now.Add(-time.Minute), fold: fold.Fold{Triage: Rules{c}, Routing: nobody{}, Settings: state.DefaultSettings()}}
				order := slices.Clone(alerts)
				rand.New(rand.NewPCG(seed, 1)).Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
				seen[fmt.Sprint(s.run(order, k.ev))] = seed
			}
			if got := slices.Collect(maps.Keys(seen)); len(got) != 1 || got[0] != fmt.Sprint(want) {
				t.Errorf("open in the end, by order: %v, want %v", seen, want)
			}
		})
	}
	if played < 20 {
		t.Errorf("only %d storms were played", played)
	}
}

// Keep, issue 6702: what stood alone was left out of correlation. Here a rule that nothing is known
// of, and that fires on five hundred machines, is one incident, and an alert that names no place
// joins the one trouble that the fleet has.
func TestKeep6702WhatStandsAloneIsCorrelatedToo(t *testing.T) {
	c := MustLoad(t)
	newStorm := func() *storm {
		return &storm{t: t, board: fold.NewBoard(), now: Now.Add(-time.Minute), fold: fold.Fold{Triage: Rules{c}, Routing: nobody{}, Settings: state.DefaultSettings()}}
	}
	var alerts []alertJSON
	for i := range 500 {
		alerts = append(alerts, alertJSON{Labels: map[string]string{"alertname": "DiskFull", "namespace": "db", "instance": fmt.Sprintf("10.0.%d.%d:9100", i/250, i%250)}})
	}
	if got := newStorm().run(alerts, state.Evidence{}); len(got) != 1 {
		t.Errorf("one rule on 500 machines: %d incidents", len(got))
	}
	for _, order := range [][]alertJSON{
		{{Labels: map[string]string{"alertname": "KVCacheNearFull", "model_name": "llama"}}, {Labels: map[string]string{"alertname": "LLMHighTTFT"}}},
		{{Labels: map[string]string{"alertname": "LLMHighTTFT"}}, {Labels: map[string]string{"alertname": "KVCacheNearFull", "model_name": "llama"}}},
	} {
		if got := newStorm().run(order, state.Evidence{}); len(got) != 1 {
			t.Errorf("an alert that names no place, and the fleet's one trouble: %d incidents", len(got))
		}
	}
}

// Kubernaut, issue 209: two duplicates each waited for the other for ever. Here no two causes
// absorb each other, whatever they are, so that it does not depend on the order of verdicts which
// of two incidents stays.
func TestKubernaut209NoTwoCausesAbsorbEachOther(t *testing.T) {
	c := MustLoad(t)
	scope := state.Scope{Namespace: "llm", Pool: "vllm", Model: "m", Pods: []string{"vllm-0"}, Nodes: []string{"node-1"}}
	var all []*state.Incident
	for i, cause := range c.causes {
		in := &state.Incident{ID: state.IncidentID("INC-" + string(cause.ID)), Cluster: "c", Status: state.StatusOpen, Scope: scope, OpenedAt: Now.Add(time.Duration(i) * time.Second)}
		in.Diagnosis = state.Diagnosis{Cause: cause.ID, Scope: scope}
		for s := range cause.Explains {
			in.Diagnosis.Explains = append(in.Diagnosis.Explains, s)
		}
		in.Symptoms = []state.SymptomCount{{Symptom: "ttft_high"}}
		all = append(all, in)
	}
	for _, a := range all {
		for _, b := range all {
			if a != b && c.Absorbs(a, b) && c.Absorbs(b, a) {
				t.Errorf("%s and %s absorb each other", a.Cause(), b.Cause())
			}
		}
	}
}
