package jetstream

import (
	"bytes"
	"fmt"

	json "github.com/go-json-experiment/json/v1"
	"github.com/nats-io/nats.go"

	"paramedic/internal/onepass"
	"paramedic/state"
	"paramedic/state/jetstream/queue"
	"paramedic/state/jetstream/wire"
)

// message returns a message with one input as it is, or with an array of several.
func (s *Store) message(p *queue.Pack) *nats.Msg {
	m := nats.NewMsg(inputSubject(p.Partition))
	if len(p.Inputs) == 1 {
		m.Data = s.compress(p.Inputs[0])
		return m
	}
	buffer := buffers.Get().(*[]byte) //nolint:forcetypeassert // of New
	defer buffers.Put(buffer)
	*buffer = wire.AppendArray((*buffer)[:0], p.Inputs)
	if m.Data = s.compress(*buffer); &m.Data[0] == &(*buffer)[0] { // it would not be smaller
		m.Data = bytes.Clone(m.Data)
	}
	return m
}

func (s *Store) messages(packs []*queue.Pack) []*nats.Msg {
	msgs := make([]*nats.Msg, len(packs))
	for i, p := range packs {
		msgs[i] = s.message(p)
	}
	return msgs
}

// packLimit returns the most bytes of several inputs in one message, or 0 if this process writes
// none. A Paramedic that reads format 1 only may still be the active one while replicas are
// upgraded, and would set such a message aside. So only the active one writes them.
func (s *Store) packLimit() int {
	if !s.Held() {
		return 0
	}
	return min(queue.PackBytes, int(s.mostPayload()/4))
}

// maxKept bounds a buffer that is kept for the next message: four times queue.PackBytes.
const maxKept = 1 << 20

// unpack decompresses and decodes the inputs of a message.
func (r *reader) unpack(stored []byte, seq uint64, subject string) []read {
	m, err := wire.DecompressTo(r.memory, stored)
	if err != nil {
		out := []read{{err: &state.UnreadableError{Seq: seq, Err: fmt.Errorf("stream %s, subject %s: %w", inputStream, subject, err)}}}
		out[0].at(seq, 0, 1)
		return out
	}
	if cap(m) <= maxKept {
		r.memory = m
	}
	return decodeInputs(m, seq, subject)
}

// decodeInputs decodes the inputs of a message. An input that cannot be decoded gets an error, and
// the others are unharmed.
func decodeInputs(m []byte, seq uint64, subject string) []read {
	parts := []json.RawMessage{m}
	size := func(parts int) int64 { return int64(len(m) / parts) }
	if bytes.HasPrefix(m, []byte{'['}) {
		var inputs []state.Input
		if err := onepass.Unmarshal(m, &inputs); err == nil && len(inputs) > 0 {
			out := make([]read, len(inputs))
			for i := range inputs {
				out[i].input, out[i].size = inputs[i], size(len(inputs))
				out[i].at(seq, i, len(inputs))
			}
			return out
		}
		if json.Unmarshal(m, &parts) != nil || len(parts) == 0 {
			parts = []json.RawMessage{m}
		}
	}
	out := make([]read, len(parts))
	for i, data := range parts {
		if err := onepass.Unmarshal(data, &out[i].input); err != nil {
			out[i].err = &state.UnreadableError{Seq: seq, Part: i, More: i+1 < len(parts),
				Err: fmt.Errorf("stream %s, subject %s: %w", inputStream, subject, err)}
		}
		out[i].at(seq, i, len(parts))
		out[i].size = size(len(parts))
	}
	return out
}

func (r *read) at(seq uint64, part, of int) {
	r.input.Seq, r.input.Part, r.input.More = seq, part, part+1 < of
}
