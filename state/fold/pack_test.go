package fold

import (
	"reflect"
	"strings"
	"testing"

	"paramedic/state"
)

// Views and templates show an alert's labels and annotations, also after a restart.
func TestAlertsOfHaveTheirLabels(t *testing.T) {
	s := newStory(t)
	a := s.newAlert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	a.Annotations = map[string]string{"summary": "slow"}
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
	var records []state.Record
	for key, value := range s.records {
		if !strings.HasPrefix(key, state.TimelinePrefix+".") {
			records = append(records, state.Record{Key: key, Value: value})
		}
	}
	in := s.onlyIncident()
	for _, board := range []*Board{s.board, loadBoard(t, records)} {
		got := board.AlertsOf(board.Incident(in.ID))
		if len(got) != 1 || !reflect.DeepEqual(got[0].Alert.Labels, a.Labels) || !reflect.DeepEqual(got[0].Alert.Annotations, a.Annotations) {
			t.Errorf("alerts are %+v, sent %+v", got, a)
		}
	}
}
