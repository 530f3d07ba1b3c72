package fold

import (
	"maps"
	"testing"

	"paramedic/state"
)

// An incident keeps the newest receiver and URL of its notifications, and the group labels that all
// of them had.
func TestDeliveriesAreRecorded(t *testing.T) {
	s := newStory(t)
	deliver := func(name, receiver string, group map[string]string) {
		batch := state.AlertBatch{Receiver: receiver, GroupLabels: group,
			Alerts: []state.Alert{s.newAlert(state.Firing, name, "queue", "warning", "llama")}}
		if receiver != "" {
			batch.ExternalURL = "http://" + receiver
		}
		s.apply(state.Input{Alerts: &batch})
	}
	deliver("0", "", nil)
	if got := s.onlyIncident().Delivery; got != nil {
		t.Errorf("a payload without a receiver: %+v", got)
	}
	deliver("A", "one", map[string]string{"alertname": "A", "cluster": "prod"})
	if got := s.onlyIncident().Delivery; got.Receiver != "one" || len(got.GroupLabels) != 2 {
		t.Errorf("%+v", got)
	}
	deliver("B", "two", map[string]string{"alertname": "B", "cluster": "prod", "team": "ml"})
	if got := s.onlyIncident().Delivery; got.Receiver != "two" || got.ExternalURL != "http://two" ||
		!maps.Equal(got.GroupLabels, map[string]string{"cluster": "prod"}) {
		t.Errorf("%+v", got)
	}
}
