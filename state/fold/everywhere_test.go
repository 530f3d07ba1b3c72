package fold

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"paramedic/state"
	"paramedic/state/fold/index"
)

// fireUnknownRule fires an unknown rule in pools from to to, all in one payload.
func (s *story) fireUnknownRule(rule string, from, to int) {
	s.t.Helper()
	var batch state.AlertBatch
	for i := from; i < to; i++ {
		batch.Alerts = append(batch.Alerts, s.newAlert(state.Firing, rule, "", "warning", fmt.Sprint(rule, "-", i)))
	}
	s.apply(state.Input{Alerts: &batch})
}

// open returns the open incidents, the oldest first.
func (s *story) open() []*state.Incident {
	all := slices.SortedFunc(maps.Values(s.board.incidents), index.ByOpening)
	return slices.DeleteFunc(all, func(in *state.Incident) bool { return !in.Open() })
}

// Many unknown rules may each fire in their ninth place in one payload.
func TestManyUnknownRulesFitOneCommit(t *testing.T) {
	const rules = 20
	s := newStory(t)
	for r := range rules {
		s.fireUnknownRule(fmt.Sprint("Rule", r), 0, maxSameRule)
	}
	for _, in := range s.open() {
		s.evidence(in, "")
	}
	s.wait(s.fold.Settings.SpeakWithin * 2)
	var batch state.AlertBatch
	for r := range rules {
		for n := maxSameRule; n < maxSameRule+5; n++ {
			rule := fmt.Sprint("Rule", r)
			batch.Alerts = append(batch.Alerts, s.newAlert(state.Firing, rule, "", "warning", fmt.Sprint(rule, "-", n)))
		}
	}
	s.apply(state.Input{Alerts: &batch}) // apply fails if a commit would be too large
	for r := range rules {
		s.fireUnknownRule(fmt.Sprint("Rule", r), 20, 21)
	}
	if got := len(s.open()); got != rules {
		t.Errorf("%d incidents are open for %d rules that nobody knows", got, rules)
	}
}
