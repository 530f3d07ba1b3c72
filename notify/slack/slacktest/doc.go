// Package slacktest is a stateful fake of Slack's Web API. It is a real HTTP server, and as strict
// as Slack.
//
// It knows the methods that Paramedic calls, with their documented limits: tokens, channels, unique
// message timestamps, edits of existing messages only, and the length and number of everything in
// Block Kit. It also has the undocumented cap on a message's whole text. It refuses what Slack
// would refuse, with Slack's error code, and records it as a failure: a test asserts that
// Server.Failures is empty. [Server.Inject] injects faults.
//
// [Server.Click] and [Command] make what Slack would send, and [Sign] signs it.
package slacktest
