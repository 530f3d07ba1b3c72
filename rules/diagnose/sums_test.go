package diagnose

import (
	"math"
	"strings"
	"testing"

	"paramedic/rules/catalog"
	"paramedic/rules/rulestest"
	"paramedic/state"
)

// The terms of every cause add up to its score. Each has the weight that the catalogue has for its
// ID.
func TestSumsAddUpToTheScore(t *testing.T) {
	c := rulestest.MustLoad(t)
	in, ev := rulestest.Fleet(c, 4)
	d := Diagnose(c, in, ev, rulestest.Now)
	known, kinds := weightsByTerm(c), map[string]int{}
	for _, s := range Sums(c, in, ev) {
		total := 0.0
		for _, term := range s.Terms {
			total += term.Weight * float64(term.Count)
			if want, ok := known[term.ID]; ok && want != term.Weight || !ok && strings.Contains(term.ID, "/") {
				t.Errorf("%s weighs %g, and %g in the catalogue", term.ID, term.Weight, want)
			}
			kinds[kindOf(term.ID)]++
		}
		if math.Abs(total-s.Score) > 0.01 {
			t.Errorf("%s: the terms add up to %g, the score is %g", s.Cause, total, s.Score)
		}
		if s.Cause == d.Cause && (s.Score != d.Score || !s.Candidate) {
			t.Errorf("%s has %g dB, and %g in the verdict", s.Cause, s.Score, d.Score)
		}
	}
	for _, kind := range []string{"prior", "symptom", "evidence", "else", "unexplained"} {
		if kinds[kind] == 0 {
			t.Errorf("no term is a %s: %v", kind, kinds)
		}
	}
}

// A symptom that no cause explains counts once for each time that it is added.
func TestRepeatedTermsAreCounted(t *testing.T) {
	c := rulestest.MustLoad(t)
	in := &state.Incident{ID: "INC-1", Cluster: "c", Status: state.StatusOpen}
	for _, s := range []state.Symptom{"quality", "gpu_hardware", "aborts"} {
		rulestest.Attach(in, state.Sign{Symptom: s, Entity: state.Entity{Cluster: "c", Namespace: "llm", Pool: "vllm"}}, string(s),
			rulestest.Now)
	}
	for _, s := range Sums(c, in, nil) {
		if s.Cause != "cold_start" {
			continue
		}
		if n := len(s.Terms); n != 3 || s.Terms[1].ID != "unexplained" || s.Terms[1].Count != 3 || s.Terms[2].ID != "beside" {
			t.Errorf("%+v", s.Terms)
		}
	}
}

func kindOf(term string) string {
	if i := strings.LastIndex(term, "/"); i >= 0 {
		term = term[i+1:]
	}
	kind, _, _ := strings.Cut(term, ":")
	if strings.Trim(kind, "0123456789") == "" {
		return "evidence"
	}
	return kind
}

func weightsByTerm(c *catalog.Catalog) map[string]float64 {
	out := map[string]float64{}
	for _, cause := range c.Causes() {
		out[cause.PriorTerm()] = cause.Prior
		for s, w := range cause.Explains {
			out[cause.SymptomTerm(s)] = w
		}
		for i, e := range cause.Evidence {
			if out[cause.EvidenceTerm(i)] = e.Weight; e.Else != nil {
				out[cause.ElseTerm(i)] = e.Else.Weight
			}
		}
	}
	return out
}
