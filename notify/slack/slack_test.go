package slack

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"paramedic/notify"
	"paramedic/notify/notifytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

var update = flag.Bool("update", false, "rewrite the files in testdata and deploy")

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench returns a notifier with a fake workspace. The test fails if Slack would refuse a call,
// except for the expected ones.
func bench(t testing.TB, cfg Config, opt slacktest.Options, expected ...string) (*Notifier, *slacktest.Server) {
	t.Helper()
	s := slacktest.New(opt)
	client := &http.Client{Transport: &http.Transport{}, Timeout: 10 * time.Second}
	t.Cleanup(func() {
		client.CloseIdleConnections()
		s.Close()
		for _, f := range s.Failures() {
			ok := false
			for _, e := range expected {
				ok = ok || strings.Contains(f, e)
			}
			if !ok {
				t.Errorf("Slack would have refused: %s", f)
			}
		}
	})
	cfg.APIURL = s.URL()
	if cfg.Channel == "" {
		cfg.Channel = "#llm-oncall"
	}
	cfg.SigningSecretFile = "secret"
	n := New(cfg, Options{
		Clock: &notifytest.Clock{Time: time.Now()}, Log: slog.New(slog.DiscardHandler), HTTP: client,
		Token: func() (string, error) { return "xoxb-test", nil },
	})
	return n, s
}

func fresh(t testing.TB) notify.Facts {
	f := notifytest.Facts(t)
	f.Incident.OpenedAt = time.Now() // Slack's timestamps are current
	return f
}

func TestMessageIsEditedInPlace(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{Burst: 100})
	f := fresh(t)
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	if len(s.Messages()) != 1 || s.Calls("chat.postMessage") != 1 || ref["channel"] != "C0000ONCALL" || ref["thread"] != "3" {
		t.Fatalf("%d messages in %d calls, ref %v; want one call", len(s.Messages()), s.Calls("chat.postMessage"), ref)
	}
	m := s.Messages()[0]
	if got := m.Buttons(ActionApprove); len(got) != 1 || got[0] != "ACT-01|abc123" {
		t.Errorf("approve buttons %q", got)
	}
	if got := m.Buttons(ActionAck); len(got) != 1 || got[0] != string(f.Incident.ID) {
		t.Errorf("acknowledge buttons %q", got)
	}

	f.Incident.AckedAt, f.Incident.AckedBy = time.Now(), &state.Actor{ID: "U1", Name: "Ada"}
	f.Timeline = append(f.Timeline, state.Entry{N: 4, Text: "acknowledged by Ada"}, state.Entry{N: 5, Text: "noted", Quiet: true},
		state.Entry{N: 6, Text: "approved"})
	ref, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Messages(); len(got) != 1 || got[0].Edits != 1 || len(got[0].Buttons(ActionAck)) != 0 ||
		!strings.Contains(string(got[0].Blocks), "acknowledged by Ada") {
		t.Errorf("after the acknowledgement: %d messages, %d edits", len(got), got[0].Edits)
	}
	thread := s.Thread(ref["ts"])
	if len(thread) != 1 || ref["thread"] != "6" || !strings.Contains(string(thread[0].Blocks), "approved") ||
		strings.Contains(string(thread[0].Blocks), "opened") {
		t.Errorf("thread of %d, ref %v", len(thread), ref)
	}

	before := s.Calls("chat.update")
	if ref, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil || s.Calls("chat.update") != before {
		t.Errorf("an edit that changes nothing was made: %v", err)
	}

	f.Incident.Status, f.Incident.ResolvedAt, f.Incident.ResolvedBy = state.StatusResolved, f.Incident.StartedAt.Add(25*time.Minute),
		"alerts"
	if _, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil {
		t.Fatal(err)
	}
	got := s.Messages()[0]
	if len(got.Buttons(ActionApprove)) != 0 || !strings.Contains(string(got.Blocks), "Resolved after 25 min. The alerts ended; Paramedic took no action.") ||
		!strings.Contains(got.Text, "resolved") {
		t.Errorf("resolved: %s", got.Blocks)
	}
}

func TestMergedIncidentNamesItsRoot(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	f := fresh(t)
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Incident.Status, f.Incident.MergedInto, f.Incident.ResolvedBy = state.StatusResolved, "INC-1", "merge"
	f.Root = &state.Incident{Number: 41, Title: "GPU fault on node-7"}
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err != nil {
		t.Fatal(err)
	}
	if got := s.Messages(); len(got) != 1 || !strings.Contains(string(got[0].Blocks), "#41 GPU fault on node-7") {
		t.Errorf("%d messages: %s", len(got), got[0].Blocks)
	}
	f.Incident.ID = "INC-2" // never shown: no message is needed
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil || len(s.Messages()) != 1 {
		t.Errorf("a merged incident was posted: %v", err)
	}
}

// The second attempt leaves one message and one thread entry, after each way in which the first may
// end.
func TestUnknownOutcomeLeavesOneMessage(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault slacktest.Fault
	}{
		{"posted, and the answer was lost", slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Lost}},
		{"not posted", slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Unavailable}},
		{"Slack fell over", slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Code, Text: "fatal_error"}},
		{"an answer that is not Slack's", slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Garbage, Text: "<html>"}},
		{"an answer without a message", slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Garbage, Text: `{"ok":false}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			n, s := bench(t, Config{}, slacktest.Options{})
			s.Inject(c.fault)
			f := fresh(t)
			m := notify.Compose(f)
			ref, err := n.Show(t.Context(), m, state.Told{}, true)
			if err == nil {
				t.Fatal("no error")
			}
			var no *notify.Refused
			if errors.As(err, &no) {
				t.Fatalf("given up: %v", err)
			}
			// A new process, which does not know the channel's ID: the outcome of the first was not
			// stored, or was.
			again := New(n.cfg, n.opt)
			if ref, err = again.Show(t.Context(), m, state.Told{Ref: ref}, false); err != nil {
				t.Fatal(err)
			}
			f.Timeline = append(f.Timeline, state.Entry{N: 9, Text: "acknowledged by Ada"})
			if _, err = again.Show(t.Context(), notify.Compose(f), state.Told{}, false); err != nil {
				t.Fatal(err)
			}
			if len(s.Messages()) != 1 || len(s.Thread(ref["ts"])) != 1 {
				t.Errorf("%d messages, %d replies", len(s.Messages()), len(s.Thread(ref["ts"])))
			}
		})
	}
}

func TestLostThreadEntryIsNotRepeated(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	f := fresh(t)
	entries := f.Timeline
	f.Timeline = nil
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	f.Timeline = entries
	s.Inject(slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Lost})
	if _, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); err == nil {
		t.Fatal("no error")
	}
	f.Timeline = append(f.Timeline, state.Entry{N: 4, Text: "new"})
	if ref, err = n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, false); err != nil {
		t.Fatal(err)
	}
	thread := s.Thread(ref["ts"])
	if len(thread) != 2 || strings.Contains(string(thread[1].Blocks), "opened") || ref["thread"] != "4" {
		t.Errorf("%d replies, ref %v", len(thread), ref)
	}
}

func TestStatusMatrix(t *testing.T) {
	for _, c := range []struct {
		fault slacktest.Fault
		want  string // later, refused, fixable, unknown
		wait  time.Duration
		says  string
	}{
		{slacktest.Fault{Kind: slacktest.Limited, After: 30 * time.Second}, "later", 30 * time.Second, "retry after 30s"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "ratelimited"}, "later", defaultWait, "ratelimited"},
		{slacktest.Fault{Kind: slacktest.Unavailable}, "unknown", 0, "Service Unavailable"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "internal_error"}, "unknown", 0, "internal_error"},
		{slacktest.Fault{Kind: slacktest.Garbage, Text: "[]"}, "unknown", 0, "chat.postMessage"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "channel_not_found"}, "fixable", 0, "check notify.slack.channel"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "not_in_channel"}, "fixable", 0, "invite the bot"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "token_revoked"}, "fixable", 0, "install the app again"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "missing_scope"}, "fixable", 0, "manifest.yaml"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "something_new"}, "refused", 0, "something_new"},
		{slacktest.Fault{Kind: slacktest.Code, Text: "cant_update_message"}, "refused", 0, "another app"},
	} {
		n, s := bench(t, Config{}, slacktest.Options{})
		c.fault.Method = "chat.postMessage"
		s.Inject(c.fault)
		_, err := n.Show(t.Context(), notify.Compose(fresh(t)), state.Told{}, true)
		var later *notify.Later
		var no *notify.Refused
		var fixable *notify.Fixable
		got := "unknown"
		switch {
		case errors.As(err, &later):
			got = "later"
			if later.After != c.wait {
				t.Errorf("%v: wait %s, want %s", c.fault, later.After, c.wait)
			}
		case errors.As(err, &no):
			got = "refused"
		case errors.As(err, &fixable):
			got = "fixable"
		}
		if err == nil || got != c.want || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %s (%v), want %s with %q", c.fault, got, err, c.want, c.says)
		}
		if err != nil && strings.Contains(err.Error(), "xoxb") {
			t.Errorf("the token is in %v", err)
		}
	}
}

func TestHangingSlackEndsWithContext(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	s.Inject(slacktest.Fault{Kind: slacktest.Hang})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := n.Show(ctx, notify.Compose(fresh(t)), state.Told{}, true); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("err %v", err)
	}
}

func TestRefusedBlocksAreSentInBrief(t *testing.T) {
	for _, code := range []string{"invalid_blocks", "msg_blocks_too_long"} {
		n, s := bench(t, Config{}, slacktest.Options{})
		s.Inject(slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Code, Text: code})
		if _, err := n.Show(t.Context(), notify.Compose(fresh(t)), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
		if got := s.Messages(); len(got) != 1 || !strings.Contains(string(got[0].Blocks), "KV cache exhausted") {
			t.Errorf("%s: %d messages", code, len(got))
		}
	}
}

func TestMissingSearchScopePostsAnyway(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	s.Inject(slacktest.Fault{Method: "conversations.list", Kind: slacktest.Code, Text: "missing_scope"})
	if _, err := n.Show(t.Context(), notify.Compose(fresh(t)), state.Told{}, false); err != nil || len(s.Messages()) != 1 {
		t.Errorf("%d messages, err %v", len(s.Messages()), err)
	}
	s.Inject(slacktest.Fault{Method: "conversations.history", Kind: slacktest.Unavailable})
	f := fresh(t)
	f.Incident.ID = "INC-2"
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, false); err == nil || len(s.Messages()) != 1 {
		t.Errorf("posted although the search failed for now: %v", err)
	}
}

func TestSearchReadsSeveralPages(t *testing.T) {
	n, s := bench(t, Config{Channel: "C0000ONCALL"}, slacktest.Options{})
	f := fresh(t)
	f.Timeline = nil
	for i := range 450 {
		f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d", i))
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
	}
	f.Incident.ID = "INC-0"
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, false); err != nil || len(s.Messages()) != 450 {
		t.Errorf("%d messages, err %v", len(s.Messages()), err)
	}
}

func TestDeletedMessageIsNotPostedAgain(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{}, "message_not_found")
	f := fresh(t)
	ref, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	s.Delete(ref["ts"])
	f.Incident.AlertCount++
	var no *notify.Refused
	if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{Ref: ref}, true); !errors.As(err, &no) ||
		!strings.Contains(err.Error(), "deleted") {
		t.Errorf("err %v", err)
	}
}

func TestNotifierStaysBelowOneMessageASecond(t *testing.T) {
	clock := &notifytest.Clock{Time: time.Now()}
	s := slacktest.New(slacktest.Options{Burst: 1, Now: clock.Now})
	client := &http.Client{Transport: &http.Transport{}}
	defer s.Close()
	defer client.CloseIdleConnections()
	n := New(Config{Channel: "#llm-oncall", APIURL: s.URL()},
		Options{Clock: clock, Log: slog.New(slog.DiscardHandler), HTTP: client, Token: func() (string, error) { return "xoxb-1", nil }})
	f := fresh(t)
	for i := range 5 {
		f.Incident.ID = state.IncidentID(fmt.Sprintf("INC-%d", i))
		if _, err := n.Show(t.Context(), notify.Compose(f), state.Told{}, true); err != nil {
			t.Fatal(err)
		}
	}
	if s.Limited() != 0 || len(s.Failures()) != 0 || len(s.Messages()) != 5 {
		t.Errorf("limited %d, failures %v, messages %d", s.Limited(), s.Failures(), len(s.Messages()))
	}
}

func TestConfigIsValidated(t *testing.T) {
	if err := (Config{}).Validate(); err != nil {
		t.Errorf("nothing configured: %v", err)
	}
	err := Config{SigningSecretFile: "x", APIURL: "http://x"}.Validate()
	if err == nil || !strings.Contains(err.Error(), "token_file is missing") || !strings.Contains(err.Error(), "ends in a slash") {
		t.Errorf("err %v", err)
	}
	if err := (Config{TokenFile: "x"}).Validate(); err == nil || !strings.Contains(err.Error(), "channel is missing") {
		t.Errorf("err %v", err)
	}
}

func TestGeneratedManifestIsCurrent(t *testing.T) {
	want, err := Manifest("https://paramedic.example.com/")
	if err != nil {
		t.Fatal(err)
	}
	const file = "../../deploy/slack/manifest.yaml"
	if *update {
		if err := os.WriteFile(file, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != string(want) {
		t.Errorf("%s is not current: run make generate (%v)", file, err)
	}
}

func TestClickNeedsTheButton(t *testing.T) {
	n, s := bench(t, Config{}, slacktest.Options{})
	ref, err := n.Show(t.Context(), notify.Compose(fresh(t)), state.Told{}, true)
	if err != nil {
		t.Fatal(err)
	}
	who := slacktest.Person{ID: "U1", Name: "ada"}
	if body, err := s.Click(who, ref["ts"], ActionApprove, 0); err != nil || !strings.Contains(string(body), "payload=") {
		t.Errorf("%s, %v", body, err)
	}
	if _, err := s.Click(who, ref["ts"], ActionApprove, 1); err == nil {
		t.Error("clicked a button that is not there")
	}
	if h := slacktest.Sign("secret", slacktest.Command(who, "list"),
		time.Unix(1531420618, 0)); !strings.HasPrefix(h.Get("X-Slack-Signature"), "v0=") {
		t.Errorf("signature %v", h)
	}
}
