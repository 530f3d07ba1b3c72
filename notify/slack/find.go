package slack

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
)

// The bounds of a search: how long before the incident it begins, because clocks differ, and how
// much of the channel it reads.
const (
	searchSlack = 10 * time.Minute
	searchPages = 15
	searchLimit = 200
)

var idShape = regexp.MustCompile(`^[CGD][A-Z0-9]{6,}$`)

func isID(channel string) bool { return idShape.MatchString(channel) }

// find looks for the incident's message in the channel, and puts its handles into ref. If Slack
// does not allow the search, it gives up: two messages are better than none.
func (n *Notifier) find(ctx context.Context, c *api.Client, m notify.Message, ref map[string]string) error {
	channel, err := n.channelID(ctx, c)
	if err == nil {
		var ts, to string
		ts, to, err = n.search(ctx, c, channel, m)
		if ts != "" {
			ref[refChannel], ref[refTS] = channel, ts
		}
		if ref[refThread] == "" && to != "" {
			ref[refThread] = to
		}
	}
	if refused(err) {
		n.opt.Log.WarnContext(ctx, "cannot look for an earlier message; posting without", "incident", m.Incident, "err", err)
		return nil
	}
	return err
}

// search returns the incident's message in the channel, and the last timeline entry in it. Both are
// empty if there is no message.
func (n *Notifier) search(ctx context.Context, c *api.Client, channel string, m notify.Message) (ts, to string,
	err error) {
	q := &api.GetConversationHistoryParameters{
		ChannelID: channel, Limit: searchLimit, IncludeAllMetadata: true,
		Oldest: fmt.Sprintf("%d.000000", max(m.OpenedAt.Add(-searchSlack).Unix(), 0)),
	}
	for range searchPages {
		if err := n.limit[methodRead].Wait(ctx); err != nil {
			return "", "", err
		}
		page, err := c.GetConversationHistoryContext(ctx, q)
		if err != nil {
			return "", "", n.classify(methodRead, err)
		}
		for _, msg := range page.Messages {
			if msg.Metadata.EventType == EventIncident &&
				msg.Metadata.EventPayload["incident"] == string(m.Incident) && msg.Timestamp != "" {
				to, _ := msg.Metadata.EventPayload["to"].(string)
				return msg.Timestamp, to, nil
			}
		}
		if q.Cursor = page.ResponseMetaData.NextCursor; q.Cursor == "" {
			return "", "", nil
		}
	}
	return "", "", nil
}

// written returns the last timeline entry in the thread.
func (n *Notifier) written(ctx context.Context, c *api.Client, m notify.Message, ref map[string]string) (int, error) {
	last := 0
	q := &api.GetConversationRepliesParameters{ChannelID: ref[refChannel], Timestamp: ref[refTS], Limit: searchLimit,
		IncludeAllMetadata: true}
	for range searchPages {
		if err := n.limit[methodReply].Wait(ctx); err != nil {
			return 0, err
		}
		msgs, _, next, err := c.GetConversationRepliesContext(ctx, q)
		if err != nil {
			err = n.classify(methodReply, err)
			if refused(err) {
				n.opt.Log.WarnContext(ctx, "cannot read the thread; writing to it without", "incident", m.Incident, "err", err)
				return last, nil
			}
			return 0, err
		}
		for _, msg := range msgs {
			if msg.Metadata.EventType != EventTimeline || msg.Metadata.EventPayload["incident"] != string(m.Incident) {
				continue
			}
			text, _ := msg.Metadata.EventPayload["to"].(string)
			to, _ := strconv.Atoi(text)
			last = max(last, to)
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	return last, nil
}

// channelID returns the ID of the configured channel. Posting accepts a name, searching does not.
func (n *Notifier) channelID(ctx context.Context, c *api.Client) (string, error) {
	n.mu.Lock()
	id := n.channel
	n.mu.Unlock()
	if id != "" {
		return id, nil
	}
	name := strings.TrimPrefix(n.cfg.Channel, "#")
	q := &api.GetConversationsParameters{ExcludeArchived: true, Limit: 1000,
		Types: []string{"public_channel", "private_channel"}}
	for range searchPages {
		if err := n.limit[methodList].Wait(ctx); err != nil {
			return "", err
		}
		channels, next, err := c.GetConversationsContext(ctx, q)
		if err != nil {
			return "", n.classify(methodList, err)
		}
		for _, ch := range channels {
			if ch.Name == name {
				n.mu.Lock()
				n.channel = ch.ID
				n.mu.Unlock()
				return ch.ID, nil
			}
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	return "", &notify.Fixable{Err: fmt.Errorf("slack has no channel named %s that the bot can see; set "+
		"notify.slack.channel to the channel's ID", text.Clean(n.cfg.Channel))}
}
