package playbooks

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestRepeatedAdviceIsGivenOnce(t *testing.T) {
	said := []string{
		"Take load off first. Shed or rate-limit at the gateway, batch traffic and retries before interactive users.",
		"Lower max_num_seqs so that what is admitted fits in the cache; requests then wait in the queue instead of being recomputed.",
		"Restart the pod only.",
		"Cordon the node, before anything is restarted - kubectl cordon gpu-7",
	}
	kept := []string{
		"Raise max_num_seqs so that what waits is admitted",                     // the opposite
		"Lower max_model_len so that what is admitted fits in the cache",        // another setting
		"Restart the whole tensor-parallel group elsewhere, with a new machine", // more than was said
		"Cordon gpu-8 before anything restarts",                                 // another node
		"Watch the time between tokens",
	}
	lines := append([]string{
		"Shed or reroute load at the gateway first; that helps within seconds.",
		"Lower max_num_seqs to what the cache carries, as a rolling restart with the other workers ready.",
		"Cordon gpu-7 before anything restarts, so that no worker lands on the same GPU.",
	}, kept...)
	if diff := cmp.Diff(kept, withoutRepeats(said, lines)); diff != "" {
		t.Error(diff)
	}
	if got := withoutRepeats(nil, kept); len(got) != len(kept) {
		t.Errorf("without a playbook %d of %d lines are left", len(got), len(kept))
	}
}
