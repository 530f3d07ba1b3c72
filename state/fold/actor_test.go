package fold

import (
	"strings"
	"testing"

	"paramedic/state"
)

// The timeline has a person's ID beside the name, because people can change their names.
func TestTimelineNamesPeopleByID(t *testing.T) {
	for by, want := range map[state.Actor]string{
		{ID: "U02ABC", Name: "root", Via: "slack"}:                      "root (slack:U02ABC)",
		{ID: "U02ABC", Via: "slack"}:                                    "slack:U02ABC",
		{ID: "P1", Name: "Ben Ito", Via: "pagerduty"}:                   "Ben Ito (pagerduty:P1)",
		{ID: "ana", Name: "ana", Via: "api", Role: state.Admin}:         "ana",
		{ID: "root", Name: "root", Via: "api", Unverified: true}:        "root (unverified)",
		{ID: "local", Via: "page", Role: state.Admin, Unverified: true}: "local",
		{ID: "paramedic", Via: "paramedic"}:                             "paramedic",
		{Name: "Ada"}:                                                   "Ada",
		{}:                                                              "",
	} {
		if got := by.String(); got != want {
			t.Errorf("%+v is %q, want %q", by, got, want)
		}
	}
	s := newStory(t)
	s.alert(state.Firing, "KVFull", "kv_pressure", "critical", "llama")
	in := s.onlyIncident()
	s.apply(state.Input{Command: &state.Command{Verb: state.VerbAck, Incident: in.ID, Actor: state.Actor{ID: "U02ABC", Name: "root",
		Via: "slack"}}})
	if last := s.entries[len(s.entries)-1]; !strings.Contains(last.Text, "acknowledged by root (slack:U02ABC)") {
		t.Errorf("the timeline says %q", last.Text)
	}
}
