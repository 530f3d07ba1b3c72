package fold

import (
	"testing"

	"paramedic/state"
)

// Clusters whose partition is the same count by themselves: what #stage-1 is does not depend on
// what happens in prod.
func TestClustersCountByThemselves(t *testing.T) {
	s := newStory(t)
	open := func(cluster, pool string) {
		s.apply(state.Input{Cluster: cluster, Alerts: &state.AlertBatch{Alerts: []state.Alert{s.make(state.Firing, "Queue", "queue", "warning", pool)}}})
	}
	s.board.meta.Incidents = 4 // what a board of an older version has counted
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
