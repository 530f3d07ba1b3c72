package prometheus

import (
	"testing"
	"time"

	"paramedic/rules/enrich/prometheus/query"
	"paramedic/rules/signals"
	"paramedic/state"
)

// A pool's mean covers all its requests. It is not the mean of its pods' means. It has the signal's
// unit, not the metric's.
func TestPoolMeanCountsEveryRequestOnce(t *testing.T) {
	sig := signals.Signal{ID: "prompt_length_mean", Per: signals.PerPod, Pooled: true, Sources: []signals.Source{
		{Engine: "vllm", Metric: "prompt", Fn: signals.FnMean, Window: 5 * time.Minute, Scale: 0.001}}}
	ms := query.Compile(sig, query.Discovery{}.Filter(state.Scope{Namespace: "llm"}))
	unions := query.Unions(ms, 2, false)
	g := &gathering{samples: map[sampleKey]*sample{}}
	j := plannedQuery{union: unions[0], moments: []moment{present}, at: now}
	if len(ms) != 2 || len(unions) != 1 || unions[0].Divisible() {
		t.Fatalf("%d members in %d unions, want the pods' and the pool's in one part of one", len(ms), len(unions))
	}
	var all []series
	for pod, sums := range map[string][2]float64{"few-long": {8000, 1}, "many-short": {9000, 9}, "idle": {0, 0}} {
		for i, mark := range []string{"0", "0/"} {
			all = append(all, series{labels: map[string]string{"paramedic_part": mark, "namespace": "llm", "pod": pod, "model_name": "llama"},
				points: []point{{now, sums[i]}}})
		}
	}
	all = append(all, series{labels: map[string]string{"paramedic_part": "0/", "namespace": "llm", "pod": "half", "model_name": "other"},
		points: []point{{now, 1}}})
	g.take(j, all)
	got := map[string]float64{}
	for of, s := range g.samples {
		if s.now != nil {
			got[of.entity.Pod+"@"+of.entity.Model] = s.now.Value(signals.CombineMax)
		}
	}
	want := map[string]float64{"few-long@llama": 8, "many-short@llama": 1, "@llama": 1.7}
	if len(got) != len(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for name, v := range want {
		if !near(got[name], v, 1e-9) {
			t.Errorf("%s is %v, want %v", name, got[name], v)
		}
	}
}
