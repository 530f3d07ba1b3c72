package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack"
	"paramedic/notify/slack/slacktest"
	"paramedic/state"
)

// A logbook holds the lines that a bot has logged. It is an io.Writer for a JSON handler.
type logbook struct {
	mu    sync.Mutex
	lines []string
}

func (b *logbook) Write(line []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.lines = append(b.lines, string(bytes.TrimSpace(line)))
	return len(line), nil
}

// logger returns a logger of all levels that writes into the book.
func (b *logbook) logger() *slog.Logger {
	return slog.New(slog.NewJSONHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}))
}

// named returns the lines with the message.
func (b *logbook) named(message string) []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.lines), func(line string) bool { return !strings.Contains(line, `"msg":"`+message) })
}

// A faultyStore fails where a test wants it to.
type faultyStore struct {
	state.Store
	mu    sync.Mutex
	takes func(state.Input) bool // nil: all
	lists bool
}

func (s *faultyStore) set(takes func(state.Input) bool, lists bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.takes, s.lists = takes, lists
}

func (s *faultyStore) Append(ctx context.Context, inputs ...state.Input) error {
	s.mu.Lock()
	takes := s.takes
	s.mu.Unlock()
	if takes != nil && !slices.ContainsFunc(inputs, takes) {
		return fmt.Errorf("%w: the disk is full", state.ErrUnavailable)
	}
	return s.Store.Append(ctx, inputs...)
}

func (s *faultyStore) List(ctx context.Context, partition int, prefixes ...string) ([]state.Record, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.lists {
		return nil, errors.New("the disk is damaged")
	}
	return s.Store.List(ctx, partition, prefixes...)
}

// Whatever fails while the bot works on an incident, the line in its log names the incident.
func TestLogNamesTheIncidentOnEachLine(t *testing.T) {
	dir, book := t.TempDir(), &logbook{}
	put(t, dir, "own.tmpl", []byte(`{{ define "paramedic.slack.title" }}{{ if eq .CommonLabels.pod "vllm-llama-6d5f8c7b9-abcde" }}{{ index .Alerts 99 }}{{ end }}{{ end }}`))
	gone := httptest.NewServer(http.NotFoundHandler())
	defer gone.Close()
	faulty := &faultyStore{lists: true}
	o := &onCall{t: t, dir: t.TempDir(), settle: "10ms", slack: slacktest.New(slacktest.Options{}),
		pager: pagerdutytest.New(pagerdutytest.Options{RoutingKey: onCallKey}), log: book.logger(),
		extra: fmt.Sprintf("  templates: [%q]\nremediate: {mode: approve}\nclusters: [{name: default, prometheus: {url: %q}}]\n",
			filepath.Join(dir, "*.tmpl"), gone.URL),
		store: func(s state.Store) state.Store { faulty.Store = s; return faulty }}
	o.slack.Inject(slacktest.Fault{Method: "chat.postMessage", Kind: slacktest.Code, Text: "invalid_blocks"})
	o.begin(approverTokens)
	noOutcome := func(in state.Input) bool { return in.Outcome == nil }
	faulty.set(noOutcome, true)
	o.alert(kvFull)
	o.await("an outcome is refused", func() bool { return len(book.named("the log does not take an outcome")) > 0 })
	faulty.set(nil, true)
	o.await("paged", o.paged)
	d := &approvalBot{onCall: o, in: o.bot.Keeper.Incidents()[0]}
	a := d.plan(nil)
	d.approve("api", approvers[0], a, a.PlanHash)
	o.await("the run takes a step", func() bool { return len(book.named("step")) > 0 })

	faulty.set(func(in state.Input) bool { return in.Command == nil }, false)
	b := d.plan(nil)
	d.approve("api", approvers[0], b, b.PlanHash)
	d.approve("api", approvers[1], b, b.PlanHash) // a viewer
	payload, err := json.Marshal(map[string]any{"type": "block_actions", "user": map[string]string{"id": "U0GUEST", "username": "guest"},
		"trigger_id": "t", "response_url": "https://elsewhere.example/",
		"actions": []any{map[string]string{"action_id": slack.ActionAck, "value": string(d.in.ID)}}})
	if err != nil {
		t.Fatal(err)
	}
	click := []byte(url.Values{"payload": {string(payload)}}.Encode())
	d.answer("/webhook/slack/interaction", click, slacktest.Sign(onCallSecret, click, time.Now()))
	o.stop()
	o.start() // on its timelines, which it has to read now
	t.Setenv("PARAMEDIC_TOKEN", approvers[0].token)
	ask(t, exitError, "incidents", "report", "1", "--server", o.url)
	page, err := http.NewRequestWithContext(t.Context(), http.MethodGet, o.url+"/incidents/"+string(d.in.ID), nil)
	if err != nil {
		t.Fatal(err)
	}
	page.Header.Set("Authorization", "Bearer "+approvers[0].token)
	resp, err := http.DefaultClient.Do(page)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()

	for _, message := range []string{"a template failed", "slack refused the message's blocks", "the log does not take an outcome", "step",
		"evidence gathered", "input was not made durable", "refused attempt was not recorded", "Slack's response_url is not Slack's",
		"the timeline could not be read", "page cannot be made"} {
		lines := book.named(message)
		if len(lines) == 0 {
			t.Errorf("nothing is logged of %q", message)
		}
		for _, line := range lines {
			if !strings.Contains(line, fmt.Sprintf(`"incident":%q`, d.in.ID)) {
				t.Errorf("the line does not name the incident: %s", line)
			}
		}
	}
	for _, line := range book.named("") {
		if strings.Contains(line, string(d.in.ID)) != strings.Contains(line, fmt.Sprintf(`"incident":%q`, d.in.ID)) {
			t.Errorf("the line has the incident under another key: %s", line)
		}
	}
}
