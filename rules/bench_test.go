package rules

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"paramedic/state"
)

func BenchmarkDiagnose64Workers(b *testing.B) {
	c := MustLoad(b)
	in, ev := Fleet(c, 64)
	b.ReportAllocs()
	for b.Loop() {
		c.Diagnose(in, ev, Now)
	}
}

// The same with the charts that evidence comes with: six lines of sixty points of each charted
// signal, half of which leave their course.
func BenchmarkDiagnose64WorkersWithCharts(b *testing.B) {
	c := MustLoad(b)
	in, ev := Fleet(c, 64)
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
		c.Diagnose(in, ev, Now)
	}
}

func BenchmarkClassify(b *testing.B) {
	c := MustLoad(b)
	a := state.Alert{Labels: map[string]string{"alertname": "Ours", "model_name": "llama-70b", "namespace": "llm", "severity": "page"}, GeneratorURL: generator(circulating[29].expr)}
	b.ReportAllocs()
	for b.Loop() {
		c.Classify(a, "c")
	}
}

func BenchmarkClassifyAndCorrelate(b *testing.B) {
	c := MustLoad(b)
	_, ev := Fleet(c, 64)
	var open []*state.Incident
	for i := range 24 {
		in := &state.Incident{ID: state.IncidentID(fmt.Sprintf("INC-%02d", i)), Cluster: "c", Status: state.StatusOpen, OpenedAt: Now}
		for _, name := range []string{"VLLMKVCacheExhaustion", "VLLMRequestQueueBackup", "VLLMHighTTFT"} {
			Attach(in, c.Classify(state.Alert{Labels: map[string]string{"alertname": name, "model_name": fmt.Sprintf("model-%d", i), "namespace": "llm"}}, "c"), name, Now)
		}
		open = append(open, in)
	}
	a := state.Alert{Labels: map[string]string{"alertname": "LLMPreemptionStorm", "model_name": "model-7", "namespace": "llm"}, GeneratorURL: generator("rate(vllm:num_preemptions_total[5m]) > 1")}
	b.ReportAllocs()
	for b.Loop() {
		s := c.Classify(a, "c")
		if id, ok := c.Correlate(s, ev.Workers, open, Now); !ok || id != "INC-07" {
			b.Fatal(id, ok)
		}
	}
}

func TestDiagnosisIsDeterministic(t *testing.T) {
	c := MustLoad(t)
	in, ev := Fleet(c, 16)
	want, err := json.Marshal(c.Diagnose(in, ev, Now))
	if err != nil {
		t.Fatal(err)
	}
	for range 20 {
		// Loading again gives other maps with other orders.
		got, err := json.Marshal(MustLoad(t).Diagnose(in, ev, Now))
		if err != nil {
			t.Fatal(err)
		}
		if diff := gocmp.Diff(string(want), string(got)); diff != "" {
			t.Fatal(diff)
		}
	}
}

func TestFindingsAddUpToTheScore(t *testing.T) {
	c := MustLoad(t)
	results, err := c.RunCases("testdata/cases")
	if err != nil {
		t.Fatal(err)
	}
	var counted []string
	defer func() { // of workers that are ready or not, a sum counts
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
			for _, text := range append([]string{d.Title, d.Story.What, d.Story.Why, d.Story.Else}, d.Story.Do...) {
				if placeholderForm.MatchString(text) {
					t.Errorf("%s: a placeholder is left in %q", r.Name, text)
				}
			}
		}
	}
}
