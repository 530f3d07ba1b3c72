package pipeline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"paramedic/e2e/bot"
	"paramedic/notify/pagerduty/pagerdutytest"
	"paramedic/notify/slack/slacktest"
	"paramedic/webhook/api"
)

const (
	intakeToken = "what-alertmanager-says"
	slackToken  = "xoxb-e2e"
	routingKey  = "0123456789abcdef0123456789abcdef"
)

// chats holds the fakes of Slack and PagerDuty. They outlive the bot's processes.
type chats struct {
	slack *slacktest.Server
	pager *pagerdutytest.Server
}

func newChats(t *testing.T) chats {
	c := chats{slacktest.New(slacktest.Options{Token: slackToken}), pagerdutytest.New(pagerdutytest.Options{RoutingKey: routingKey})}
	t.Cleanup(c.slack.Close)
	t.Cleanup(c.pager.Close)
	return c
}

// configure writes the bot's configuration: bearer authentication, the fakes, and the test's
// additions.
func configure(b *bot.Bot, c chats, more map[string]any) map[string]any {
	config := map[string]any{
		"auth":   map[string]any{"alertmanager": map[string]any{"bearer_token_file": b.Secret("intake", intakeToken)}},
		"triage": map[string]any{"settle": "1s", "resolve_hold": "2s"},
		"notify": map[string]any{
			"console": true,
			"slack":   map[string]any{"token_file": b.Secret("slack", slackToken), "channel": "#llm-oncall", "api_url": c.slack.URL()},
			"pagerduty": map[string]any{"routing_key_file": b.Secret("pagerduty", routingKey), "events_url": c.pager.URL(),
				"api_url": c.pager.URL()},
		},
	}
	maps.Copy(config, more)
	b.Configure(config)
	return config
}

// clean fails the test if a fake got a request that the real service would refuse.
func (c chats) clean(t *testing.T) {
	t.Helper()
	if f := append(c.slack.Failures(), c.pager.Failures()...); len(f) > 0 {
		t.Errorf("Slack or PagerDuty would have refused:\n%s", strings.Join(f, "\n"))
	}
}

// notified checks that Slack and PagerDuty have each of these incidents once and no other, with the
// given status.
func (c chats) notified(incidents []api.IncidentJSON, status string) error {
	messages, pages := c.slack.Messages(), c.pager.Incidents()
	if len(messages) != len(incidents) || len(pages) != len(incidents) {
		return fmt.Errorf("%d incidents, %d Slack messages, %d PagerDuty incidents", len(incidents), len(messages), len(pages))
	}
	for _, in := range incidents {
		mine := slices.DeleteFunc(messages, func(m slacktest.Message) bool { return !strings.Contains(string(m.Metadata), string(in.ID)) })
		if messages = c.slack.Messages(); len(mine) != 1 {
			return fmt.Errorf("%s has %d Slack messages", in.ID, len(mine))
		}
		if text := mine[0].Text; strings.Contains(text, "resolved") != (status == "resolved") {
			return fmt.Errorf("%s should be %s, Slack says %q", in.ID, status, text)
		}
		paged := slices.DeleteFunc(c.pager.Incidents(),
			func(p pagerdutytest.Incident) bool { return !strings.Contains(p.Key, string(in.ID)) })
		if len(paged) != 1 {
			return fmt.Errorf("%s has %d PagerDuty incidents: %+v", in.ID, len(paged), pages)
		}
		if paged[0].Status != status {
			return fmt.Errorf("%s is %s in PagerDuty, not %s", in.ID, paged[0].Status, status)
		}
	}
	return nil
}

// own returns the incidents that were not merged into another.
func own(list []api.IncidentJSON) []api.IncidentJSON {
	return slices.DeleteFunc(slices.Clone(list), func(in api.IncidentJSON) bool { return in.MergedInto != "" })
}

const soon = 20 * time.Second
