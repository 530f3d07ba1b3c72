package slacktest

import (
	"maps"
	"net/url"
	"slices"
	"strings"
)

// scopes lists the scopes of which a token needs one for a method
// (https://docs.slack.dev/reference/methods).
var scopes = map[string][]string{
	"chat.postMessage": {"chat:write"}, "chat.update": {"chat:write"},
	"conversations.history": {"channels:history", "groups:history"}, "conversations.replies": {"channels:history", "groups:history"},
	"conversations.list": {"channels:read", "groups:read"}, "conversations.info": {"channels:read", "groups:read"},
}

func (s *Server) has(scope string) bool { return slices.Contains(s.opt.Scopes, scope) }

func (s *Server) may(method string) bool {
	need := scopes[method]
	return len(need) == 0 || slices.ContainsFunc(need, s.has)
}

// name returns the name of the channel with an ID.
func (s *Server) name(id string) string {
	for name, have := range s.opt.Channels {
		if have == id {
			return name
		}
	}
	return ""
}

// closed returns why the bot may not post to a channel, or "".
func (s *Server) closed(id string) string {
	name := s.name(id)
	switch {
	case slices.Contains(s.opt.Archived, name):
		return "is_archived"
	case !slices.Contains(s.opt.Absent, name):
		return ""
	case slices.Contains(s.opt.Private, name):
		return "channel_not_found"
	case s.has("chat:write.public"):
		return ""
	}
	return "not_in_channel"
}

// shown returns a channel as the bot sees it, or false if it may not see it.
func (s *Server) shown(name string) (map[string]any, bool) {
	private, member := slices.Contains(s.opt.Private, name), !slices.Contains(s.opt.Absent, name)
	if private && (!member || !s.has("groups:read")) || !private && !s.has("channels:read") {
		return nil, false
	}
	return map[string]any{"id": s.opt.Channels[name], "name": name, "is_channel": !private, "is_private": private, "is_member": member,
		"is_archived": slices.Contains(s.opt.Archived, name)}, true
}

func (s *Server) channels(form url.Values) (map[string]any, string, string) {
	types := strings.Split(form.Get("types"), ",")
	for kind, scope := range map[string]string{"public_channel": "channels:read", "private_channel": "groups:read"} {
		if slices.Contains(types, kind) && !s.has(scope) {
			return nil, "missing_scope", scope
		}
	}
	list := []map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.opt.Channels)) {
		ch, ok := s.shown(name)
		if ok && !(form.Get("exclude_archived") == "true" && ch["is_archived"] == true) {
			list = append(list, ch)
		}
	}
	return map[string]any{"channels": list, "response_metadata": map[string]any{"next_cursor": ""}}, "", ""
}

func (s *Server) info(form url.Values) (map[string]any, string, string) {
	ch, ok := s.shown(s.name(form.Get("channel")))
	if !ok || ch["name"] == "" {
		return nil, "channel_not_found", form.Get("channel")
	}
	return map[string]any{"channel": ch}, "", ""
}
