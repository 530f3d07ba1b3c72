package fold

import (
	"testing"

	"paramedic/state"
)

// Clusters in the same partition number their incidents separately: #stage-1 does not depend on
// prod.
func TestClustersNumberSeparately(t *testing.T) {
	s := newStory(t)
	open := func(cluster, pool string) {
		s.apply(state.Input{Cluster: cluster,
			Alerts: &state.AlertBatch{Alerts: []state.Alert{s.newAlert(state.Firing, "Queue", "queue", "warning", pool)}}})
	}
	s.board.meta.Incidents = 4 // the count of an older version's board
	s.board.touch(kindMeta, "board")
	for i, pool := range []string{"a", "b", "c"} {
		open("prod", pool)
		if i > 0 {
			open("stage", pool+"-stage")
		}
	}
	names := map[string]bool{}
	for _, in := range s.board.incidents {
		names[in.ShortName(true)] = true
	}
	for _, want := range []string{"#prod-5", "#prod-6", "#prod-7", "#stage-5", "#stage-6"} {
		if !names[want] {
			t.Errorf("there is no %s: %v", want, names)
		}
	}
}
