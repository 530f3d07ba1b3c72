package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/cmd/paramedic/config"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack/slacktest"
)

// A channelsCase configures the two fakes and the bot, and lists the expected answers of check.
type channelsCase struct {
	name    string
	slack   slacktest.Options
	pager   pagerdutytest.Options
	secrets map[string]string // file name to what is in it, in place of the good ones
	drop    []string          // keys that are not configured
	channel string
	want    map[string]string // an empty text: ok
}

var goodSecrets = map[string]string{"token_file": "xoxb-1", "signing_secret_file": onCallSecret, "routing_key_file": onCallKey,
	"api_token_file": "y_NbAkKc66ryYTWUXYEu", "webhook_secret_file": "a-secret-of-the-subscription", "from": "bot@example.com"}

// checkOnline runs `check --online` against the two fakes. It returns the answers and the exit
// code.
func checkOnline(t *testing.T, c channelsCase) (map[string]string, int) {
	t.Helper()
	slack, pager := slacktest.New(c.slack), pagerdutytest.New(c.pager)
	t.Cleanup(slack.Close)
	t.Cleanup(pager.Close)
	dir := t.TempDir()
	line := func(key string) string {
		value := goodSecrets[key]
		if v, ok := c.secrets[key]; ok {
			value = v
		}
		for _, d := range c.drop {
			if d == key {
				return ""
			}
		}
		if !strings.HasSuffix(key, "_file") {
			return fmt.Sprintf("    %s: %s\n", key, value)
		}
		put(t, dir, key, []byte(value))
		return fmt.Sprintf("    %s: %s\n", key, filepath.Join(dir, key))
	}
	if c.channel == "" {
		c.channel = "#llm-oncall"
	}
	file := filepath.Join(dir, "paramedic.yaml")
	put(t, dir, "paramedic.yaml", fmt.Appendf(nil,
		"clusters: [{name: prod}]\nnotify:\n  slack:\n%s%s    channel: %q\n    api_url: %s\n  pagerduty:\n%s%s%s%s    events_url: %s\n   "+
			" api_url: %s\n",
		line("token_file"), line("signing_secret_file"), c.channel, slack.URL(), line("routing_key_file"), line("api_token_file"),
		line("from"), line("webhook_secret_file"), pager.URL(), pager.URL()))
	var out, errs bytes.Buffer
	code := run(t.Context(), []string{"check", "--online", "-o", "json", "--config", file}, &out, &errs)
	var got checkResult
	if err := json.Unmarshal(out.Bytes(), &got); err != nil || len(got.Problems) > 0 {
		t.Fatalf("%v\n%s%s", err, &out, &errs)
	}
	if len(slack.Messages()) > 0 || len(pager.Events()) > 0 || len(pager.Changes()) > 0 || len(pager.Notes("Q0000000000000")) > 0 {
		t.Errorf("somebody was told: %v %v", slack.Messages(), pager.Events())
	}
	return got.Online, code
}

// check finds channels that are not ready, before the first page, and says what to click.
func TestCheckProvesWhatChannelsNeed(t *testing.T) {
	users := pagerdutytest.Options{From: []string{"bot@example.com"}}
	for _, c := range []channelsCase{
		{name: "all is well", pager: users, want: map[string]string{"slack token": "", "slack channel #llm-oncall": "", "slack scopes": "",
			"slack signing secret":  "",
			"pagerduty routing key": "", "pagerduty api token": "", "pagerduty webhook secret": ""}},
		{name: "a channel that is not there", pager: users, channel: "#typo",
			want: map[string]string{"slack channel #typo": "there is no channel #typo that the bot can see: check notify.slack.channel"}},
		{name: "an ID that is not there", pager: users, channel: "C0123456789",
			want: map[string]string{"slack channel C0123456789": "there is no channel C0123456789"}},
		{name: "not a member", pager: users, slack: slacktest.Options{Absent: []string{"llm-oncall"}},
			want: map[string]string{"slack channel #llm-oncall": "open it in Slack and type /invite @paramedic"}},
		{name: "archived", pager: users, slack: slacktest.Options{Archived: []string{"llm-oncall"}},
			want: map[string]string{"slack channel #llm-oncall": "is archived"}},
		{name: "a private channel without its scopes", pager: users, channel: "#war-room",
			slack: slacktest.Options{Channels: map[string]string{"war-room": "C0000WAR"}, Private: []string{"war-room"},
				Scopes: []string{"chat:write", "commands", "channels:read", "channels:history"}},
			want: map[string]string{"slack channel #war-room": "if it is private, open it",
				"slack scopes": "missing groups:read, groups:history"}},
		{name: "no scope to post", pager: users, slack: slacktest.Options{Scopes: []string{"commands", "channels:read"}},
			want: map[string]string{"slack scopes": "missing chat:write, channels:history: open https://api.slack.com/apps, choose the " +
				"app, OAuth & Permissions"}},
		{name: "no scope to look", pager: users, slack: slacktest.Options{Scopes: []string{"chat:write", "commands"}},
			want: map[string]string{"slack scopes": "missing channels:read",
				"slack channel #llm-oncall": "without the scope channels:read"}},
		{name: "no signing secret", pager: users, drop: []string{"signing_secret_file"},
			want: map[string]string{"slack signing secret": "refuses /paramedic and shows no buttons: set " +
				"notify.slack.signing_secret_file"}},
		{name: "messages only, on purpose", pager: users, drop: []string{"signing_secret_file", "webhook_secret_file", "api_token_file",
			"from"},
			slack: slacktest.Options{Scopes: []string{"chat:write", "channels:read", "channels:history"}},
			want:  map[string]string{"slack signing secret": leftOff, "pagerduty webhook secret": leftOff, "pagerduty api token": leftOff}},
		{name: "a secret that is the app's ID", pager: users, secrets: map[string]string{"signing_secret_file": "A012345"},
			want: map[string]string{"slack signing secret": "it has 7 characters and is not 32 letters and digits"}},
		{name: "another token", pager: users, slack: slacktest.Options{Token: "xoxb-2"},
			want: map[string]string{"slack token": "copy the Bot User OAuth Token"}},
		{name: "a routing key of five characters", pager: users, secrets: map[string]string{"routing_key_file": "abcde"},
			want: map[string]string{"pagerduty routing key": "it has 5 characters and is not 32 letters and digits"}},
		{name: "a token that is not known", pager: pagerdutytest.Options{From: []string{"bot@example.com"}, Token: "another"},
			want: map[string]string{"pagerduty api token": "Create New API Key"}},
		{name: "a token that may only read", pager: pagerdutytest.Options{From: []string{"bot@example.com"}, ReadOnly: true},
			want: map[string]string{"pagerduty api token": "may read and not write notes (403): open Integrations, API Access Keys"}},
		{name: "nobody has the address", pager: pagerdutytest.Options{From: []string{"ada@example.com"}},
			want: map[string]string{"pagerduty api token": "no user has the address bot@example.com"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, code := checkOnline(t, c)
			wrong := false
			for what, text := range c.want {
				if answer, asked := got[what]; !asked || text == "" && answer != "ok" || !strings.Contains(answer, text) {
					t.Errorf("%s: %q, want %q", what, answer, text)
				}
				wrong = wrong || text != "" && text != leftOff
			}
			for what, answer := range got {
				if strings.Contains(answer, "xoxb-") && !strings.Contains(answer, "xoxb-…") || strings.Contains(answer, onCallKey) ||
					strings.Contains(answer, onCallSecret) {
					t.Errorf("%s shows a secret: %s", what, answer)
				}
				if _, expected := c.want[what]; !expected && answer != "ok" {
					t.Errorf("%s: %q, which nothing is wrong with", what, answer)
				}
			}
			if want := map[bool]int{true: exitFinding, false: exitOK}[wrong]; code != want {
				t.Errorf("exit code %d, want %d: %v", code, want, got)
			}
		})
	}
}

// The command check reports missing links as a note, not as a problem.
func TestCheckNotesMissingLinks(t *testing.T) {
	for url, want := range map[string]int{"": 1, "https://ops.example.com": 0} {
		cfg := config.Config{Listen: "0.0.0.0:8080", PublicURL: url}
		cfg.Notify.Slack.TokenFile = "token"
		var out checkResult
		if out.notes(cfg); len(out.Notes) != want || out.findings() != 0 {
			t.Errorf("public_url %q: %q, %d findings", url, out.Notes, out.findings())
		}
	}
}
