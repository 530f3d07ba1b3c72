// Package state holds what Paramedic remembers, and the contracts between those who read and write
// it.
//
// Everything that happens to an incident is an [Input] in one log: alerts, gathered evidence, a
// person's approval, the outcome of a call, a timer. Package state/keeper reads each partition's
// inputs in order and applies them with state/fold. One round of inputs is committed in one atomic
// write together with the position in the log. A crash therefore never separates an incident from
// the inputs that made it.
//
// Only the fold changes an incident. If it wants something done in the world, it records an
// [Effect]. Package state/outbox delivers effects after they are committed, and appends each
// [Outcome] to the log.
//
// A type enters this package only if it is persisted and two packages read it, or if it is part of
// a contract between them: [Store], [View], [Triage], [Routing], [Clock] and what their methods
// take and return. The package imports the standard library only. Packages webhook, rules, notify
// and remediate meet here and nowhere else. [FormatValue] is here for the same reason: all of them
// print values, and one page shows what three of them wrote.
package state
