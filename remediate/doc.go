// Package remediate gives first aid: it plans a remedy, asks the guards, writes it, verifies that
// the pool got better, and undoes a change that did not help.
//
// Package guard asks the questions before a write, package policy holds the operator's settings,
// package verify judges the metrics, and package cluster declares the reads and writes. This
// package has the planner, the runner, and the two actions.
//
// # What it promises
//
//   - It writes only if every guard allows it: once when the run is admitted, and again on fresh
//     reads right before the intent is recorded. An error or an unknown denies. All guards are
//     asked, so that all reasons are shown.
//   - The intent to write is durable before the write. One delivery records the intent. A later
//     delivery, which sees it in the view, performs it. If more than ten seconds lie between them,
//     every guard is asked again. Before an eviction every guard is asked again that the isolation
//     itself does not change. A mode that has become stricter stops a run at once.
//   - A planned value is written only if the limits still allow it, and a higher one only if it is
//     still safe.
//   - A write carries the run's op-id. It tests the UID and the old value in the same request. So
//     it happens once, on the object that was judged, or not at all.
//   - After a crash the runner reads before it repeats. If it cannot prove what happened, it hands
//     the run to a person, and keeps the run's lock until the person releases it. A run that wrote
//     nothing ends as denied or superseded, and locks nothing.
//   - It never overwrites a person's edit, neither by the remedy nor by its rollback. If another
//     hand puts a value back, the run is superseded, and the value is not written again.
//   - A write that does not succeed is tried again with a growing delay, for as long as an intent
//     is good.
//   - A halt stops new effects, and so does a person who cancels the run: the runner reads the
//     record right before each write. Verification and rollback of a change that was made continue.
//     A cancellation that comes after the write changes nothing, and the record says so.
//   - The modes observe and suggest use read verbs only.
//   - A hold that names its end lasts until then, and keeps the approval. A hold without an end is
//     given up after Timing.Blocked. A run that ended without a write, and that no person declined,
//     is planned again while the incident is open.
//
// # How a run goes
//
//	proposed ─▶ awaiting_approval ─▶ approved ─▶ admitted ─▶ intent ─▶ applied ─▶ verifying
//	verifying ─▶ succeeded
//	applied, verifying ─▶ rollback_intent ─▶ rolled_back
//	intent and the states after it ─▶ needs_human, or superseded by another hand
//
// [Planner] delivers plan effects, and [Runner] delivers run effects. Both only read the view and
// answer with the events of the run, which the fold applies. An event whose state is the run's own
// state records progress: a journal entry, a sample, or the guards' answers.
//
// # What a person's approval changes
//
// In mode auto the bot writes only in a namespace with the label paramedic.dev/managed=true. In
// mode approve only another value of that label forbids it. In mode auto at least two independent
// signals must still support the cause, 80 % of the pool must stay ready, and the use of the
// remaining workers must stay below 85 %. So a pool of fewer than five workers is not disrupted
// without a person, unless its rollout adds before it removes. In mode approve one signal, one
// other ready worker and a projected use of 100 % are enough, because a named person judges the
// rest.
//
// # What restart_worker asks of a pool
//
// It needs a label that every Service of the worker selects on, and that neither its controller nor
// a disruption budget selects on. It changes that label to take the worker out of serving. If there
// is none, the action is denied, and the reason names the label to add. It does not stop traffic
// that reaches workers by other ways than a Service's selector.
//
// The worker must be an engine by itself. A pod of a parallel group is refused, and so is a rollout
// of a Deployment that holds a part of an engine. If the Kubernetes part of the evidence lacks the
// pod, its group is unknown, and it is refused as well.
//
// # What verification decides
//
// The baseline is the median of a window. An admitted run reads its metrics half as often as a
// verdict needs samples, at least three times, before it records its intent. Samples are taken from
// the settling time on. Median against baseline decides each metric. A metric that also moved on
// untouched peers is corrected by their movement.
//
// Success waits for the whole window. It needs every leading signal to be better, by the median and
// at the end: the signals that the verdict rests on, and those that the remedy has to end. A signal
// that cannot be read is no success.
//
// A breached guardrail, or symptoms that got worse, end in rollback as soon as there are enough
// samples. Errors and lost workers are watched from the write on: they end a rollout, and they put
// an isolated worker back. Workers that an autoscaler no longer wants are not lost. Every other
// result is inconclusive: the change is kept and a person is called. A resolved alert or a vanished
// target is never success in itself.
//
// A rollback is verified too: the metrics that had got worse have to recover, or a person is
// called. It is not tried twice.
package remediate
