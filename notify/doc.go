// Package notify tells people about incidents: it composes one short story of an incident, chooses
// the channels that hear it, and delivers it to them through the outbox.
//
// It promises:
//
//   - The same story everywhere: what is wrong, why we believe it, what else it could be, what to
//     do now, what not to do, and where to read on. Channels differ in layout, never in content.
//   - At least once, shown once: every delivery may be repeated after a crash, and a [Notifier]
//     finds out what it has already shown before it shows it again.
//   - A channel's limits are held by shortening with a link to the incident's page, never by
//     failing.
//   - Nothing that came out of an alert is markup: [Clean] takes control characters out of every
//     text, and adapters escape the rest.
//   - A silenced incident stays quiet until its silence ends, or its severity rises.
//
// It must not change an incident: what came of a delivery goes back through the log as an Outcome.
package notify
