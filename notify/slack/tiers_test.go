package slack

import (
	"fmt"
	"testing"
	"time"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

func TestEditsAndSearchesKeepTheirTiers(t *testing.T) {
	clock := &notifytest.Clock{Time: time.Now()}
	s := slacktest.New(slacktest.Options{Burst: 1, Now: clock.Now})
	defer s.Close()
	n := New(Config{Channel: "#llm-oncall", APIURL: s.URL()},
		Options{Clock: clock, HTTP: s.Client(), Token: func() (string, error) { return "xoxb-1", nil }})
	f := fresh(t)
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 120 {
		f.Incident.AlertCount++
		f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d", i%2)) // one message exists, one does not
		if i%2 == 0 {
			_, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true)
		} else {
			_, err = n.Show(t.Context(), notify.Compose(f), state.Told{}, false)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if edits, searches := s.Calls("chat.update"), s.Calls("conversations.history"); s.Limited() != 0 || edits < 60 || searches < 60 {
		t.Errorf("%d calls came too fast, of %d edits and %d searches", s.Limited(), edits, searches)
	}
}

// A process that takes over goes on with the budget that the one before it has left.
func TestSuccessorKeepsTheTiers(t *testing.T) {
	clock := &notifytest.Clock{Time: time.Now()}
	s := slacktest.New(slacktest.Options{Burst: 1, Now: clock.Now})
	defer s.Close()
	f := fresh(t)
	var ref map[string]string
	terms := 4
	if testing.Short() {
		terms = 2
	}
	for term := range terms {
		began := clock.Now()
		n := New(Config{Channel: "#llm-oncall", APIURL: s.URL()}, Options{Clock: clock, HTTP: s.Client(),
			Token: func() (string, error) { return "xoxb-1", nil }, TookOver: func() time.Time { return began }})
		for i := range 24 {
			f.Incident.AlertCount++
			f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d-%d", term, i))
			shown, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, false)
			if err != nil {
				t.Fatal(err)
			}
			if ref == nil {
				ref = shown
			}
			if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s.Limited() != 0 {
		t.Errorf("%d calls came too fast", s.Limited())
	}
}
