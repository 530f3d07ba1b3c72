// Package chat handles Slack's slash command and the clicks on the buttons of an incident's
// message.
//
// A request is accepted once, and only if Slack has just signed it. Text from outside is escaped
// before Slack shows it.
package chat
