// Package archive reads and writes an exported store: one JSON value a line, so that other programs
// can read it, too.
//
//	{"kind":"paramedic state","format":1,"version":"v1.2.3","at":"…","partitions":8,"last":17}
//	{"kind":"input","seq":17,"partition":3,"value":{…}}
//	{"kind":"partition","partition":3,"position":17,"sum":{"records":2,"hash":…}}
//	{"kind":"record","key":"incident.INC-…","value":{…}}
//	{"kind":"end","inputs":1,"records":1,"sha256":"…"}
//
// The first line has the last sequence of the log. The inputs come next, in the order of the log.
// Each partition is followed by its records; its sum does not include timelines. A value that is
// not JSON is in "bytes", in base64. The last line has the counts, and the hash of all lines before
// it. [Read] therefore finds a file that was cut or changed.
package archive

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash"
	"io"
	"strings"
	"time"

	"paramedic/state"
)

// The kinds of lines.
const (
	kindHeader    = "paramedic state"
	kindInput     = "input"
	kindPartition = "partition"
	kindRecord    = "record"
	kindEnd       = "end"
)

// A Header describes the store that was exported.
type Header struct {
	Format     int       `json:"format"`
	Version    string    `json:"version"` // of the Paramedic that made the export
	At         time.Time `json:"at"`
	Partitions int       `json:"partitions"`
	Last       uint64    `json:"last"` // sequence of the log's last input, also of one that is lost
}

// An Input is an input of the log, in its stored form.
type Input struct {
	Seq       uint64
	Partition int
	Data      []byte
}

// A Partition begins the records of a partition.
type Partition struct {
	Partition int       `json:"partition"`
	Position  uint64    `json:"position"`
	Sum       state.Sum `json:"sum"`
}

// An End closes the file.
type End struct {
	Inputs  uint64 `json:"inputs"`
	Records uint64 `json:"records"`
	SHA256  string `json:"sha256"`
}

// A Writer writes an archive. Call Input, then Partition and Record, then End.
type Writer struct {
	out  *bufio.Writer
	hash hash.Hash
	end  End
	scan bytes.Buffer
}

// NewWriter writes the header.
func NewWriter(w io.Writer, h Header) (*Writer, error) {
	out := &Writer{hash: sha256.New()}
	out.out = bufio.NewWriterSize(io.MultiWriter(w, out.hash), 1<<16)
	return out, out.line(struct {
		Kind string `json:"kind"`
		Header
	}{kindHeader, h})
}

// Input writes an input.
func (w *Writer) Input(in Input) error {
	w.end.Inputs++
	return w.value(fmt.Sprintf(`{"kind":%q,"seq":%d,"partition":%d`, kindInput, in.Seq, in.Partition), in.Data)
}

// Partition begins the records of a partition.
func (w *Writer) Partition(p Partition) error {
	return w.line(struct {
		Kind string `json:"kind"`
		Partition
	}{kindPartition, p})
}

// Record writes a record of the partition.
func (w *Writer) Record(r state.Record) error {
	w.end.Records++
	return w.value(fmt.Sprintf(`{"kind":%q,"key":%q`, kindRecord, r.Key), r.Value)
}

// End writes the last line.
func (w *Writer) End() (End, error) {
	if err := w.out.Flush(); err != nil {
		return End{}, err
	}
	w.end.SHA256 = hex.EncodeToString(w.hash.Sum(nil))
	if _, err := w.out.Write(w.end.line()); err != nil {
		return End{}, err
	}
	return w.end, w.out.Flush()
}

// line returns the last line.
func (e End) line() []byte {
	return encode(struct {
		Kind string `json:"kind"`
		End
	}{kindEnd, e})
}

func (w *Writer) line(v any) error {
	_, err := w.out.Write(encode(v))
	return err
}

// encode returns a line of a type of this package, which always has a JSON form.
func encode(v any) []byte {
	raw, _ := json.Marshal(v)
	return append(raw, '\n')
}

// value ends a line with a stored value. Its bytes stay as they are, because sums depend on them.
func (w *Writer) value(begin string, data []byte) error {
	w.scan.Reset()
	name, value := "value", data
	if json.Compact(&w.scan, data) != nil || !bytes.Equal(w.scan.Bytes(), data) {
		name, value = "bytes", bytes.TrimSpace(encode(data))
	}
	_, err := fmt.Fprintf(w.out, `%s,%q:%s}`+"\n", begin, name, value)
	return err
}

// Timeline reports whether a record is a timeline entry, which a partition's sum does not include.
func Timeline(key string) bool { return strings.HasPrefix(key, state.TimelinePrefix+".") }
