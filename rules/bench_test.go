package rules

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"paramedic/state"
)

// fleet returns an incident of a pool of n workers, with every signal on every entity.
func fleet(c *Catalog, n int) (*state.Incident, *state.Evidence) {
	all, err := LoadSignals()
	if err != nil {
		panic(err)
	}
	in := &state.Incident{ID: "INC-1", Cluster: "test", Status: state.StatusOpen, OpenedAt: caseTime,
		Scope: state.Scope{Cluster: "test", Namespace: "llm", Model: "llama-70b", Pool: "vllm-llama"}}
	for _, name := range []string{"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "LLMPreemptionStorm", "VLLMHighTTFT"} {
		s := c.Classify(state.Alert{Labels: map[string]string{"alertname": name, "model_name": "llama-70b", "namespace": "llm"}}, "test")
		attach(in, s, name, caseTime)
	}
	ev := &state.Evidence{Incident: in.ID, At: caseTime}
	base := 0.5
	for i := range n {
		w := state.Worker{
			Namespace: "llm", Pod: fmt.Sprintf("vllm-llama-7d9f8b6c5-%05d", i), Pool: "vllm-llama", Model: "llama-70b",
			Node: fmt.Sprintf("node-%d", i/4),
			GPUs: []string{fmt.Sprint(i % 4)}, Ready: true,
		}
		ev.Workers = append(ev.Workers, w)
		for _, s := range all {
			e := state.Entity{Namespace: w.Namespace, Pod: w.Pod, Pool: w.Pool, Model: w.Model, Node: w.Node}
			switch s.Per {
			case PerGPU:
				e.GPU = w.GPUs[0]
			case PerNode:
				e = state.Entity{Node: w.Node}
			case PerPool:
				e = state.Entity{Namespace: w.Namespace, Pool: w.Pool, Model: w.Model}
			}
			value := 0.97 + float64(i)/1000
			if strings.HasPrefix(s.ID, "gpu_xid") || s.ID == "gpu_recovery_action" {
				value = 0 // otherwise every GPU of the pool would be broken
			}
			ev.Samples = append(ev.Samples, state.Sample{Signal: s.ID, Entity: e, Value: value, Baseline: &base, At: caseTime})
		}
	}
	// The order of gathering: signal by signal.
	slices.SortStableFunc(ev.Samples, func(a, b state.Sample) int { return cmp.Compare(a.Signal, b.Signal) })
	return in, ev
}

func BenchmarkDiagnose64Workers(b *testing.B) {
	c := mustLoad(b)
	in, ev := fleet(c, 64)
	b.ReportAllocs()
	for b.Loop() {
		c.Diagnose(in, ev, caseTime)
	}
}

// BenchmarkDiagnose64WorkersWithCharts adds the charts of gathered evidence: six lines of sixty
// points of each charted signal, half of which leave their course.
func BenchmarkDiagnose64WorkersWithCharts(b *testing.B) {
	c := mustLoad(b)
	in, ev := fleet(c, 64)
	lines := map[string]int{}
	for i := range ev.Samples {
		if s := &ev.Samples[i]; slices.Contains(felt, s.Signal) || slices.Contains(movers, s.Signal) {
			if lines[s.Signal]++; lines[s.Signal] <= 6 {
				s.Series = chartOf(60, func(i int) float64 { return ripple(1+4*float64(i/40*(len(s.Signal)%2)), 0.05, i) })
			}
		}
	}
	b.ReportAllocs()
	for b.Loop() {
		c.Diagnose(in, ev, caseTime)
	}
}

func BenchmarkClassify(b *testing.B) {
	c := mustLoad(b)
	a := state.Alert{Labels: map[string]string{"alertname": "Ours", "model_name": "llama-70b", "namespace": "llm", "severity": "page"},
		GeneratorURL: generator(circulating[29].expr)}
	b.ReportAllocs()
	for b.Loop() {
		c.Classify(a, "c")
	}
}

func BenchmarkClassifyAndCorrelate(b *testing.B) {
	c := mustLoad(b)
	_, ev := fleet(c, 64)
	var open []*state.Incident
	for i := range 24 {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%02d", i)), Cluster: "c", Status: state.StatusOpen, OpenedAt: caseTime}
		for _, name := range []string{"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "VLLMHighTTFT"} {
			attach(in, c.Classify(state.Alert{
				Labels: map[string]string{"alertname": name, "model_name": fmt.Sprintf("model-%d", i), "namespace": "llm"}}, "c"), name,
				caseTime)
		}
		open = append(open, in)
	}
	a := state.Alert{Labels: map[string]string{"alertname": "LLMPreemptionStorm", "model_name": "model-7", "namespace": "llm"},
		GeneratorURL: generator("rate(vllm:num_preemptions_total[5m]) > 1")}
	b.ReportAllocs()
	for b.Loop() {
		s := c.Classify(a, "c")
		if id, ok := c.Correlate(s, ev.Workers, open, caseTime); !ok || id != "INC-07" {
			b.Fatal(id, ok)
		}
	}
}

func TestDiagnosisIsDeterministic(t *testing.T) {
	c := mustLoad(t)
	in, ev := fleet(c, 16)
	want, err := json.Marshal(c.Diagnose(in, ev, caseTime))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		// A new catalogue has maps with another iteration order.
		got, err := json.Marshal(mustLoad(t).Diagnose(in, ev, caseTime))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestFindingsAddUpToTheScore(t *testing.T) {
	c := mustLoad(t)
	results, err := c.RunCases("testdata/cases")
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
			if round(sum, 2) != d.Score {
				t.Errorf("%s: findings add up to %g, the score is %g", r.Name, sum, d.Score)
			}
			if d.Title == "" || d.Story.What == "" || d.Story.Why == "" || len(d.Story.Do) == 0 || d.Confidence < 0 || d.Confidence > 1 {
				t.Errorf("%s: not a whole diagnosis: %+v", r.Name, d)
			}
			for _, finding := range append([]string{d.Title, d.Story.What, d.Story.Why, d.Story.Else}, d.Story.Do...) {
				if placeholderForm.MatchString(finding) {
					t.Errorf("%s: a placeholder is left in %q", r.Name, finding)
				}
			}
		}
	}
}

// attach adds an alert's sign to an incident.
func attach(in *state.Incident, s state.Sign, rule string, at time.Time) {
	in.Count(&state.AlertRecord{Alert: state.Alert{Labels: map[string]string{"alertname": rule}, StartsAt: at}, Sign: s}, false, at)
}
