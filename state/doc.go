// Package state is what Paramedic remembers, and the legal transitions between what it remembers.
//
// Everything that happens to an incident is an [Input] in one log: alerts, evidence that arrived, a
// person's approval, the outcome of a call, a timer. A [Keeper] reads each partition's inputs in
// order and gives them to a [Fold], which is pure: the same inputs and the same knowledge make the
// same [Board]. What one round of inputs changed is committed in one atomic write together with the
// position in the log, so that a crash never separates an incident from the inputs it was made of.
//
// Nothing else changes an incident, and nothing here reaches outside: a fold that wants something
// done in the world puts an [Effect] on its board. Effects are delivered after they are committed
// (package state/outbox) and what came of them returns through the log as an [Outcome].
//
// A type enters this package only if it is persisted and two packages read it. The package imports
// the standard library only, and its siblings (webhook, rules, notify, remediate) meet here and
// nowhere else. That is why [FormatValue] is here: they all tell values, and one page shows what
// three of them wrote.
package state
