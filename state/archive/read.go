package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"

	"paramedic/state"
)

// maxLine bounds a line. A stored value has at most 8 MiB, and in base64 a third more.
const maxLine = 16 << 20

// A Visitor gets the contents of an archive, in their order.
type Visitor interface {
	Header(Header) error
	Input(Input) error
	Partition(Partition) error
	Record(partition int, r state.Record) error
}

// A line has the fields of all kinds of lines.
type line struct {
	Kind string `json:"kind"`
	Header
	Partition int             `json:"partition"`
	Position  uint64          `json:"position"`
	Sum       state.Sum       `json:"sum"`
	Seq       uint64          `json:"seq"`
	Key       string          `json:"key"`
	Value     json.RawMessage `json:"value"`
	Bytes     []byte          `json:"bytes"`
	End
}

// data returns the stored value.
func (l *line) data() []byte {
	if l.Value != nil {
		return l.Value
	}
	return l.Bytes
}

// A reader checks the order of the lines while it reads.
type reader struct {
	visit   Visitor
	hash    hash.Hash
	n       int // lines so far
	header  Header
	part    *Partition // whose records follow
	found   state.Sum  // of its records so far
	seq     uint64     // of the last input
	counted End
}

// Read reads an archive, and returns its end. It returns an error for a newer format, and for an
// archive that was cut or changed. The visitor may have got a part of it then.
func Read(from io.Reader, visit Visitor) (End, error) {
	r := reader{visit: visit, hash: sha256.New()}
	lines := bufio.NewScanner(from)
	lines.Buffer(make([]byte, 1<<16), maxLine)
	lines.Split(wholeLines)
	for lines.Scan() {
		r.n++
		var l line
		strict := json.NewDecoder(bytes.NewReader(lines.Bytes()))
		strict.DisallowUnknownFields()
		if err := strict.Decode(&l); err != nil {
			if r.n == 1 {
				return End{}, fmt.Errorf("this is no export of Paramedic's state: its first line: %w", err)
			}
			return End{}, r.damaged(err)
		}
		if l.Kind == kindEnd {
			if !bytes.Equal(lines.Bytes(), l.End.line()) { // no hash protects this line
				return End{}, r.damaged(errors.New("it is not as Paramedic writes it"))
			}
			return r.finish(l.End, lines.Scan())
		}
		if err := r.take(&l); err != nil {
			return End{}, err
		}
		r.hash.Write(lines.Bytes())
	}
	if err := lines.Err(); err != nil && !errors.Is(err, errCut) {
		return End{}, fmt.Errorf("reading line %d: %w", r.n+1, err)
	}
	return End{}, fmt.Errorf("the file is cut off: its last line is missing after line %d. Export the store again, or copy "+
		"the file again", r.n)
}

var errCut = errors.New("the last line does not end")

// wholeLines splits at line feeds, and keeps them.
func wholeLines(data []byte, atEOF bool) (advance int, token []byte, err error) {
	if i := bytes.IndexByte(data, '\n'); i >= 0 {
		return i + 1, data[:i+1], nil
	}
	if atEOF && len(data) > 0 {
		return 0, nil, errCut
	}
	return 0, nil, nil
}

func (r *reader) damaged(err error) error {
	return fmt.Errorf("line %d is damaged: %w. Export the store again, or copy the file again", r.n, err)
}

// take passes a line to the visitor.
func (r *reader) take(l *line) error {
	if (r.n == 1) != (l.Kind == kindHeader) {
		return r.damaged(fmt.Errorf("it has the kind %q", l.Kind))
	}
	switch l.Kind {
	case kindHeader:
		if l.Format > state.Format {
			return fmt.Errorf("this export was made by Paramedic %s with format %d, and this Paramedic reads up to %d: use that "+
				"version, or a newer one", l.Version, l.Format, state.Format)
		}
		if l.Format < 1 || l.Partitions < 1 {
			return r.damaged(fmt.Errorf("it has the format %d and %d partitions", l.Format, l.Partitions))
		}
		r.header = l.Header
		return r.visit.Header(l.Header)
	case kindInput:
		if r.part != nil || l.Seq <= r.seq || l.Seq > r.header.Last || l.Partition < 0 || l.Partition >= r.header.Partitions {
			return r.damaged(fmt.Errorf("input %d of partition %d is out of order", l.Seq, l.Partition))
		}
		r.seq = l.Seq
		r.counted.Inputs++
		return r.visit.Input(Input{Seq: l.Seq, Partition: l.Partition, Data: l.data()})
	case kindPartition:
		if err := r.endPartition(); err != nil {
			return err
		}
		if r.part != nil && l.Partition <= r.part.Partition || l.Partition < 0 || l.Partition >= r.header.Partitions {
			return r.damaged(fmt.Errorf("partition %d is out of order", l.Partition))
		}
		r.part, r.found = &Partition{Partition: l.Partition, Position: l.Position, Sum: l.Sum}, state.Sum{}
		return r.visit.Partition(*r.part)
	case kindRecord:
		if r.part == nil {
			return r.damaged(errors.New("a record comes before its partition"))
		}
		rec := state.Record{Key: l.Key, Value: l.data()}
		if rec.Value == nil {
			rec.Value = []byte{} // nil would delete
		}
		if r.counted.Records++; !Timeline(l.Key) {
			r.found.Add(rec.Hash())
		}
		return r.visit.Record(r.part.Partition, rec)
	}
	return r.damaged(fmt.Errorf("it has the unknown kind %q", l.Kind))
}

// endPartition compares the records of a partition with its sum.
func (r *reader) endPartition() error {
	if r.part != nil && r.found != r.part.Sum {
		return fmt.Errorf("before line %d: the records of partition %d are not those that were exported. Export the store "+
			"again, or copy the file again", r.n, r.part.Partition)
	}
	return nil
}

// finish compares the last line with what was read. more reports whether another line follows.
func (r *reader) finish(end End, more bool) (End, error) {
	if err := r.endPartition(); err != nil {
		return End{}, err
	}
	sum := hex.EncodeToString(r.hash.Sum(nil))
	switch {
	case more:
		return End{}, r.damaged(errors.New("more lines follow the last one"))
	case end.Inputs != r.counted.Inputs || end.Records != r.counted.Records:
		return End{}, r.damaged(fmt.Errorf("it counts %d inputs and %d records, and the file has %d and %d", end.Inputs, end.Records,
			r.counted.Inputs, r.counted.Records))
	case end.SHA256 != sum:
		return End{}, fmt.Errorf("the file was changed: its SHA-256 is %s, and the last line says %s. Export the store again, or "+
			"copy the file again", sum, end.SHA256)
	}
	return end, nil
}
