// Package notify reports incidents to people. It composes one short story of an incident, chooses
// the channels, and delivers the message to them through the outbox.
//
// It promises:
//
//   - Every channel shows the same story: what is wrong, why, what else it could be, what to do
//     now, what not to do, and where to read on. Channels differ in layout, never in content.
//   - A message is delivered at least once and shown once. Every delivery may be repeated after a
//     crash, and a [Notifier] finds out what it has already shown before it shows it again.
//   - A message that exceeds a channel's limits is shortened, with a link to the incident's page.
//     It never fails for its size.
//   - Text from an alert is never markup: control characters are removed from every text, and
//     adapters escape the rest.
//   - A silenced incident is not reported until its silence ends, or its severity rises.
//
// It must not change an incident: the result of a delivery returns through the log as an Outcome.
package notify
