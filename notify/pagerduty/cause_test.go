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

// of returns the sample incident with another cause. An empty cause is no verdict.
func of(t *testing.T, cause state.Cause) notify.Message {
	m := notify.Compose(notifytest.Facts(t))
	m.Cause, m.Diagnosed = cause, cause != ""
	m.Title = "It is " + string(cause)
	return m
}

// causes shows the incident with one cause after another, each twice.
func causes(t *testing.T, n *Notifier, list ...state.Cause) map[string]string {
	t.Helper()
	var ref map[string]string
	for _, cause := range list {
		for range 2 {
			var err error
			if ref, err = n.Show(t.Context(), of(t, cause), state.Told{Ref: ref}, true); err != nil {
				t.Fatal(err)
			}
		}
	}
	return ref
}

// A page that was sent before its cause was known reports the cause later, and pages no person
// again.
func TestPageReportsNewCause(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{RoutingKey: key, Token: "token", From: []string{"bot@example.com"}})
	causes(t, n, "", state.Unknown, "kv_exhaustion", "kv_leak")
	notes := s.Notes("P1")
	if len(notes) != 2 || !strings.HasPrefix(notes[0], "#42 It is kv_exhaustion: critical, 93 % sure\nParamedic [") ||
		!strings.Contains(notes[0], "kv_exhaustion, in place of no verdict:") ||
		!strings.Contains(notes[1], "kv_leak, in place of kv_exhaustion:") {
		t.Errorf("notes %q", notes)
	}
	if len(s.Events()) != 1 || len(s.Changes()) != 0 {
		t.Errorf("events %q, changes %q", s.Events(), s.Changes())
	}
}

func TestPageWithoutTokenGetsChangeEvent(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{RoutingKey: key})
	n.cfg.APITokenFile, n.cfg.From = "", ""
	causes(t, n, state.Unknown, "kv_exhaustion")
	if got := s.Changes(); len(got) != 1 || got[0] != "#42 It is kv_exhaustion: critical, 93 % sure (kv_exhaustion; before: unknown)" {
		t.Errorf("changes %q", got)
	}
	if !slices.Equal(s.Events(), []string{"trigger " + string(of(t, "").Incident)}) {
		t.Errorf("events %q", s.Events())
	}
}

func TestPageReportsAtMostFourCauses(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	causes(t, n, "", "a", "b", "c", "d", "e", "f")
	if got := s.Notes("P1"); len(got) != mostCauses {
		t.Errorf("%d notes", len(got))
	}
}

// A failing note delays neither an acknowledgement nor the end, and a lost answer writes the note
// once.
func TestCauseNoteIsRetried(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	ref := causes(t, n, state.Unknown)
	s.Inject(pagerdutytest.Fault{Path: "/incidents", Kind: pagerdutytest.Unavailable})
	ref, err := n.Show(t.Context(), of(t, "kv_leak"), state.Told{Ref: ref}, true)
	if err == nil || ref[refStatus] != triggered || ref[refCause] != "unknown" {
		t.Fatalf("%v %v", ref, err)
	}
	for range 2 {
		if _, err := n.Show(t.Context(), of(t, "kv_leak"), state.Told{Ref: ref}, false); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.Notes("P1"); len(got) != 1 {
		t.Errorf("notes %q", got)
	}
}
