// Package jetstream keeps what Paramedic remembers in NATS JetStream: in a server embedded in the
// process, with a directory of its own, or in an external cluster that several bots share. It is
// the [state.Store] of both.
//
// Two streams hold everything.
//
//	PARAMEDIC_INPUT  paramedic.in.<partition>            one message an input, kept for Config.Retain
//	PARAMEDIC_STATE  paramedic.st.<partition>.<key>      the newest value of each record
//	                 paramedic.tl.<partition>.<key>      the same for timelines, which a load leaves out
//	                 paramedic.pos.<partition>           the last input applied: {"position":17,"commit":"…","sum":…}
//
// A commit is one atomic batch: the records and, last, the position, whose expected last sequence
// is the fence. So the records are the snapshot. A start reads the live records and the inputs
// after the position, however long the log is.
//
// The position also has what the live records add up to. A load that finds something else gives a
// [state.DamagedError]: a server drops what it cannot read without a word.
//
// What it promises beyond [state.Store]: nothing depends on consumer acknowledgements (they are not
// durable) or on message IDs (they are forgotten). The embedded server syncs every write to disk
// before it acknowledges. An external cluster has to be configured for that
// (jetstream.sync_interval: always), which a client cannot see. The server has to be 2.12 or newer;
// Open proves that atomic batches work and fails otherwise.
package jetstream
