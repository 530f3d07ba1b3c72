package pagerduty

import (
	"slices"
	"strings"
	"testing"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/state"
)

// merged returns the sample incident after it was merged into a root.
func merged(t *testing.T) notify.Message {
	f := notifytest.Facts(t)
	f.Incident.Status, f.Incident.MergedInto, f.Incident.ResolvedBy = state.StatusResolved, "INC-1", "merge"
	f.Root = &state.Incident{Number: 41, Title: "GPU fault on node-7"}
	return notify.Compose(f)
}

func TestMergeNoteSaysOnlyWhatHolds(t *testing.T) {
	f := notifytest.Facts(t)
	f.Incident.Status, f.Incident.MergedInto = state.StatusResolved, "INC-1"
	open := state.Incident{Number: 41, Title: "GPU fault on node-7", Status: state.StatusOpen}
	paged, over := open, open
	paged.Told = state.ToldByOf(map[state.Channel]state.Told{state.ChannelPagerDuty: {Ref: map[string]string{refStatus: triggered}}})
	over.Status = state.StatusResolved
	for want, root := range map[string]*state.Incident{
		"GPU fault on node-7, which is still open and has its own page.": &paged,
		"GPU fault on node-7, which is still open.":                      &open, "GPU fault on node-7.": &over,
	} {
		f.Root = root
		if got := mergeText(notify.Compose(f), "[INC-2]"); !strings.Contains(got, want) {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Robusta, issue 1350: the end of an alert left its first message unchanged. Here the page of a
// merged incident ends, and a note names the root. A failing note does not keep the page open, and
// a retry writes no second one.
func TestRobusta1350MergedPageNamesItsRoot(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{RoutingKey: key, Token: "token", From: []string{"bot@example.com"}})
	ref, err := n.Show(t.Context(), notify.Compose(notifytest.Facts(t)), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	s.Inject(pagerdutytest.Fault{Path: "/incidents", Kind: pagerdutytest.Unavailable})
	ref, err = n.Show(t.Context(), merged(t), state.Told{Ref: ref}, true)
	if err == nil || s.Incidents()[0].Status != "resolved" {
		t.Fatalf("err %v, page %s: it must end though the note cannot be written", err, s.Incidents()[0].Status)
	}
	for range 2 {
		if ref, err = n.Show(t.Context(), merged(t), state.Told{Ref: ref}, false); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Notes("P1"); len(got) != 1 || !strings.Contains(got[0], "#41 GPU fault on node-7") ||
		!strings.Contains(got[0], string(merged(t).Incident)) {
		t.Errorf("notes %q", got)
	}
	if got := s.Events(); len(got) != 2 {
		t.Errorf("events %q, want one trigger and one resolve", got)
	}
}

func TestMergedIncidentWithoutPageIsLeftAlone(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	if _, err := n.Show(t.Context(), merged(t), state.Told{}, true); err != nil || len(s.Events()) != 0 {
		t.Errorf("err %v, events %q", err, s.Events())
	}
	if len(s.Changes()) != 0 {
		t.Errorf("changes %q", s.Changes())
	}
}

// Without a token no note can be written. The page ends, and the service's recent changes name the
// root, once, without paging a person.
func TestMergedPageSendsChangeEventWithoutAPIToken(t *testing.T) {
	for name, c := range map[string]struct {
		key  string
		want int
	}{"a service's key": {key, 1}, "an orchestration's key, which takes no changes": {"R" + key[1:], 0}} {
		n, s := bench(t, pagerdutytest.Options{RoutingKey: c.key})
		n.cfg.APITokenFile, n.cfg.From = "", ""
		n.opt.RoutingKey = func() (string, error) { return c.key, nil }
		m := merged(t)
		m.Title = strings.Repeat("a long title ", 500)
		told := map[string]string{refStatus: triggered}
		s.Inject(pagerdutytest.Fault{Path: "/v2/change", Kind: pagerdutytest.Unavailable})
		if ref, err := n.Show(t.Context(), m, state.Told{Ref: told}, true); (err == nil) != (c.want == 0) || ref[refStatus] != resolved {
			t.Fatalf("%s: err %v, page %v: it must end though the change cannot be sent", name, err, ref)
		} else {
			told = ref
		}
		for range 2 {
			ref, err := n.Show(t.Context(), m, state.Told{Ref: told}, false)
			if err != nil {
				t.Fatal(err)
			}
			told = ref
		}
		if got := s.Changes(); len(got) != c.want || c.want > 0 && !strings.Contains(got[0], "#41 GPU fault on node-7") {
			t.Errorf("%s: changes %q", name, got)
		}
		if !slices.Equal(s.Events(), []string{"resolve " + string(m.Incident)}) || len(s.Incidents()) != 0 {
			t.Errorf("%s: events %q, %d incidents", name, s.Events(), len(s.Incidents()))
		}
	}
}
