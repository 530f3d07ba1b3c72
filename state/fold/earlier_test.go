package fold

import (
	"bufio"
	"bytes"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	json "github.com/go-json-experiment/json/v1"

	"paramedic/state"
)

// firstRecords returns the records of a store as the first release writes them. Their file is never
// generated anew.
func firstRecords(t *testing.T) (all []state.Record) {
	t.Helper()
	raw, err := os.ReadFile("testdata/records-1.ndjson")
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(bytes.NewReader(raw))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var line struct {
			Key   string
			Value json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &line); err != nil {
			t.Fatal(err)
		}
		all = append(all, state.Record{Key: line.Key, Value: line.Value})
	}
	return all
}

// A later release must read the records, and lose none of their fields.
func TestRecordsOfFirstReleaseKeepTheirFields(t *testing.T) {
	kinds, all := map[string]bool{}, firstRecords(t)
	for _, r := range all {
		kind, _, _ := strings.Cut(r.Key, ".")
		kinds[kind] = true
		v, err := DecodeRecord(r)
		if err != nil {
			t.Fatalf("%s: %v", r.Key, err)
		}
		again, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		var want, got any
		if err := json.Unmarshal(r.Value, &want); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(again, &got); err != nil {
			t.Fatal(err)
		}
		if lost := lostFields(want, got, kind); len(lost) > 0 {
			t.Errorf("%s loses %v", r.Key, lost)
		}
	}
	for _, kind := range []string{kindIncident, kindAlert, kindAction, kindEffect, kindEvidence, kindWorker, kindHalt, kindMeta} {
		if !kinds[kind] {
			t.Errorf("the records have no %s", kind)
		}
	}
	b, err := LoadBoard(all)
	if err != nil {
		t.Fatal(err)
	}
	loaded := len(slices.Collect(b.alerts.All()))
	if len(b.incidents) == 0 || loaded == 0 || len(b.actions) == 0 {
		t.Errorf("%d incidents, %d alerts, %d actions", len(b.incidents), loaded, len(b.actions))
	}
}

// The store uses the memory of a record's value again.
func TestDecodedRecordKeepsNoPartOfItsValue(t *testing.T) {
	for _, r := range firstRecords(t) {
		v, err := DecodeRecord(r)
		if err != nil {
			t.Fatal(err)
		}
		before, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for i := range r.Value {
			r.Value[i] = 'x'
		}
		if after, err := json.Marshal(v); err != nil || !bytes.Equal(before, after) {
			t.Errorf("%s became %s, %v", before, after, err)
		}
	}
}

// lostFields returns the paths of values that are missing or different after they were read.
func lostFields(want, got any, path string) []string {
	object, ok := want.(map[string]any)
	if !ok {
		if list, ok := want.([]any); ok {
			other, _ := got.([]any)
			if len(other) != len(list) {
				return []string{path}
			}
			var out []string
			for i := range list {
				out = append(out, lostFields(list[i], other[i], path+"[]")...)
			}
			return out
		}
		if !reflect.DeepEqual(want, got) {
			return []string{path}
		}
		return nil
	}
	other, _ := got.(map[string]any)
	var out []string
	for name, v := range object {
		out = append(out, lostFields(v, other[name], path+"."+name)...)
	}
	return out
}

// A release that is older than the store must say so, and not begin with half of its records.
func TestRecordOfNewerReleaseIsRefused(t *testing.T) {
	_, err := LoadBoard([]state.Record{{Key: "verdict.1", Value: []byte("{}")}})
	if err == nil || !strings.Contains(err.Error(), "it was written by a newer version") {
		t.Error(err)
	}
}
