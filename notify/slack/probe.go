package slack

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
)

// Where an operator fixes the app, in the words of Slack's pages.
const (
	atPermissions = "open https://api.slack.com/apps, choose the app, OAuth & Permissions"
	atBasics      = "open https://api.slack.com/apps, choose the app, Basic Information, App Credentials"
)

// secretShape matches a signing secret.
var secretShape = regexp.MustCompile(`^[0-9a-z]{32}$`)

// A place is the configured channel, as far as the bot may see it.
type place struct {
	known, private, direct bool
	err                    error
}

// Probe checks with Slack that the bot can do its work: the token, its scopes, the channel and the
// signing secret. It posts nothing.
func (n *Notifier) Probe(ctx context.Context, signing func() (string, error)) []notify.Probe {
	var who *api.AuthTestResponse
	c, err := n.client()
	if err == nil {
		if who, err = c.AuthTestContext(ctx); err != nil {
			err = n.classify("auth.test", err)
		}
	}
	out := []notify.Probe{{What: "slack token", Err: err}}
	if err != nil {
		return append(out, n.probeSecret(signing, true))
	}
	if who.BotID == "" {
		out[0].Err = fmt.Errorf("it is a person's and not the bot's: %s, and copy the Bot User OAuth Token (xoxb-…)",
			atPermissions)
	}
	given := strings.FieldsFunc(who.Header.Get("X-OAuth-Scopes"), func(r rune) bool { return r == ',' || r == ' ' })
	at := n.place(ctx, c, text.Clean(who.User), given)
	out = append(out, notify.Probe{What: "slack channel " + text.Cut(text.Clean(n.cfg.Channel), 80), Err: at.err})
	if len(given) > 0 { // without the header, the scopes are unknown
		out = append(out, notify.Probe{What: "slack scopes", Err: missing(given, n.needed(at))})
	}
	return append(out, n.probeSecret(signing, len(given) == 0 || slices.Contains(given, "commands")))
}

// needed returns the scopes that the bot's work needs in its channel.
func (n *Notifier) needed(at place) []string {
	need := []string{"chat:write"}
	if n.clicks() {
		need = append(need, "commands")
	}
	if !at.direct && !at.private {
		need = append(need, "channels:read", "channels:history")
	}
	if at.private || !at.known {
		need = append(need, "groups:read", "groups:history")
	}
	return need
}

func missing(given, need []string) error {
	need = slices.DeleteFunc(need, func(s string) bool { return slices.Contains(given, s) })
	if len(need) == 0 {
		return nil
	}
	return fmt.Errorf("missing %s: %s, Scopes, Bot Token Scopes, Add an OAuth Scope, then Reinstall to Workspace",
		strings.Join(need, ", "), atPermissions)
}

// probeSecret checks the signing secret by its form, because Slack offers no way to try one.
// Without a secret, the bot refuses an app's commands.
func (n *Notifier) probeSecret(signing func() (string, error), commands bool) notify.Probe {
	p := notify.Probe{What: "slack signing secret"}
	const set = "set notify.slack.signing_secret_file to the Signing Secret (" + atBasics + ")"
	if !n.clicks() && commands {
		p.Err = errors.New("not configured, so the bot refuses /paramedic and shows no buttons: " + set)
		return p
	}
	if !n.clicks() {
		p.Off = "not configured; for buttons and /paramedic " + set + ", and give the app the scope commands"
		return p
	}
	value, err := signing()
	if err != nil {
		p.Err = err
	} else if !secretShape.MatchString(value) {
		p.Err = fmt.Errorf("it has %d characters and is not 32 letters and digits, so that every click would be "+
			"refused: %s", len(value), set)
	}
	return p
}

// place looks up the channel, and returns what keeps the bot from posting there.
func (n *Notifier) place(ctx context.Context, c *api.Client, bot string, given []string) place {
	name := text.Clean(n.cfg.Channel)
	can := func(scope string) bool { return len(given) == 0 || slices.Contains(given, scope) }
	if !can("channels:read") && !can("groups:read") {
		return place{err: errors.New("whether the bot can post there is not known: it may not look without the scope " +
			"channels:read")}
	}
	ch, err := n.lookUp(ctx, c, can)
	switch {
	case err != nil:
		return place{err: err}
	case ch == nil:
		return place{err: fmt.Errorf("there is no channel %s that the bot can see: check notify.slack.channel; if it "+
			"is private, open it in Slack and type /invite @%s", name, bot)}
	}
	at := place{known: true, private: ch.IsPrivate, direct: ch.IsIM || ch.IsMpIM}
	switch {
	case ch.IsArchived:
		at.err = fmt.Errorf("%s is archived: set notify.slack.channel to another, or unarchive it in Slack", name)
	case !at.direct && !ch.IsMember && (at.private || len(given) == 0 || !slices.Contains(given, "chat:write.public")):
		at.err = fmt.Errorf("the bot is not in it and cannot post: open it in Slack and type /invite @%s", bot)
	}
	return at
}

// lookUp returns the configured channel, or nil if Slack shows the bot none.
func (n *Notifier) lookUp(ctx context.Context, c *api.Client, can func(scope string) bool) (*api.Channel, error) {
	if isID(n.cfg.Channel) {
		ch, err := c.GetConversationInfoContext(ctx, &api.GetConversationInfoInput{ChannelID: n.cfg.Channel})
		if errorCode(err) == "channel_not_found" {
			return nil, nil
		}
		if err != nil {
			return nil, n.classify("conversations.info", err)
		}
		return ch, nil
	}
	q := &api.GetConversationsParameters{Limit: 1000}
	for scope, kind := range map[string]string{"channels:read": "public_channel", "groups:read": "private_channel"} {
		if can(scope) {
			q.Types = append(q.Types, kind) // Slack refuses the whole list for one kind that the bot may not see
		}
	}
	name := strings.TrimPrefix(n.cfg.Channel, "#")
	for range searchPages {
		channels, next, err := c.GetConversationsContext(ctx, q)
		if err != nil {
			return nil, n.classify("conversations.list", err)
		}
		for i := range channels {
			if channels[i].Name == name {
				return &channels[i], nil
			}
		}
		if q.Cursor = next; next == "" {
			break
		}
	}
	return nil, nil
}
