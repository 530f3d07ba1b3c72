package fold

import (
	"testing"

	"paramedic/state"
)

func (s *story) flood(waiting int) *state.Flood {
	s.t.Helper()
	s.apply(state.Input{Flood: &state.FloodCount{Channel: state.ChannelPagerDuty, Waiting: waiting}})
	return s.board.Flood(state.ChannelPagerDuty)
}

// shown answers the effect of the summary.
func (s *story) shown(status string) {
	s.t.Helper()
	e := s.board.Effect("flood:pagerduty")
	if e == nil {
		s.t.Fatal("no summary is wanted")
	}
	s.apply(state.Input{Outcome: &state.Outcome{Effect: e.ID, Turn: e.Turn, Done: true,
		Rev: s.board.Flood(state.ChannelPagerDuty).Rev, Ref: map[string]string{"status": status}}})
}

// A story compares its board with one of its records after each input: a flood survives a restart.
func TestFloodKeepsItsKeyUntilItIsOver(t *testing.T) {
	s := newStory(t)
	if s.flood(0) != nil {
		t.Error("a count of none began a flood")
	}
	key := s.flood(400).Key
	s.shown("triggered")
	if len(s.effects(state.EffectFlood)) != 0 {
		t.Error("the summary is wanted again without news")
	}
	if f := s.flood(900); f.Key != key || !state.IsFlood(key) || f.Told.Ref["status"] != "triggered" {
		t.Errorf("the flood %+v has not the key %s and its page", f, key)
	}
	s.shown("triggered")
	if s.flood(0); s.board.Flood(state.ChannelPagerDuty) == nil {
		t.Fatal("the flood is forgotten before its summary was resolved")
	}
	s.shown("resolved")
	if f := s.board.Flood(state.ChannelPagerDuty); f != nil {
		t.Errorf("the flood %+v is not forgotten", f)
	}
	if again := s.flood(400).Key; again == key {
		t.Error("another flood has the same key")
	}
}

func TestAckOfFloodAcknowledgesNoIncident(t *testing.T) {
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	f := s.flood(400)
	s.shown("triggered")
	for _, event := range []string{"triggered", "acknowledged", "resolved"} {
		s.apply(state.Input{Foreign: &state.Foreign{Source: "pagerduty", Event: event, ID: "Q9", Key: f.Key, Actor: ben,
			Labels: map[string]string{"alertname": "KVFull", "symptom": "kv_pressure", "pool": "other"}}})
	}
	if in := s.onlyIncident(); !in.AckedAt.IsZero() || !in.Open() || len(in.External) > 0 {
		t.Errorf("the incident is acked by %v, status %s, external %v", in.AckedBy, in.Status, in.External)
	}
	if f := s.board.Flood(state.ChannelPagerDuty); f.Told.Ref["status"] != "resolved" {
		t.Errorf("the page of the summary is %v, want resolved", f.Told)
	}
}
