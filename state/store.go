package state

import (
	"context"
	"time"
)

// A Record is one thing that a partition remembers. Keys are dot-separated tokens of letters,
// digits, '-' and '_'; the first token is the record's kind. A nil Value deletes.
type Record struct {
	Key   string
	Value []byte
}

// TimelinePrefix is the kind of the records that [Store.Load] leaves out, because they are read one
// incident at a time.
const TimelinePrefix = "timeline"

// A Decoder makes of a record what its reader keeps of it.
type Decoder func(Record) (any, error)

// A Fence is a partition's state as one reader knows it. A commit that carries an old fence is
// refused.
type Fence struct {
	Position uint64 // the last input applied
	Rev      uint64 // the store's own revision of the position
}

// A Store is a durable input log and what was made of it. Implementations are safe for concurrent
// use and MUST behave as the conformance suite state/statetest demands:
//
//   - Append returns nil only when every input is on disk, and otherwise keeps none of them
//     (ErrUnavailable is wrapped where trying again can help). Inputs of one partition are read
//     back in the order in which they were appended.
//   - Commit writes records and position all or nothing, and only if the fence is the partition's
//     newest: ErrFenced otherwise.
//   - Load gives the records and the fence of one and the same commit, or a DamagedError where they
//     are not what was committed.
type Store interface {
	Log
	// Partitions is how many partitions there are; they are numbered from 0.
	Partitions() int
	// Partition is the partition of a cluster's inputs.
	Partition(cluster string) int
	// Load reads what the partition remembers, but for timelines, and gives what decode made of
	// each record, in no order. It calls decode while it reads, from several goroutines at a time.
	Load(ctx context.Context, partition int, decode Decoder) ([]any, Fence, error)
	// Inputs reads the partition's inputs after a position, in order, with Seq set; it stays open
	// for those to come.
	Inputs(ctx context.Context, partition int, after uint64) (InputReader, error)
	// Commit writes records and moves the position to the sequence of the last input applied.
	Commit(ctx context.Context, partition int, fence Fence, position uint64, records []Record) (Fence, error)
	// Replace writes all of a partition's records anew, timelines included, if the fence is its
	// newest. Until it has come to its end, also if it never does, Load gives a DamagedError.
	Replace(ctx context.Context, partition int, fence Fence, position uint64, records []Record) (Fence, error)
	// List reads the records whose key starts with the given tokens, in the order in which they
	// were first written.
	List(ctx context.Context, partition int, prefix string) ([]Record, error)
	// Ready says whether an input could be made durable now.
	Ready(ctx context.Context) error
}

// A Log takes inputs.
type Log interface {
	// Append makes all inputs durable, or none.
	Append(ctx context.Context, inputs ...Input) error
}

// An InputReader reads a partition's inputs.
type InputReader interface {
	// Next blocks for the next input, or until the context ends.
	Next(ctx context.Context) (Input, error)
	// Buffered is how many inputs Next would give without blocking.
	Buffered() int
	// Waiting is how many inputs the reader knows of that Next has not given, with those that it
	// has not fetched.
	Waiting() int
	Close()
}

// A View reads what the bot remembers. What it returns is the caller's own copy.
type View interface {
	Incident(id IncidentID) (Incident, bool)
	// ListIncidents returns one page of the incidents within retention that match.
	ListIncidents(q IncidentQuery) IncidentPage
	// Tally counts the incidents and actions within retention.
	Tally() Tally
	Action(id ActionID) (Action, bool)
	// ListActions returns one page of the actions, of incidents within retention, that match.
	ListActions(q ActionQuery) ActionPage
	// ActionsOf returns the actions that were planned for an incident, newest first.
	ActionsOf(id IncidentID) []Action
	// BegunActions returns the actions that were admitted, recorded an intent or need a person,
	// newest first: guards count them.
	BegunActions() []Action
	// Evidence is the incident's newest gathering of evidence.
	Evidence(id IncidentID) (Evidence, bool)
	// Alerts lists the alerts that an incident holds.
	Alerts(id IncidentID) []AlertRecord
	// Timeline reads an incident's timeline, oldest first.
	Timeline(ctx context.Context, id IncidentID) ([]Entry, error)
	// Halted says whether first aid is halted in a cluster, who did it and why.
	Halted(cluster string) (Halt, bool)
	// Subscribe sends every timeline entry from now on, until the context ends. A reader that does
	// not keep up loses entries, not the bot's time.
	Subscribe(ctx context.Context) <-chan Entry
}

// A Halt is a kill switch that was thrown.
type Halt struct {
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Reason string    `json:"reason,omitempty"`
}
