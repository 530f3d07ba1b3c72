package playbooks

import (
	"strings"
	"testing"
)

// clusterCauses lists the causes in the start and placement of workers.
var clusterCauses = []string{"cold_start", "model_load_failure", "bad_rollout"}

// A restart helps against a hang and makes these causes worse. So their playbooks restart and
// delete nothing.
func TestColdStartPlaybooksNeverRestart(t *testing.T) {
	lib := library(t)
	for id, phrase := range map[string]string{"cold_start": "deleting or restarting the worker", "model_load_failure": "deleting the pod",
		"bad_rollout": "restarting the bad workers"} {
		pb, ok := lib.ForCause(id)
		if !ok || pb.ID != id {
			t.Fatalf("no playbook for %s", id)
		}
		for _, r := range pb.FirstAid {
			if r.Action == ActionRestartWorker {
				t.Errorf("%s restarts workers", id)
			}
		}
		if !strings.Contains(strings.ToLower(strings.Join(pb.Worse, "\n")), phrase) {
			t.Errorf("%s does not warn against %q", id, phrase)
		}
	}
}
