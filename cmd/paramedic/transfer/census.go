package transfer

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"maps"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/state/archive"
	"paramedic/state/fold"
)

// A census describes the contents of an archive or of a store, so that the two can be compared. It
// keeps a little for each incident, and nothing for each input.
type census struct {
	first, last uint64 // sequences of the log's first input and of its end
	inputs      uint64
	largest     int // bytes of the largest input or record
	hash        hash.Hash
	partitions  map[int]*partition
	incidents   map[state.IncidentID]state.Status
	each        func(inputs uint64) // called after every input; nil: not called
}

// A partition describes the records of a partition.
type partition struct {
	position           uint64
	records, timelines state.Sum
}

func newCensus() *census {
	return &census{hash: sha256.New(), partitions: map[int]*partition{}, incidents: map[state.IncidentID]state.Status{}}
}

// Header implements archive.Visitor.
func (c *census) Header(h archive.Header) error {
	c.last = h.Last
	return nil
}

// Input implements archive.Visitor.
func (c *census) Input(in archive.Input) error {
	if c.inputs == 0 {
		c.first = in.Seq
	}
	c.inputs++
	c.largest = max(c.largest, len(in.Data))
	var head [24]byte
	binary.BigEndian.PutUint64(head[:], in.Seq)
	binary.BigEndian.PutUint64(head[8:], uint64(in.Partition)) //nolint:gosec // not negative
	binary.BigEndian.PutUint64(head[16:], uint64(len(in.Data)))
	c.hash.Write(head[:])
	c.hash.Write(in.Data)
	if c.each != nil {
		c.each(c.inputs)
	}
	return nil
}

// Partition implements archive.Visitor.
func (c *census) Partition(p archive.Partition) error {
	c.partitions[p.Partition] = &partition{position: p.Position}
	return nil
}

// Record implements archive.Visitor. A record that this version cannot read is an error.
func (c *census) Record(p int, r state.Record) error {
	c.largest = max(c.largest, len(r.Value))
	if archive.Timeline(r.Key) {
		c.partitions[p].timelines.Add(r.Hash())
		return nil
	}
	c.partitions[p].records.Add(r.Hash())
	v, err := fold.DecodeRecord(r)
	if err != nil {
		return fmt.Errorf("reading record %s: %w", r.Key, err)
	}
	if in, ok := v.(*state.Incident); ok {
		c.incidents[in.ID] = in.Status
	}
	return nil
}

// begin returns the sequence at which the log begins.
func (c *census) begin() uint64 {
	if c.inputs == 0 {
		return c.last + 1
	}
	return c.first
}

// open returns the number of open incidents.
func (c *census) open() int {
	n := 0
	for _, status := range c.incidents {
		if status != state.StatusResolved {
			n++
		}
	}
	return n
}

// String counts the contents, for people.
func (c *census) String() string {
	return fmt.Sprintf("%s, %s (%d open)", text.Count(int(c.inputs), "input message"), //nolint:gosec // no log has as many
		text.Count(len(c.incidents), "incident"), c.open())
}

// equal returns an error that names the first difference between what was wanted and what is there.
func (c *census) equal(want *census) error {
	switch {
	case c.inputs != want.inputs || c.begin() != want.begin() || c.last != want.last:
		return fmt.Errorf("the store has %d inputs from %d to %d, and the file %d from %d to %d", c.inputs, c.begin(), c.last,
			want.inputs, want.begin(), want.last)
	case string(c.hash.Sum(nil)) != string(want.hash.Sum(nil)):
		return fmt.Errorf("the %d inputs of the store are not those of the file", c.inputs)
	case len(c.partitions) != len(want.partitions):
		return fmt.Errorf("the store has records in %d partitions, and the file in %d", len(c.partitions), len(want.partitions))
	}
	for n, p := range want.partitions {
		if have := c.partitions[n]; have == nil || *have != *p {
			return fmt.Errorf("the records of partition %d are not those of the file", n)
		}
	}
	if !maps.Equal(c.incidents, want.incidents) {
		return fmt.Errorf("the store has %d incidents, and the file %d others", len(c.incidents), len(want.incidents))
	}
	return nil
}
