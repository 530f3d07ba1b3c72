package playbooks

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/rules/treatment"
	"paramedic/state"
)

// A step that may do harm says when it may be taken, in the words of the incident's engine. Other
// steps stay as they are, and cautions about no step are dropped.
func TestHarmfulStepsSayWhenToTakeThem(t *testing.T) {
	until := time.Date(2026, 1, 2, 3, 14, 0, 0, time.UTC)
	pb := Playbook{FirstAid: []Remedy{
		{Text: "Shed load at the gateway."},
		{Text: "Raise max_num_seqs.", When: "KV usage is low.", Action: ActionSetEngineArg,
			Params: map[string]string{"arg": "max_num_seqs", "direction": "raise"}},
		{Text: "Restart the worker.", Action: ActionRestartWorker},
	}}
	young := state.Caution{Treatment: treatment.Tune, Until: until}
	surge := state.Caution{Treatment: "raise max_num_seqs", Cause: "traffic_surge", Sign: "twice the arrivals"}
	rollout := state.Caution{Treatment: treatment.Restart, Cause: "bad_rollout"}
	in := state.Incident{Diagnosis: state.Diagnosis{Cause: "concurrency_cap", Story: state.Story{
		Do:       []string{"Keep its log."},
		Cautions: []state.Caution{young, surge, {Treatment: "scale out", Cause: "cold_start"}, rollout}}}}
	got := pb.Advise(in, state.Evidence{})
	if diff := cmp.Diff([]string{
		"Shed load at the gateway.",
		"Not before 03:14 UTC, if the verdict still stands; only after ruling out traffic surge (twice the arrivals), which it makes worse: " +
			"raise max_num_seqs [when: KV usage is low]",
		"Only after ruling out bad rollout, which it makes worse: restart the worker.",
		"Keep its log.",
	}, got.Do); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]state.Caution{young, surge, rollout}, got.Cautions); diff != "" {
		t.Error(diff)
	}
	in.Diagnosis.Story.Do = []string{"Cordon gpu-7 before you restart the worker."}
	got = pb.Advise(in, state.Evidence{})
	if got.Do[2] != "Restart the worker." || !slices.Contains(got.Cautions, rollout) {
		t.Errorf("beside a cordon: %q, %v", got.Do[2], got.Cautions)
	}
	in.Diagnosis.Story.Do, pb.FirstAid[1].Action = nil, "" // the text alone names the treatment
	engine := state.Evidence{Workers: []state.Worker{{Engine: "sglang"}}}
	if got := pb.Advise(in, engine).Do[1]; !strings.HasPrefix(got, "Not before 03:14 UTC") {
		t.Errorf("in the words of SGLang: %q", got)
	}
}
