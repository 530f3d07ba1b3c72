package fold

import (
	"fmt"
	"testing"
	"time"

	"paramedic/state"
)

// A board that erased one incident per sweep would keep all but 144 a day for ever.
func TestEachInputErasesOneIncidentPastRetention(t *testing.T) {
	s := newStory(t)
	s.fold.Settings.Retain = time.Hour
	const incidents = 12
	for i := range incidents {
		s.alert(state.Firing, fmt.Sprintf("A%d", i), "oom", "warning", fmt.Sprintf("pool-%d", i))
		s.alert(state.Resolved, fmt.Sprintf("A%d", i), "oom", "warning", fmt.Sprintf("pool-%d", i))
	}
	s.wait(10 * time.Minute)
	if got := len(s.board.incidents); got != incidents {
		t.Fatalf("%d incidents were opened, want %d", got, incidents)
	}
	s.now = s.now.Add(2 * time.Hour)
	for range incidents {
		s.apply(state.Input{})
	}
	if left := len(s.board.incidents); left != 0 {
		t.Errorf("%d incidents are past retention and still there", left)
	}
	if left := len(s.board.alerts); left != 0 {
		t.Errorf("%d alerts of erased incidents are still there", left)
	}
}
