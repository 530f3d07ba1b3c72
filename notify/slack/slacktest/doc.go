// Package slacktest is a stateful fake of Slack's Web API, as a real HTTP server that is as strict
// as Slack.
//
// It knows the methods that Paramedic calls and keeps their documented limits: tokens, channels,
// unique message timestamps, edits of existing messages only, the length and number of everything
// in Block Kit, and the undocumented cap on a message's whole text. What Slack would refuse it
// refuses with Slack's error code, and it remembers it as a failure: a test asserts that
// [Server.Failures] is empty, so a message that nobody expected fails the test. Faults are injected
// with [Server.Inject].
//
// [Sign] signs what Slack would send, and [Server.Click] and [Command] make it.
package slacktest
