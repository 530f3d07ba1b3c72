package archive_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"paramedic/state"
	"paramedic/state/archive"
)

// seen notes what a visitor gets.
type seen struct {
	header archive.Header
	lines  []string
}

func (s *seen) Header(h archive.Header) error { s.header = h; return nil }

func (s *seen) Input(in archive.Input) error {
	s.lines = append(s.lines, fmt.Sprintf("input %d in %d: %s", in.Seq, in.Partition, in.Data))
	return nil
}

func (s *seen) Partition(p archive.Partition) error {
	s.lines = append(s.lines, fmt.Sprintf("partition %d at %d", p.Partition, p.Position))
	return nil
}

func (s *seen) Record(partition int, r state.Record) error {
	s.lines = append(s.lines, fmt.Sprintf("record %s in %d: %q", r.Key, partition, r.Value))
	return nil
}

// values are stored forms that must come back byte for byte.
var values = []string{`{"a":1,"b":"<\u003c&\u2028ö"}`, `{ "a": 1 }`, "", "null", "not JSON\n", "\xff\x00"}

var header = archive.Header{Format: state.Format, Version: "v1.2.3", At: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC), Partitions: 8, Last: 30}

// written returns an archive, and what a visitor gets of it.
func written(t *testing.T, h archive.Header) (file []byte, want []string) {
	t.Helper()
	var out bytes.Buffer
	w, err := archive.NewWriter(&out, h)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(err)
	for i, v := range values {
		must(w.Input(archive.Input{Seq: uint64(10 + 3*i), Partition: i, Data: []byte(v)}))
		want = append(want, fmt.Sprintf("input %d in %d: %s", 10+3*i, i, v))
	}
	for _, p := range []int{0, 5} {
		var sum state.Sum
		var records []state.Record
		for i, v := range values {
			records = append(records, state.Record{Key: fmt.Sprintf("incident.INC-%d", i), Value: []byte(v)})
			sum.Add(records[len(records)-1].Hash())
		}
		records = append(records, state.Record{Key: "timeline.INC-1.1", Value: []byte(`{"n":1}`)})
		must(w.Partition(archive.Partition{Partition: p, Position: 20, Sum: sum}))
		want = append(want, fmt.Sprintf("partition %d at 20", p))
		for _, r := range records {
			must(w.Record(r))
			want = append(want, fmt.Sprintf("record %s in %d: %q", r.Key, p, r.Value))
		}
	}
	end, err := w.End()
	must(err)
	if end.Inputs != 6 || end.Records != 14 {
		t.Errorf("the end is %+v", end)
	}
	return out.Bytes(), want
}

func TestArchiveComesBackByteForByte(t *testing.T) {
	file, want := written(t, header)
	var got seen
	end, err := archive.Read(bytes.NewReader(file), &got)
	if err != nil || end.Inputs != 6 || end.Records != 14 {
		t.Fatalf("%+v, %v", end, err)
	}
	if d := cmp.Diff(want, got.lines); d != "" || got.header != header {
		t.Errorf("%+v\n%s", got.header, d)
	}
	for line := range bytes.Lines(file) { // other programs read it line by line
		if !bytes.HasPrefix(line, []byte(`{"kind":"`)) || !bytes.HasSuffix(line, []byte("}\n")) {
			t.Errorf("the line %q is no JSON object", line)
		}
	}
}

// A copy that ends anywhere is refused, and so is one with any changed byte.
func TestCutOrChangedArchiveIsRefused(t *testing.T) {
	file, _ := written(t, header)
	for n := range len(file) {
		if _, err := archive.Read(bytes.NewReader(file[:n]), &seen{}); err == nil || !strings.Contains(err.Error(), "cut off") {
			t.Fatalf("the first %d of %d bytes: %v", n, len(file), err)
		}
		for _, bit := range []byte{1, 0x20} {
			broken := bytes.Clone(file)
			broken[n] ^= bit
			if _, err := archive.Read(bytes.NewReader(broken), &seen{}); err == nil {
				t.Fatalf("byte %d was changed from %q to %q in %q", n, file[n], broken[n], file[max(0, n-20):min(n+20, len(file))])
			}
		}
	}
}

func TestRefusalNamesItsReason(t *testing.T) {
	file, _ := written(t, header)
	later := header
	later.Format, later.Version = state.Format+1, "v9.8.7"
	newer, _ := written(t, later)
	lines := bytes.SplitAfter(file, []byte("\n"))
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"newer":    {newer, fmt.Sprintf("made by Paramedic v9.8.7 with format %d, and this Paramedic reads up to %d", state.Format+1, state.Format)},
		"empty":    {nil, "cut off"},
		"other":    {[]byte("apiVersion: v1\nkind: Pod\n"), "no export of Paramedic's state"},
		"JSON":     {[]byte("{\"alerts\":[]}\n"), "no export of Paramedic's state"},
		"appended": {append(bytes.Clone(file), "{}\n"...), "more lines follow"},
		"joined":   {append(bytes.Clone(file), file...), "more lines follow"},
		"lost":     {bytes.Join(slices.Concat(lines[:3], lines[4:]), nil), "counts 6 inputs"},
		"order":    {bytes.Join([][]byte{lines[0], lines[2], lines[1]}, nil), "line 3 is damaged: input 10 of partition 0 is out of order"},
	} {
		if _, err := archive.Read(bytes.NewReader(c.file), &seen{}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
