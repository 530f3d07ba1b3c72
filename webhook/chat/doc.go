// Package chat takes Slack's slash command and the clicks on the buttons of an incident's message.
//
// A request counts if Slack has just signed it, and once. Text that came from outside is escaped
// before Slack shows it.
package chat
