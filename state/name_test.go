package state

import "testing"

func TestShortNamesAreReadAsTyped(t *testing.T) {
	for text, want := range map[string]NameQuery{"7": {"", 7}, "#7": {"", 7}, "prod-7": {"prod", 7}, "#us-east-1-12": {"us-east-1", 12}, "INC-01KA": {}, "01": {}, "prod-": {},
		"": {}, "#": {}, "-7": {}, "prod-07": {}, "99999999999999999999": {}} {
		if got, ok := ParseShortName(text); got != want && ok || ok != (want.Number > 0) {
			t.Errorf("%q is %+v, %v, want %+v", text, got, ok, want)
		}
	}
}

// Clusters whose partition is the same count by themselves: what #stage-1 is does not depend on
// what happens in prod.
func TestClustersCountByThemselves(t *testing.T) {
	s := newStory(t)
	open := func(cluster, pool string) {
		s.apply(Input{Cluster: cluster, Alerts: &AlertBatch{Alerts: []Alert{s.make(Firing, "Queue", "queue", "warning", pool)}}})
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
