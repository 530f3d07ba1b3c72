// Package jetstream is the [state.Store] in NATS JetStream. The server is embedded in the process
// with a directory of its own, or it is an external cluster that several bots share.
//
// Two streams hold everything:
//
//	PARAMEDIC_INPUT  paramedic.in.<partition>        messages of inputs, for Config.Retain
//	PARAMEDIC_STATE  paramedic.st.<partition>.<key>  the newest value of each record
//	                 paramedic.tl.<partition>.<key>  the same for timelines; not loaded
//	                 paramedic.pos.<partition>       {"position":17,"commit":"…","sum":…}
//	                 paramedic.pos.<partition>-live-<n>  the names of the live records
//	                 paramedic.draft.<partition>.<id>.link  records not at their places yet
//
// A commit moves the position, and its expected last sequence is the fence. The position is the
// sequence of the last message whose inputs are applied. The records of a small commit are in the
// position's message (docs/decisions, 0043), those of a larger one in a link that the position
// names (0053). Later commits write them to their places, in an atomic batch with the position. The
// records are therefore the snapshot. A start reads the live records and the inputs after the
// position, for a log of any length. On an external server there are no links, and a large commit
// is a batch. Inputs that wait share a message (0042). An embedded store compresses inputs and
// records (0048).
//
// The position also has the sum of the live records. If a load finds another sum, it returns a
// [state.DamagedError], because a server drops unreadable messages silently.
//
// After kill -9 a server brings deleted records back, because it does not note on disk which
// messages were replaced. A load ignores those that the live set does not name (docs/decisions,
// 0040).
//
// The metadata of both streams has the format of the store (state.Format) and the version of the
// Paramedic that opened it last. An older Paramedic refuses a newer format before it writes.
//
// Beyond [state.Store], nothing depends on consumer acknowledgements (they are not durable) or on
// message IDs (the server forgets them). The embedded server syncs every write to disk before it
// acknowledges. An external cluster must be configured to do so (jetstream.sync_interval: always),
// which a client can see only with the help of the system account (package inspect). The server
// must be 2.12 or newer. Open checks that atomic batches work, and fails otherwise.
package jetstream
