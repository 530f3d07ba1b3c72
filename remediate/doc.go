// Package remediate gives first aid: it plans a remedy, guards it, writes it, verifies that the
// patient got better, and undoes what did not help.
//
// # What it promises
//
//   - Nothing is written unless every guard allows it, once when the run is admitted and again, on
//     fresh reads, right before the intent is recorded. An error or an unknown denies. All guards
//     are asked, so that all reasons are shown.
//   - The intent to write is durable before the write. One delivery records the intent, a later
//     one, which sees it in the view, performs it. Where more than ten seconds lie between them
//     every guard is asked again, and before an eviction every guard that the isolation itself does
//     not change. A mode that has become stricter stops a run at once. A write carries the run's
//     op-id and tests the UID and the old value in the same request, so that it happens once, on
//     the object that was judged, or not at all.
//   - After a crash the runner observes before it repeats. What it cannot prove it hands to a
//     person, and keeps the run's lock until the person says that it is taken care of. A run that
//     wrote nothing ends as denied or superseded, and locks nothing.
//   - A person's edit is never overwritten: neither by the remedy nor by its rollback. A value that
//     another hand put back supersedes the run, and is not written again.
//   - Every write that does not succeed backs off, and is given up after the time for which an
//     intent is good.
//   - A halt stops new effects, and so does a person who calls the run off: the record is asked
//     right before each write. Verification and rollback of what was started go on; a call that
//     comes when the write was made already changes nothing and is told as that.
//   - Modes observe and suggest use read verbs only.
//   - A hold that names its end lasts until then, and keeps the approval. One that names none is
//     given up after a while. What ended without a write, and without a person's no, is planned
//     again while the incident is open.
//
// # How a run goes
//
//	proposed ─▶ awaiting_approval ─▶ approved ─▶ admitted ─▶ intent ─▶ applied ─▶ verifying ─▶ succeeded
//	                                                                      │           ├──▶ rollback_intent ─▶ rolled_back
//	                                                                      └───────────┴──▶ needs_human, or superseded by another hand
//
// [Planner] delivers plan effects and [Runner] run effects. Both only read the view and answer with
// the events of the run; the fold applies them. An event whose state is the run's own state records
// progress (a journal entry, a sample, guards' answers).
//
// # What a person's approval changes
//
// In mode auto nothing is written in a namespace without the label paramedic.dev/managed=true; in
// mode approve only another value of that label forbids it. In mode auto at least two independent
// signals must still speak for the cause, 80 % of the pool must stay ready, and those that remain
// must not be used by more than 85 %: a pool of fewer than five workers is therefore not disrupted
// without a person, unless its rollout adds before it removes. In mode approve one signal, one
// other ready worker and a projected use of 100 % are enough, for a named person answers for the
// rest.
//
// # What restart_worker asks of a pool
//
// A label that every Service of the worker selects on, and that neither its controller nor a
// disruption budget does: it is changed to take the worker out of serving. Where there is none the
// action is denied, and says which label to add. Traffic that reaches workers by other ways than a
// Service's selector is not stopped by it.
//
// The worker must be an engine by itself. A pod of a parallel group is refused, and so is a rollout
// of a Deployment that holds a part of an engine. Where Kubernetes' part of the evidence lacks the
// pod, its group is not known, and it is refused as well.
//
// # What verification decides
//
// The baseline is the median of a window. An admitted run reads its metrics half as often as a
// verdict needs samples, at least three times, before it records its intent. Samples are taken from
// the settling time on. Median against baseline decides each metric; a metric that also moved on
// untouched peers is corrected by their movement.
//
// Success waits for the whole window. It needs every leading signal to be better, by the median and
// at the end: those that the verdict rests on, and those that the remedy is there to end. What
// cannot be read is no success.
//
// A breached guardrail, or symptoms that got worse, end in rollback as soon as there are enough
// samples. Errors and lost workers are watched from the write on: they end a rollout, and they give
// an isolated worker back. Workers that an autoscaler no longer wants are not lost. Anything else
// is inconclusive: the change is kept and a person is called. A resolved alert or a vanished target
// is never success in itself.
//
// A rollback is verified too: what had got worse has to be as it was, or a person is called. It is
// not tried twice.
package remediate
