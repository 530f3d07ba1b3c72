package jetstream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"crypto/rand"
	"github.com/nats-io/nats.go"

	"paramedic/state"
	"paramedic/state/jetstream/queue"
)

// The headers of an atomic batch (https://github.com/nats-io/nats-architecture-and-design, ADR-50).
// nats.go has no helper for them.
const (
	batchIDHeader     = "Nats-Batch-Id"
	batchSeqHeader    = "Nats-Batch-Sequence"
	batchCommitHeader = "Nats-Batch-Commit"
	expectLastHeader  = "Nats-Expected-Last-Subject-Sequence"
	ttlHeader         = "Nats-TTL"
)

// The server's codes for a failed compare-and-set: with the sequence it found, and without
// (replicated streams).
const (
	codeWrongLast         = 10071
	codeWrongLastConstant = 10164
)

// An ack is the server's answer to a publish or to the last message of a batch.
type ack struct {
	Sequence uint64 `json:"seq"` // of the last message
	Error    *struct {
		Code        int    `json:"err_code"`
		Description string `json:"description"`
	} `json:"error"`
}

// publish writes the messages and records the result.
func (s *Store) publish(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	seq, err := s.send(ctx, msgs)
	stream := stateStream
	if strings.HasPrefix(msgs[0].Subject, inputPrefix) {
		stream = inputStream
	}
	if !errors.Is(err, context.Canceled) {
		s.pulse.Record(stream, err)
	}
	return seq, s.pulse.Diagnose(err)
}

// send writes the messages to one stream, all or none, and returns the sequence of the last. It
// returns state.ErrFenced for a failed compare-and-set, and state.ErrUnavailable for any other
// failure. After a lost answer the messages may have been written.
func (s *Store) send(ctx context.Context, msgs []*nats.Msg) (uint64, error) {
	nc, last := s.nc, msgs[len(msgs)-1]
	if strings.HasPrefix(last.Subject, inputPrefix) {
		nc = s.appending
	}
	if len(msgs) > 1 {
		id := rand.Text()
		for i, m := range msgs {
			m.Header.Set(batchIDHeader, id)
			m.Header.Set(batchSeqHeader, strconv.Itoa(i+1))
		}
		last.Header.Set(batchCommitHeader, "1")
		for _, m := range msgs[:len(msgs)-1] {
			if err := nc.PublishMsg(m); err != nil {
				return 0, publishError(err)
			}
		}
	}
	reply, err := nc.RequestMsgWithContext(ctx, last)
	if err != nil {
		return 0, publishError(err)
	}
	return decodeAck(reply.Data)
}

func decodeAck(data []byte) (uint64, error) {
	var a ack
	if err := json.Unmarshal(data, &a); err != nil {
		return 0, unavailable("reading the server's answer", err)
	}
	switch {
	case a.Error == nil && a.Sequence > 0:
		return a.Sequence, nil
	case a.Error == nil:
		return 0, unavailable("writing", errors.New("the server's answer has no sequence"))
	case a.Error.Code == codeWrongLast || a.Error.Code == codeWrongLastConstant:
		return 0, fmt.Errorf("%w (%s)", state.ErrFenced, a.Error.Description)
	}
	return 0, unavailable("writing", fmt.Errorf("%s (%d)", a.Error.Description, a.Error.Code))
}

func publishError(err error) error {
	if errors.Is(err, nats.ErrMaxPayload) {
		return fmt.Errorf("too large for the NATS server's max_payload: %w", err)
	}
	return unavailable("writing", err)
}

// size returns the bytes of a message on the wire.
func size(m *nats.Msg) int { return len(m.Data) + len(m.Subject) + queue.MessageRoom }
