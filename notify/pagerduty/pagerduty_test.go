package pagerduty

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/state"
)

var update = flag.Bool("update", false, "rewrite the files in testdata")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "0123456789abcdef0123456789abcdef"

// bench returns a notifier with a fake account. The test fails if PagerDuty would refuse a request.
func bench(t testing.TB, opt pagerdutytest.Options) (*Notifier, *pagerdutytest.Server) {
	t.Helper()
	clock := &notifytest.Clock{Time: time.Now()}
	if opt.Now == nil {
		opt.Now = clock.Now
	}
	s := pagerdutytest.New(opt)
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		s.Close()
		for _, f := range s.Failures() {
			t.Errorf("PagerDuty would have refused: %s", f)
		}
	})
	return New(Config{EventsURL: s.URL(), APIURL: s.URL(), APITokenFile: "x", From: "bot@example.com"},
		Options{Clock: clock, HTTP: client, RoutingKey: notifytest.Secret(key), APIToken: notifytest.Secret("token")}), s
}

func TestPageFromTriggerToResolve(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{RoutingKey: key})
	f := notifytest.Facts(t)
	told := state.Told{}
	show := func(want ...string) {
		t.Helper()
		ref, err := n.Show(t.Context(), notify.Compose(f), told, true)
		if err != nil {
			t.Fatal(err)
		}
		told.Ref = ref
		var got []string
		for _, e := range s.Events() {
			got = append(got, strings.Fields(e)[0])
		}
		if !cmp.Equal(got, want) {
			t.Errorf("events %v, want %v", got, want)
		}
	}
	show("trigger")
	f.Incident.AlertCount++
	show("trigger")
	f.Incident.AckedAt, f.Incident.AckedBy = time.Now(), &state.Actor{ID: "U1", Via: "slack"}
	show("trigger", "acknowledge")
	show("trigger", "acknowledge")
	f.Incident.Status = state.StatusResolved
	show("trigger", "acknowledge", "resolve")
	f.Incident.Status = state.StatusOpen // a late retry of an old message
	show("trigger", "acknowledge", "resolve")
	in := s.Incidents()
	if len(in) != 1 || in[0].Status != "resolved" || in[0].Severity != "critical" ||
		in[0].Summary != "#42 KV cache exhausted on llama-70b (3 of 4 workers): critical, 93 % sure" {
		t.Fatalf("incidents %+v", in)
	}
	if len(in[0].Links) != 2 || !strings.Contains(fmt.Sprint(in[0].Details), "max_num_seqs 256 → 128") {
		t.Errorf("links %v, details %v", in[0].Links, in[0].Details)
	}
}

func TestStateTable(t *testing.T) {
	acked := func(via string) func(*notify.Message) {
		return func(m *notify.Message) { m.AckedAt, m.AckedBy = time.Now(), state.Actor{ID: "U1", Via: via} }
	}
	over := func(m *notify.Message) { m.Status = state.StatusResolved }
	benign := func(m *notify.Message) { m.Cause = state.BenignAlert }
	for _, c := range []struct {
		name   string
		with   func(*notify.Message)
		status string
		fresh  bool
		want   []step
	}{
		{"acknowledged before the page got out", acked("slack"), "", true, []step{{"trigger", triggered}, {"acknowledge", acknowledged}}},
		{"acknowledged, and then it needs a person", func(m *notify.Message) { acked("slack")(m); m.HandedAt = m.AckedAt.Add(time.Second) }, "", true, []step{{"trigger", triggered}}},
		{"it needs a person, and one has acknowledged", func(m *notify.Message) { acked("slack")(m); m.HandedAt = m.AckedAt.Add(-time.Second) }, "", true,
			[]step{{"trigger", triggered}, {"acknowledge", acknowledged}}},
		{"acknowledged in PagerDuty", acked("pagerduty"), triggered, true, []step{{"", acknowledged}}},
		{"over before anybody was paged", over, "", true, nil},
		{"over while a trigger may have got through", over, "", false, []step{{"resolve", resolved}}},
		{"over", over, acknowledged, true, []step{{"resolve", resolved}}},
		{"over twice", over, resolved, false, nil},
		{"benign never pages", benign, "", true, nil},
		{"benign, and a trigger may have got through", benign, "", false, []step{{"", perhaps}}},
		{"benign after the page", benign, triggered, true, nil},
		{"benign after a page without an answer", benign, perhaps, true, nil},
		{"a fault after a page without an answer", func(*notify.Message) {}, perhaps, true, []step{{"trigger", triggered}}},
		{"over after a page without an answer", over, perhaps, true, []step{{"resolve", resolved}}},
	} {
		m := notify.Compose(notifytest.Facts(t))
		c.with(&m)
		if got := steps(m, map[string]string{refStatus: c.status}, c.fresh); !cmp.Equal(got, c.want, cmp.AllowUnexported(step{})) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
}

// A page that was sent for a warning does not ring for what is critical, so a new one replaces it.
func TestRiseInSeverityReplacesThePage(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	f := notifytest.Facts(t)
	var ref map[string]string
	show := func(severity state.Severity) {
		t.Helper()
		f.Incident.Severity = severity
		f.Incident.Rev++
		var err error
		if ref, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil {
			t.Fatal(err)
		}
	}
	for _, severity := range []state.Severity{state.Warning, state.Warning, state.Critical, state.Critical, state.Warning} {
		show(severity)
	}
	in := s.Incidents()
	if len(in) != 2 || in[0].Status != "resolved" || in[1].Status != "triggered" || in[1].Severity != "critical" {
		t.Errorf("incidents %+v", in)
	}
}

// A rule that fires on a healthy pool rings no one again, however severe it calls itself.
func TestBenignPageIsNotReplaced(t *testing.T) {
	m := notify.Compose(notifytest.Facts(t))
	m.Severity, m.Cause = state.Critical, state.BenignAlert
	if got := steps(m, map[string]string{refStatus: triggered, refSeverity: string(state.Warning)}, true); len(got) > 0 {
		t.Errorf("%v", got)
	}
}

// A key that is refused today may be accepted tomorrow. A refused event never is.
func TestRefusedKeyIsTriedAgain(t *testing.T) {
	for status, want := range map[int]bool{400: false, 401: true, 403: true, 404: true, 407: true, 413: false} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(status) }))
		n := New(Config{EventsURL: server.URL}, Options{Clock: state.SystemClock{}, RoutingKey: func() (string, error) { return "key", nil }})
		_, err := n.Show(t.Context(), notify.Compose(notifytest.Facts(t)), state.Told{}, true)
		server.Close()
		var fixable *notify.Fixable
		if err == nil || errors.As(err, &fixable) != want {
			t.Errorf("%d: %v, can be fixed: %t", status, err, !want)
		}
	}
}

// The answer to every event is lost once. The page still ends, and no person is paged twice.
func TestRetriesKeepTheOrder(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	f := notifytest.Facts(t)
	ref := map[string]string{}
	deliver := func() {
		t.Helper()
		s.Inject(pagerdutytest.Fault{Kind: pagerdutytest.Lost})
		got, err := n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true)
		if err == nil {
			t.Fatal("no error")
		}
		s.Inject(pagerdutytest.Fault{Kind: pagerdutytest.Unavailable})
		if got, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: got}, false); err == nil {
			t.Fatal("no error")
		}
		if ref, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: got}, false); err != nil {
			t.Fatal(err)
		}
	}
	deliver()
	f.Incident.AckedAt, f.Incident.AckedBy = time.Now(), &state.Actor{ID: "U1", Via: "page"}
	deliver()
	f.Incident.Status = state.StatusResolved
	deliver()
	if in := s.Incidents(); len(in) != 1 || in[0].Status != "resolved" {
		t.Errorf("incidents %+v", in)
	}
}

func TestStatusMatrix(t *testing.T) {
	for _, c := range []struct {
		fault pagerdutytest.Fault
		want  string
		wait  time.Duration
		says  string
	}{
		{pagerdutytest.Fault{Kind: pagerdutytest.Limited, After: 45 * time.Second}, "later", 45 * time.Second, "429"},
		{pagerdutytest.Fault{Kind: pagerdutytest.Limited}, "later", defaultWait, "429"},
		{pagerdutytest.Fault{Kind: pagerdutytest.Unavailable}, "unknown", 0, "503"},
		{pagerdutytest.Fault{Kind: pagerdutytest.Lost}, "unknown", 0, "500"},
		{pagerdutytest.Fault{Kind: pagerdutytest.Invalid, Text: "summary is bad"}, "refused", 0, "summary is bad"},
		{pagerdutytest.Fault{Kind: pagerdutytest.Garbage, Text: "<html>"}, "", 0, ""},
	} {
		n, s := bench(t, pagerdutytest.Options{})
		s.Inject(c.fault)
		_, err := n.Show(t.Context(), notify.Compose(notifytest.Facts(t)), state.Told{}, true)
		var later *notify.Later
		var no *notify.Refused
		got := "unknown"
		switch {
		case err == nil:
			got = ""
		case errors.As(err, &later):
			got = "later"
			if later.After != c.wait {
				t.Errorf("%v: wait %s, want %s", c.fault, later.After, c.wait)
			}
		case errors.As(err, &no):
			got = "refused"
		}
		if got != c.want || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %s (%v), want %s", c.fault, got, err, c.want)
		}
		if err != nil && strings.Contains(err.Error(), key) {
			t.Errorf("the routing key is in %v", err)
		}
	}
}

func TestHangingPagerDutyEndsWithContext(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	s.Inject(pagerdutytest.Fault{Kind: pagerdutytest.Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.Show(ctx, notify.Compose(notifytest.Facts(t)), state.Told{}, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err %v", err)
	}
}

func TestNotifierStaysBelowRateLimit(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{PerMinute: 120})
	f := notifytest.Facts(t)
	for i := range 300 {
		f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d", i))
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
	}
	if s.Limited() != 0 || len(s.Incidents()) != 300 {
		t.Errorf("limited %d, incidents %d", s.Limited(), len(s.Incidents()))
	}
}

// A process that takes over goes on with the budget that the one before it has left.
func TestSuccessorStaysBelowRateLimit(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{PerMinute: 120})
	f := notifytest.Facts(t)
	for term := range 3 {
		for i := range 100 {
			f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d-%d", term, i))
			if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
				t.Fatal(err)
			}
		}
		opt, began := n.opt, n.opt.Clock.Now()
		opt.TookOver = func() time.Time { return began }
		n = New(n.cfg, opt)
	}
	if s.Limited() != 0 || len(s.Incidents()) != 300 {
		t.Errorf("limited %d, incidents %d", s.Limited(), len(s.Incidents()))
	}
}

func TestMessagesStayWithinVendorLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED with -short (the race detector makes it ten times as long): run by make test")
	}
	n, s := bench(t, pagerdutytest.Options{})
	f := notifytest.Facts(t)
	for i, text := range []string{strings.Repeat("漢", 10000), strings.Repeat("😀", 10000), strings.Repeat("<&\x00", 10000), strings.Repeat(`"\`, 10000)} {
		f.Incident.ID, f.Incident.Title, f.Incident.Severity = state.IncidentID(fmt.Sprintf("INC-%d", i)), text, "weird"
		f.Incident.Scope = state.Scope{Cluster: text, Pool: text, Pods: []string{text, text, text}}
		f.Incident.Diagnosis.Story = state.Story{What: text, Why: text, Else: text, Do: []string{text}, Avoid: []string{text}}
		for range 500 {
			f.Incident.Diagnosis.Findings = append(f.Incident.Diagnosis.Findings, state.Finding{Text: text})
			f.Actions = append(f.Actions,
				state.Action{Change: text, Command: text, State: state.Proposed, Guards: []state.GuardResult{{Guard: text, Reason: text}}})
			f.Playbook.Checks = append(f.Playbook.Checks, notify.Check{Ask: text, Answer: text})
		}
		m := notify.Compose(f)
		if _, err := n.Show(t.Context(), m, state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		if err := n.Note(t.Context(), m, "P1", ""); err != nil {
			t.Fatal(err)
		}
		m.URL = "https://example.com/" + strings.Repeat("x", 600<<10)
		e := event(key, m)
		if size(e) > limitBody {
			t.Errorf("a body of %d bytes", size(e))
		}
	}
	if len(s.Incidents()) != 4 || len(s.Notes("P1")) != 4 {
		t.Errorf("%d incidents, %d notes", len(s.Incidents()), len(s.Notes("P1")))
	}
}

func TestNoteIsWrittenOncePerIncident(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{Token: "token", From: []string{"bot@example.com"}})
	m := notify.Compose(notifytest.Facts(t))
	s.Inject(pagerdutytest.Fault{Path: "/nothing"})
	for range 3 {
		if err := n.Note(t.Context(), m, "PFOREIGN", ""); err != nil {
			t.Fatal(err)
		}
	}
	notes := s.Notes("PFOREIGN")
	if len(notes) != 1 || !strings.Contains(notes[0], string(m.Incident)) ||
		!strings.Contains(notes[0], "Do not: Do not raise gpu_memory_utilization") || !strings.Contains(notes[0], m.PlaybookURL) {
		t.Errorf("notes %q", notes)
	}
	var no *notify.Refused
	if err := n.Note(t.Context(), m, "../users", ""); !errors.As(err, &no) {
		t.Errorf("a path as an ID: %v", err)
	}
	n.cfg.APITokenFile = ""
	if err := n.Note(t.Context(), m, "P2", ""); !errors.As(err, &no) {
		t.Errorf("not configured: %v", err)
	}
}

func TestLostNoteIsNotRepeated(t *testing.T) {
	n, s := bench(t, pagerdutytest.Options{})
	m := notify.Compose(notifytest.Facts(t))
	// The first request reads the notes, the second writes one and loses the answer.
	s.Inject(pagerdutytest.Fault{Path: "/notes", Kind: pagerdutytest.Unavailable})
	if err := n.Note(t.Context(), m, "P1", ""); err == nil {
		t.Fatal("no error")
	}
	if err := n.Note(t.Context(), m, "P1", ""); err != nil {
		t.Fatal(err)
	}
	if err := n.Note(t.Context(), m, "P1", ""); err != nil || len(s.Notes("P1")) != 1 {
		t.Errorf("%d notes, err %v", len(s.Notes("P1")), err)
	}
}

func TestRendering(t *testing.T) {
	f := notifytest.Facts(t)
	e := event(key, notify.Compose(f))
	b, err := json.MarshalIndent(e, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	for file, got := range map[string]string{"testdata/trigger.json": string(b) + "\n",
		"testdata/note.txt": noteText(notify.Compose(f), "") + "\n"} {
		if *update {
			if err := os.MkdirAll("testdata", 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), got); diff != "" {
			t.Errorf("%s: %s", file, diff)
		}
	}
}

func TestConfigIsValidated(t *testing.T) {
	if err := (Config{RoutingKeyFile: "x", EventsURL: "http://127.0.0.1:1"}).Validate(); err != nil {
		t.Error(err)
	}
	err := Config{APITokenFile: "x", EventsURL: "https://x/v2/enqueue", APIURL: "ftp://x"}.Validate()
	for _, want := range []string{"need both api_token_file and from", "events_url", "api_url"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}

func FuzzReplies(f *testing.F) {
	for _, seed := range []string{`{"notes":[]}`, `{"notes":null}`, `null`, `[]`, `{"error":{"errors":[]}}`, `{"notes":[{"content":3}]}`, "\x00"} {
		f.Add(seed, 200)
		f.Add(seed, 400)
	}
	f.Fuzz(func(t *testing.T, body string, status int) {
		c := &call{http: &http.Client{Transport: answer{body, 200 + (status%400+400)%400}}}
		n := New(Config{APITokenFile: "x", From: "a@b"}, Options{Clock: &notifytest.Clock{}, HTTP: c.http,
			RoutingKey: func() (string, error) { return key, nil }, APIToken: func() (string, error) { return "t", nil }})
		m := notify.Compose(notify.Facts{Incident: state.Incident{ID: "INC-1"}})
		_, err := n.Show(t.Context(), m, state.Told{}, true)
		_ = n.Note(t.Context(), m, "P1", "")
		if err != nil && len(err.Error()) > 4000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// answer is a PagerDuty that always returns the same answer.
type answer struct {
	body   string
	status int
}

func (a answer) RoundTrip(r *http.Request) (*http.Response, error) {
	rec := &http.Response{StatusCode: a.status, Header: http.Header{}, Request: r, Body: http.NoBody}
	rec.Body = readCloser{strings.NewReader(a.body)}
	return rec, nil
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
