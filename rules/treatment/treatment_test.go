package treatment

import (
	"slices"
	"testing"
)

func TestSentencesNameTreatments(t *testing.T) {
	for sentence, want := range map[string][]string{
		"Raise max_num_seqs in a rolling restart.":                          {raiseSeqs},
		"Lowering max_num_seqs, which lengthens the queue.":                 {lowerSeqs},
		"Lower --gpu-memory-utilization by a few points.":                   {lowerMemory},
		"Drain and restart workers one at a time, the fullest first.":       {Restart, RestartOthers},
		"Restart vllm-0 with its whole tensor-parallel group.":              {Restart},
		"Cutting max_model_len; it rejects users' requests.":                {lowerLength},
		"Restarting the whole pool at once.":                                {RestartAll},
		"Restarting several workers at once.":                               {RestartAll},
		"Restarting workers; they are healthy.":                             {RestartAll, Restart, RestartOthers},
		"Cordon gpu-7 before you restart the worker.":                       {Restart, Cordon},
		"Keep gpu-7 cordoned until a check has passed.":                     nil,
		"Limit long prompts at the gateway. It restarts no worker.":         nil,
		"Save the log first; a restart destroys the evidence.":              nil,
		"Add a replica. It improves latency and restarts no worker.":        {"scale out"},
		"Shed load at the gateway: batch traffic first, interactive users.": nil,
	} {
		if got := In(sentence); !slices.Equal(got, want) {
			t.Errorf("%q names %q, want %q", sentence, got, want)
		}
	}
}

func TestTreatmentsIncludeOthers(t *testing.T) {
	if got := Whole([]string{raiseSeqs, RestartAll}); !slices.Equal(got, []string{raiseSeqs, RestartAll, Tune, Restart}) {
		t.Errorf("%q", got)
	}
	for _, c := range []struct {
		step    []string
		caution string
		cordons bool
		held    bool
	}{
		{[]string{raiseSeqs, Tune}, Tune, false, true},
		{[]string{raiseSeqs, Tune}, lowerSeqs, false, false},
		{[]string{raiseSeqs, Tune}, Tune, true, true},
		{[]string{Restart}, Restart, false, true},
		{[]string{Restart}, Restart, true, false},
	} {
		if got := Held(c.step, c.caution, c.cordons); got != c.held {
			t.Errorf("%+v: held back: %t", c, got)
		}
	}
}
