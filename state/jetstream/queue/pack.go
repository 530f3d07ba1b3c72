package queue

import "paramedic/state"

// The server syncs the disk once for each message, and several times for a batch. So inputs that
// wait are written as one message: an array of them. What they change has to fit one commit, as for
// a single input.
const (
	packAlerts = state.MaxBatch // alerts in a message; any other input counts as one

	// PackBytes is the most bytes of the inputs of one message: a quarter of a NATS server's
	// default max_payload.
	PackBytes = 256 << 10
)

// A Pack holds inputs that are written as one message.
type Pack struct {
	Partition     int
	Inputs        [][]byte
	Writes        []*Write // that have inputs in it
	bytes, alerts int
}

func (p *Pack) takes(in Input, most int) bool {
	return p.bytes+len(in.Data) <= most && p.alerts+in.Alerts <= packAlerts
}

// PackGroup distributes the inputs of a group over messages of at most the given bytes, in their
// order. A larger input, or any if most is 0, gets its own message. whole means that the inputs of
// each write are in one message.
func PackGroup(group []*Write, most int) (packs []*Pack, whole bool) {
	whole = true
	open := map[int]*Pack{} // by partition
	for _, w := range group {
		var in *Pack
		for i, e := range w.Inputs {
			p := open[e.Partition]
			if p == nil || !p.takes(e, most) {
				p = &Pack{Partition: e.Partition}
				open[e.Partition] = p
				packs = append(packs, p)
			}
			p.Inputs = append(p.Inputs, e.Data)
			p.bytes += len(e.Data)
			p.alerts += e.Alerts
			if p != in {
				p.Writes = append(p.Writes, w)
				whole = whole && i == 0
			}
			in = p
		}
	}
	return packs, whole
}
