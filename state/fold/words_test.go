package fold

import (
	"slices"
	"strings"
	"testing"

	"paramedic/state"
)

func TestTimelineNamesAStateOnce(t *testing.T) {
	s := newStory(t)
	in, a := s.proposed("approve")
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbApprove, Action: a.ID, PlanHash: a.PlanHash,
		Actor: state.Actor{ID: "ben"}, Reason: "looks safe"}})
	for _, next := range []state.ActionState{state.Admitted, state.Intent, state.Applied, state.Verifying} {
		s.apply(s.stepTo(*a, next, ""))
	}
	s.apply(s.stepTo(*a, state.RollbackIntent, "guardrail breached"))
	got := s.threadTexts(in)
	want := []string{"awaiting approval", "approved by ben: looks safe", "applied", "verifying", "rolling back: guardrail breached"}
	for i := range want {
		want[i] = a.Change + ": " + want[i]
	}
	if got = got[len(got)-len(want):]; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
}

func TestSymptomsAreShownByTitle(t *testing.T) {
	s := newStory(t)
	s.fold.Titles = map[state.Symptom]string{"kv_pressure": "KV cache is nearly full", "ttft_high": "Time to first token is high",
		"aborts": "Requests are aborted"}
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	s.alert(state.Firing, "Slow", "ttft_high", "warning", "llama")
	s.alert(state.Firing, "Long", "queue_buildup", "warning", "llama")
	in := s.onlyIncident()
	if want := "KV cache is nearly full, time to first token is high, queue buildup on llama"; in.Title != want {
		t.Errorf("%q, want %q", in.Title, want)
	}
	s.evidence(in, "kv_exhaustion")
	s.alert(state.Firing, "Aborts", "aborts", "warning", "llama")
	var texts []string
	for _, e := range s.entries {
		texts = append(texts, e.Text)
	}
	if all := strings.Join(texts, "; "); !strings.Contains(all, "opened by alert KVFull: KV cache is nearly full; ") ||
		!strings.Contains(all, "alert Aborts: requests are aborted") {
		t.Error(all)
	}
}
