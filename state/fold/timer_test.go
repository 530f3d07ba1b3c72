package fold

import "testing"

// Each tick is an input and a commit with every incident that it touches. A minute after a storm
// that was each of its incidents.
func TestShownIncidentWantsNoTick(t *testing.T) {
	s := newStory(t)
	shown := s.diagnosed("Queue", "queue_growth", "chat", "overload")
	if due, _ := s.board.NextDue(); !due.IsZero() {
		t.Errorf("a tick is wanted in %s, though the incident was shown", due.Sub(s.now))
	}
	s.alert("firing", "Hot", "gpu_hot", "warning", "embed")
	waits := s.other(shown)
	if due, _ := s.board.NextDue(); !due.Equal(waits.NotifyBy) {
		t.Errorf("the next tick is wanted at %s, and the undiagnosed incident waits until %s", due, waits.NotifyBy)
	}
	s.wait(waits.NotifyBy.Sub(s.now))
	if len(waits.Channels) == 0 {
		t.Error("an incident without a verdict is not shown in time")
	}
}
