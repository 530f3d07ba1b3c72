package state

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// A Record is one stored value of a partition. Keys are dot-separated tokens of letters, digits,
// '-' and '_'. The first token is the record's kind. A nil Value deletes.
type Record struct {
	Key   string
	Value []byte
}

// Timeline reports whether the record is an entry of a timeline.
func (r Record) Timeline() bool { return strings.HasPrefix(r.Key, TimelinePrefix+".") }

// Under reports whether the record's key starts with the dot-separated tokens of a prefix.
func (r Record) Under(prefix string) bool {
	rest, ok := strings.CutPrefix(r.Key, prefix)
	return ok && (rest == "" || rest[0] == '.')
}

// TimelinePrefix is the kind of timeline records. [Store.Load] leaves them out, because they are
// read one incident at a time.
const TimelinePrefix = "timeline"

// A Decoder converts a record to the value that its reader keeps. It MUST NOT keep a part of the
// record's Value, whose memory is used again.
type Decoder func(Record) (any, error)

// Format is the version of the stored form: the inputs, the records, and how a store arranges them.
// It rises if an older Paramedic would read a store wrongly. Fields that an older one may ignore
// need no new format. A store without a format is of format 1. Since format 2 a position of the log
// can hold several inputs, and the record of a partition's position other records. Since format 3
// the values of an embedded store are compressed. Since format 4 its position names links.
const Format = 4

// A Fence is the version of a partition that a reader has loaded. A commit with an old fence is
// refused.
type Fence struct {
	Position uint64 // the last input applied
	Rev      uint64 // the store's own revision of the position
}

// A Store is a durable input log with the records that were made from it. Implementations are safe
// for concurrent use and MUST pass the conformance suite state/statetest:
//   - Append returns nil only if every input is on disk. Otherwise it stores none of them. The
//     error wraps ErrUnavailable if another attempt can succeed. Inputs of one partition are read
//     in the order of their append.
//   - Commit writes records and position all or nothing, and only if the fence is the partition's
//     newest. Otherwise it returns ErrFenced.
//   - Load returns the records and the fence of one and the same commit, or a DamagedError if the
//     records are not those that were committed.
type Store interface {
	Log
	// CommitRecords returns how many records a commit should have at most. A larger one is
	// possible, and costs more.
	CommitRecords() int
	// Partitions returns the number of partitions. They are numbered from 0.
	Partitions() int
	// Partition returns the partition of a cluster's inputs.
	Partition(cluster string) int
	// Load reads the partition's records without timelines, and returns the result of decode for
	// each, in no order. It calls decode concurrently while it reads.
	Load(ctx context.Context, partition int, decode Decoder) ([]any, Fence, error)
	// Inputs reads the partition's inputs after a position, in order, with Seq, Part and More set.
	// The reader stays open for later inputs.
	Inputs(ctx context.Context, partition int, after uint64) (InputReader, error)
	// Commit writes records and sets the position to the sequence of the last applied input.
	Commit(ctx context.Context, partition int, fence Fence, position uint64, records []Record) (Fence, error)
	// Replace writes all of a partition's records anew, timelines included, if the fence is its
	// newest. Until it has completed, Load returns a DamagedError, even if it never completes.
	Replace(ctx context.Context, partition int, fence Fence, position uint64, records []Record) (Fence, error)
	// Committed returns the position of the partition's newest commit.
	Committed(ctx context.Context, partition int) (uint64, error)
	// Follow records the changes that a caller without the lease has made to the records that it
	// loaded, by applying inputs that another process has committed. The fence is that of its Load.
	Follow(partition int, fence Fence, records []Record)
	// Resume returns the fence of the partition's newest commit if that is at the fence's position,
	// with the records of the caller's Load as changed by Follow. Otherwise it returns ErrFenced,
	// and the caller must Load.
	Resume(ctx context.Context, partition int, fence Fence) (Fence, error)
	// List reads the records whose key starts with the tokens of a prefix, each once, in the order
	// of their first write. Without a prefix there are none. One call for many prefixes reads less
	// than a call for each.
	List(ctx context.Context, partition int, prefixes ...string) ([]Record, error)
	// Received reports whether the readers have received every input that is in the log now.
	Received(ctx context.Context) (bool, error)
	// Ready returns an error if an input could not be made durable now.
	Ready(ctx context.Context) error
}

// A Log accepts inputs.
type Log interface {
	// Append makes all inputs durable, or none.
	Append(ctx context.Context, inputs ...Input) error
}

// An UnreadableError means that an input of the log cannot be decoded.
type UnreadableError struct {
	Seq  uint64
	Part int  // as in Input
	More bool // as in Input
	Err  error
}

func (e *UnreadableError) Error() string {
	return fmt.Sprintf("input %d cannot be read: %v", e.Seq, e.Err)
}

// Unwrap returns the reason.
func (e *UnreadableError) Unwrap() error { return e.Err }

// An InputReader reads a partition's inputs.
type InputReader interface {
	// Next blocks until the next input, or until the context ends. After an UnreadableError it goes
	// on with the input behind.
	Next(ctx context.Context) (Input, error)
	// Buffered returns the number of inputs that Next would return without blocking.
	Buffered() int
	// Waiting returns the number of known inputs that Next has not returned, including those that
	// are not fetched yet. It may estimate the latter.
	Waiting() int
	// End returns the sequence of the last input that was in the log when the reader was opened, or
	// 0 if there was none.
	End() uint64
	Close()
}

// A View reads the committed state. Its methods return copies.
type View interface {
	Incident(id IncidentID) (Incident, bool)
	// ListIncidents returns one page of the matching incidents within retention.
	ListIncidents(q IncidentQuery) IncidentPage
	// Tally counts the incidents and actions within retention.
	Tally() Tally
	Action(id ActionID) (Action, bool)
	// ListActions returns one page of the matching actions of incidents within retention.
	ListActions(q ActionQuery) ActionPage
	// ActionsOf returns the actions that were planned for an incident, newest first.
	ActionsOf(id IncidentID) []Action
	// BegunActions returns the actions that were admitted, recorded an intent or need a person,
	// newest first. Guards count them.
	BegunActions() []Action
	// Evidence returns the incident's newest evidence.
	Evidence(id IncidentID) (Evidence, bool)
	// Alerts returns the alerts of an incident.
	Alerts(id IncidentID) []AlertRecord
	// Timeline reads an incident's timeline, oldest first.
	Timeline(ctx context.Context, id IncidentID) ([]Entry, error)
	// Halted reports whether first aid is halted in a cluster, and returns who halted it and why.
	Halted(cluster string) (Halt, bool)
	// Subscribe sends every timeline entry from now on, until the context ends. A slow reader loses
	// entries, and does not slow the bot down.
	Subscribe(ctx context.Context) <-chan Entry
}

// A Halt is a stop of first aid in one cluster.
type Halt struct {
	At     time.Time `json:"at"`
	Actor  Actor     `json:"actor"`
	Reason string    `json:"reason,omitempty"`
}
