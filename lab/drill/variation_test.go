package drill

import (
	"testing"

	"paramedic/lab"
)

// The fleet tells as many stories of each fault as there are pools in which they show.
func TestEveryOwnStoryHasItsPool(t *testing.T) {
	for _, fault := range lab.Faults() {
		if got, want := len(variations[fault])+1, lab.OwnStories(fault); got != want {
			t.Errorf("%s has %d pools for %d stories", fault, got, want)
		}
		told := map[string]bool{}
		for story := range lab.OwnStories(fault) {
			s, err := Story(fault, story, 1)
			if err != nil {
				t.Fatal(err)
			}
			if s.Story == "" || told[s.Story] || s.Faults[0].Story != story {
				t.Errorf("%s, story %d: %q", fault, story, s.Story)
			}
			told[s.Story] = true
			if err := s.Config.Validate(); err != nil {
				t.Errorf("%s, story %d: %v", fault, story, err)
			}
		}
	}
}
