// Package queue holds the writes of inputs that wait for the log, and packs them into messages.
package queue

import (
	"fmt"
	"sync"
	"sync/atomic"

	"paramedic/state"
)

const (
	// MessageRoom is the size of a message's subject, headers and framing on the wire, in bytes.
	MessageRoom = 128
	// MaxJoin bounds the bytes of a group, which the server holds in memory.
	MaxJoin = 32 << 20
	// maxQueue bounds the bytes of the waiting writes. Beyond it Put fails, and the sender keeps
	// its inputs.
	maxQueue = 128 << 20
)

// An Input is one input as JSON.
type Input struct {
	Partition int
	Data      []byte
	Alerts    int // at least 1
}

// A Write is one waiting call that stores inputs, all or none.
type Write struct {
	Inputs []Input
	bytes  int
	taken  atomic.Bool // by the flusher, or by the caller that gave up
	done   chan error  // receives one answer
}

// NewWrite returns a write of the inputs.
func NewWrite(inputs []Input) *Write {
	w := &Write{Inputs: inputs, done: make(chan error, 1)}
	for _, in := range inputs {
		w.bytes += len(in.Data) + MessageRoom
	}
	return w
}

// Answer ends the write. It may be called once.
func (w *Write) Answer(err error) { w.done <- err }

// Done receives the answer.
func (w *Write) Done() <-chan error { return w.done }

// GiveUp reports whether the write still waits. If so, it will not be written.
func (w *Write) GiveUp() bool { return w.taken.CompareAndSwap(false, true) }

// A Queue holds the writes that wait. It is safe for concurrent use.
type Queue struct {
	inputs int // of one group, at most

	mu     sync.Mutex
	writes []*Write
	bytes  int
	closed bool
	wake   chan struct{} // holds one signal; closed with the queue
}

// New returns an empty queue whose groups have at most so many inputs. A larger write is a group of
// its own.
func New(inputs int) *Queue { return &Queue{inputs: inputs, wake: make(chan struct{}, 1)} }

// ErrClosed is the error of writes to a closed queue.
var ErrClosed = fmt.Errorf("%w: the store is closed", state.ErrUnavailable)

// Put adds a write. Its error is [state.ErrUnavailable] if too much waits already.
func (q *Queue) Put(w *Write) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return ErrClosed
	}
	if q.bytes+w.bytes > maxQueue {
		return fmt.Errorf("%w: %d MB already wait to be written", state.ErrUnavailable, q.bytes>>20)
	}
	q.writes = append(q.writes, w)
	q.bytes += w.bytes
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return nil
}

// Wake receives a signal after Put, and is closed with the queue.
func (q *Queue) Wake() <-chan struct{} { return q.wake }

// Take returns the next writes that fit one group, in order, or none. A write of more than 32 MB
// goes alone.
func (q *Queue) Take() (group []*Write) {
	q.mu.Lock()
	defer q.mu.Unlock()
	bytes, inputs, n := 0, 0, 0
	for _, w := range q.writes {
		if len(group) > 0 && (inputs+len(w.Inputs) > q.inputs || bytes+w.bytes > MaxJoin) {
			break
		}
		n++
		q.bytes -= w.bytes
		if !w.taken.CompareAndSwap(false, true) {
			continue
		}
		group = append(group, w)
		inputs += len(w.Inputs)
		bytes += w.bytes
	}
	clear(q.writes[:n])
	q.writes = q.writes[n:]
	return group
}

// Close lets Put fail from now on.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed {
		q.closed = true
		close(q.wake)
	}
}
