package story_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/lab"
	"paramedic/lab/alerting"
	"paramedic/lab/drill"
	"paramedic/lab/story"
)

// alerts plays a scenario up to its first alert, and returns the names of those that fire then.
func alerts(t *testing.T, s drill.Scenario) []string {
	t.Helper()
	f, err := s.Build()
	if err != nil {
		t.Fatal(err)
	}
	r := alerting.NewRuler(f, "")
	// Nothing needs a scrape until two minutes before the fault.
	for at := s.Faults[0].At - 2*time.Minute; at <= s.Length; at += alerting.ScrapeInterval {
		f.Advance(f.Start().Add(at))
		var names []string
		for _, a := range r.Evaluate() {
			names = append(names, a.Labels["alertname"])
		}
		if len(names) > 0 {
			if at < s.Faults[0].At {
				t.Errorf("%v fired at %s, before the fault", names, at)
			}
			slices.Sort(names)
			return slices.Compact(names)
		}
	}
	return nil
}

// every returns the stories, or with -short one of each fault that has one of this package.
func every() []story.Story {
	if !testing.Short() {
		return story.All()
	}
	var out []story.Story
	for _, fault := range []string{lab.OOMKilled, lab.GPUThrottle, lab.MonitoringGap} {
		out = append(out, story.Of(fault)[1])
	}
	return out
}

func TestEveryStoryRaisesAnAlert(t *testing.T) {
	for _, st := range every() {
		t.Run(st.ID(), func(t *testing.T) {
			t.Parallel()
			s, err := st.Scenario(7)
			if err != nil {
				t.Fatal(err)
			}
			if len(alerts(t, s)) == 0 {
				t.Error("no alert fires")
			}
		})
	}
}

// A fault's first story is the lab's own, and seeds below 100 play it.
func TestLowSeedsPlayTheFirstStory(t *testing.T) {
	for _, fault := range lab.Faults() {
		stories := story.Of(fault)
		if len(stories) < lab.OwnStories(fault) {
			t.Errorf("%s: %d stories, the lab alone has %d", fault, len(stories), lab.OwnStories(fault))
		}
		s, err := story.New(fault, 7)
		if err != nil {
			t.Fatal(err)
		}
		first, err := drill.New(fault, 7)
		if err != nil {
			t.Fatal(err)
		}
		if s.Story != first.Story || s.Faults[0].Plot != nil || s.Faults[0].Story != 0 {
			t.Errorf("%s: %s", fault, s.Story)
		}
	}
}

// Seeds from 100 on draw every story of a fault.
func TestHighSeedsDrawEveryStory(t *testing.T) {
	for _, fault := range lab.Faults() {
		seen := map[string]bool{}
		for seed := uint64(100); seed < 200; seed++ {
			s, err := story.New(fault, seed)
			if err != nil {
				t.Fatal(err)
			}
			seen[s.Story] = true
		}
		if want := len(story.Of(fault)); len(seen) < want {
			t.Errorf("%s: %d of %d stories in a hundred seeds", fault, len(seen), want)
		}
	}
}

func TestUnknownStoryListsTheOthers(t *testing.T) {
	_, err := story.New("oom_killed/no-such", 1)
	if err == nil || !strings.Contains(err.Error(), "oom_killed/videos, oom_killed/growing-batches") {
		t.Errorf("%v", err)
	}
	if _, err := story.New("no_such_fault", 100); err == nil {
		t.Error("an unknown fault is played")
	}
}

// A rule that fits one way in which a cause shows would be right by chance.
func TestEveryFaultHasThreeStories(t *testing.T) {
	for _, fault := range lab.Faults() {
		if n := len(story.Of(fault)); n < 3 {
			t.Errorf("%s has %d stories", fault, n)
		}
	}
}

func TestStoriesAreNamedOnceAndDescribed(t *testing.T) {
	ids := map[string]bool{}
	for _, st := range story.All() {
		if ids[st.ID()] || st.Name != strings.ToLower(st.Name) || strings.ContainsAny(st.Name, "/ +@,") {
			t.Errorf("bad name %s", st.ID())
		}
		ids[st.ID()] = true
		if !strings.HasSuffix(st.Text, ".") {
			t.Errorf("%s: no sentence: %q", st.ID(), st.Text)
		}
	}
}
