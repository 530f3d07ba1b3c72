package webhook

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"sync"
	"time"

	"paramedic/webhook/httpio"
)

// slots bounds how many payloads are in memory at once. A payload waits Limits.QueueWait for a
// slot. Then it gets the slot of the body that has been arriving for longest, if that is as long. A
// sender that trickles bytes thus holds up no other.
type slots struct {
	free chan struct{}

	mu      sync.Mutex
	reading map[*http.ResponseController]time.Time // bodies that are arriving, since when
}

func newSlots(n int) *slots {
	return &slots{free: make(chan struct{}, n), reading: map[*http.ResponseController]time.Time{}}
}

// takeSlot returns an error that asks the sender to retry if no slot gets free in time.
func (s *Server) takeSlot(ctx context.Context) error {
	select {
	case s.slots.free <- struct{}{}:
		return nil
	default:
	}
	for range 2 {
		select {
		case s.slots.free <- struct{}{}:
			return nil
		case <-ctx.Done():
			return errBusy
		case <-s.done:
			return errBusy
		case <-s.Clock.After(s.Limits.QueueWait):
			if !s.slots.evict(s.Clock.Now().Add(-s.Limits.QueueWait)) {
				return errBusy
			}
		}
	}
	return errBusy
}

var errBusy = httpio.Fail(http.StatusServiceUnavailable, "Paramedic handles too many payloads now: send it again")

// evict ends the body that has been arriving for longest, and returns false if none began before
// the time.
func (l *slots) evict(before time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	var oldest *http.ResponseController
	at := before
	for c, since := range l.reading {
		if !since.After(at) {
			oldest, at = c, since
		}
	}
	if oldest == nil {
		return false
	}
	delete(l.reading, oldest)
	return oldest.SetReadDeadline(time.Unix(1, 0)) == nil // a time in the past: its read fails now
}

// freeBytes is how much of a body is read without a slot. A payload that arrives at once thus waits
// for no body that trickles in.
const freeBytes = 64 << 10

// bodies has the memory of usual payloads, which is used again.
var bodies = sync.Pool{New: func() any { return new(bytes.Buffer) }}

// mostKept bounds the memory of a payload that is kept. It has room for about 250 alerts.
const mostKept = 256 << 10

// readPayload reads a body and takes a slot. The body is valid until release, which also frees the
// slot.
func (s *Server) readPayload(w http.ResponseWriter, r *http.Request) (body []byte, release func(), err error) {
	b := &slottedBody{ReadCloser: r.Body, left: freeBytes}
	c, l := http.NewResponseController(w), s.slots
	b.take = func() error {
		if err := s.takeSlot(r.Context()); err != nil {
			return err
		}
		b.taken = true
		return nil
	}
	b.arriving = func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.reading[c] = s.Clock.Now()
	}
	r.Body = b
	buf, _ := bodies.Get().(*bytes.Buffer)
	body, err = httpio.ReadBodyTo(buf, w, r, s.Limits.Body, s.Limits.ReadTimeout)
	l.mu.Lock()
	delete(l.reading, c)
	l.mu.Unlock()
	if err == nil && !b.taken {
		err = b.take()
	}
	return body, func() {
		if buf.Cap() <= mostKept {
			buf.Reset()
			bodies.Put(buf)
		}
		if b.taken {
			<-l.free
		}
	}, err
}

// A slottedBody takes a slot before it reads more than freeBytes.
type slottedBody struct {
	io.ReadCloser
	left     int // bytes without a slot
	take     func() error
	arriving func() // the rest can be evicted from now on
	taken    bool
}

func (b *slottedBody) Read(p []byte) (int, error) {
	if b.left == 0 && !b.taken {
		if err := b.take(); err != nil {
			return 0, err
		}
		b.arriving()
	}
	if !b.taken {
		p = p[:min(len(p), b.left)]
	}
	n, err := b.ReadCloser.Read(p)
	if !b.taken {
		b.left -= n
	}
	return n, err
}
