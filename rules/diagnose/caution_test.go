package diagnose

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/rules/catalog"
	"paramedic/rules/evidence"
	"paramedic/rules/rulestest"
	"paramedic/rules/treatment"
	"paramedic/state"
)

// A treatment waits while another cause that it makes worse is possible: it explains an alert, and
// is not ruled out by what was measured and what was not.
func TestTreatmentWaitsWhileItMayHarm(t *testing.T) {
	c := rulestest.MustLoad(t)
	in := &state.Incident{Symptoms: []state.SymptomCount{{Symptom: "ttft_high"}}}
	best, _ := c.Cause("concurrency_cap")
	holds := func(id state.Cause, treated string, score, unread float64, seen ...observation) bool {
		other, _ := c.Cause(id)
		v := verdict{ranked: []causeScore{{cause: best, score: 16},
			{cause: other, score: score, unread: unread, seen: seen, unmet: []unobserved{{expects: "a heavier one", weight: 9}, {expects: "a sign", weight: 6, missing: true}}}}}
		return slices.Contains(cautions(c, in, v.ranked, rulestest.Now), state.Caution{Treatment: treated, Cause: id, Sign: "a sign"})
	}
	sign := observation{observed: observed{Signal: "prefill_time_p95", Weight: 3}}
	for name, cse := range map[string]struct{ got, want bool }{
		"a possible surge":                    {holds("traffic_surge", "raise max_num_seqs", 1, 0), true},
		"a surge that the sum rules out":      {holds("traffic_surge", "raise max_num_seqs", 0.5, 0), false},
		"a cause with a sign, not measured":   {holds("gpu_throttle", "lower max_num_seqs", -4, 6, sign), true},
		"a cause with no sign, not measured":  {holds("gpu_throttle", "lower max_num_seqs", -4, 6), false},
		"a cause that explains no alert":      {holds("monitoring_gap", treatment.Restart, 9, 0), false},
		"a treatment that does not harm here": {holds("traffic_surge", "lower max_num_seqs", 1, 0), false},
	} {
		if cse.got != cse.want {
			t.Errorf("%s: the treatment waits: %t", name, cse.got)
		}
	}
}

// A finding that leaves another cause open holds back what makes that cause worse. Memory that rose
// lately may be a buffer that fills, and memory that has stopped one that is full.
func TestTreatmentWaitsForAnOpenCause(t *testing.T) {
	c := rulestest.MustLoad(t)
	leak, _ := c.Cause("host_memory_leak")
	v := verdict{ranked: []causeScore{{cause: leak, score: 16}}}
	waits := func() bool {
		return slices.ContainsFunc(cautions(c, &state.Incident{}, v.ranked, rulestest.Now), func(w state.Caution) bool {
			return w.Treatment == treatment.Restart && w.Cause == state.BenignAlert && w.Sign != ""
		})
	}
	if waits() {
		t.Error("a restart waits without a finding")
	}
	for _, text := range []string{"only lately", "has stopped"} {
		i := slices.IndexFunc(leak.Evidence, func(e *catalog.Evidence) bool { return strings.Contains(e.Text, text) })
		if i < 0 {
			t.Fatalf("no evidence of a memory leak says %q", text)
		}
		v.ranked[0].seen = []observation{{from: leak.Evidence[i]}}
		if !waits() {
			t.Errorf("a restart does not wait although memory %s", text)
		}
	}
}

// A young verdict looks back on rates from before the onset, so an engine's arguments wait.
func TestArgumentsWaitForAYoungVerdict(t *testing.T) {
	c := rulestest.MustLoad(t)
	best, _ := c.Cause("kv_exhaustion")
	v := verdict{view: evidence.ArrangeScope(&state.Incident{}, state.Scope{}, nil, c), ranked: []causeScore{{cause: best, score: 16}}}
	defer v.view.Release()
	now := rulestest.Now
	for _, cse := range []struct {
		was   state.Cause
		since time.Time
		until time.Time // zero: no caution
	}{
		{state.Unknown, time.Time{}, now.Add(young)},
		{"traffic_surge", now.Add(-time.Hour), now.Add(young)},
		{"kv_exhaustion", now.Add(-time.Minute), now.Add(young - time.Minute)},
		{"kv_exhaustion", now.Add(-young), time.Time{}},
	} {
		in := &state.Incident{NamedAt: cse.since, Diagnosis: state.Diagnosis{Cause: cse.was}}
		var want []state.Caution
		if !cse.until.IsZero() {
			want = []state.Caution{{Treatment: treatment.Tune, Until: cse.until}}
		}
		if got := cautions(c, in, v.ranked, now); !slices.Equal(got, want) {
			t.Errorf("%s since %s: %v, want %v", cse.was, cse.since, got, want)
		}
	}
}

// Evidence that cannot weigh the verdict releases nothing.
func TestUnweighedVerdictKeepsItsCautions(t *testing.T) {
	c := rulestest.MustLoad(t)
	in := &state.Incident{Diagnosis: state.Diagnosis{Cause: "concurrency_cap",
		Story: state.Story{Cautions: []state.Caution{{Treatment: "raise max_num_seqs", Cause: "traffic_surge"}}}}}
	if got := doubts(c, in, verdict{}, rulestest.Now); len(got) != 1 {
		t.Errorf("cautions %+v, want those of before", got)
	}
	limit, _ := c.Cause("concurrency_cap")
	surge, _ := c.Cause("traffic_surge")
	in.Symptoms = []state.SymptomCount{{Symptom: "queue_buildup", Active: 1, Alerts: 1}}
	newer := verdict{ranked: []causeScore{{cause: surge, score: 12}, {cause: limit, score: 3}}}
	waits := func(k state.Caution) bool { return k.Treatment == "raise max_num_seqs" && k.Cause == "traffic_surge" }
	if got := doubts(c, in, newer, rulestest.Now); !slices.ContainsFunc(got, waits) {
		t.Errorf("newer evidence leads to a surge, and a higher limit does not wait for it: %+v", got)
	}
}
