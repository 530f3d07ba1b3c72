package link_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	"paramedic/state"
	"paramedic/state/jetstream/link"
)

func named(keys ...string) link.Link {
	var l link.Link
	records := make([]state.Record, len(keys))
	for i, key := range keys {
		records[i].Key = key
	}
	l.Name(records, time.Now())
	return l
}

// Each position has the list, so it must be short.
func TestListIsStoredInFewBytes(t *testing.T) {
	var list link.List
	for i := range 1024 {
		list = append(list, link.Link{Seq: uint64(1e9 + 40*i), Records: 400 + i, Bytes: 64<<10 + i})
	}
	raw, err := json.Marshal(list)
	if err != nil || len(raw) > 12*len(list) {
		t.Errorf("%d links have %d bytes, %v", len(list), len(raw), err)
	}
	var read link.List
	if err := json.Unmarshal(raw, &read); err != nil || !reflect.DeepEqual(read, list) {
		t.Errorf("read %d links: %v", len(read), err)
	}
	for _, bad := range []string{`"gICA"`, `["x"]`, `"AQE="`, `"?"`} {
		if err := json.Unmarshal([]byte(bad), &read); err == nil {
			t.Errorf("%s is read as %v", bad, read)
		}
	}
}

// Only the newest value of a record is not stale.
func TestStaleRecordsHaveNewerValues(t *testing.T) {
	list := link.List{named("a.1", "a.2", "a.3"), named("a.2", "a.4", "a.5"), named("a.4", "b.1")}
	got := list.Stale(2, []state.Record{{Key: "a.3"}})
	if want := [][]bool{{false, true, true}, {false, true, false}}; !reflect.DeepEqual(got, want) {
		t.Errorf("stale are %v, want %v", got, want)
	}
}

func TestLinkHasTokensOfItsKeys(t *testing.T) {
	l := named("timeline.INC-1.7", "alert.f00")
	for prefix, want := range map[string]bool{"timeline": true, "timeline.INC-1": true, "timeline.INC-1.7": true, "alert": true,
		"timeline.INC-2": false, "timeline.INC": false, "alert.f0": false, "alert.f00.1": false} {
		if got := l.Has(prefix); got != want {
			t.Errorf("%s: %v", prefix, got)
		}
	}
	if bytes, records := (link.List{{Bytes: 3, Records: 2}, {Bytes: 4, Records: 5}}).Size(); fmt.Sprint(bytes, records) != "7 7" {
		t.Errorf("%d bytes, %d records", bytes, records)
	}
}
