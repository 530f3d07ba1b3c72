package fold

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"paramedic/state"
)

// An alert that shares memory with others is stored and read as it was sent.
func TestPackedAlertIsReadAsItWasSent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	text := func(kind string) string {
		return []string{"", kind, fmt.Sprint(kind, r.IntN(5)), "ü\x00" + kind, fmt.Sprintf("%0200d", r.IntN(3))}[r.IntN(5)]
	}
	texts := func(kind string) map[string]string {
		if r.IntN(8) == 0 {
			return nil
		}
		m := map[string]string{}
		for range r.IntN(40) {
			m[text(kind)+fmt.Sprint(r.IntN(30))] = text("v")
		}
		if r.IntN(4) > 0 {
			m["alertname"] = text("Rule")
		}
		return m
	}
	b := NewBoard()
	var sent []*state.AlertRecord
	var packed []*alertRecord
	for range 500 {
		rec := &state.AlertRecord{Alert: state.Alert{Fingerprint: state.Fingerprint(text("f")), Labels: texts("l"), Annotations: texts("a"),
			GeneratorURL: text("http://"), StartsAt: time.Unix(int64(r.IntN(9)), 0).UTC(), Status: state.Firing},
			Sign: state.Sign{Symptom: state.Symptom(text("s")), Hints: texts("h"),
				Entity: state.Entity{Pod: text("v"), Pool: text("v"), Model: text("m"), Namespace: text("v"), Cluster: text("c")}},
			Incident: state.IncidentID(text("INC-")), Active: r.IntN(2) == 0, Episodes: r.IntN(3), FirstAt: time.Unix(9, 0).UTC()}
		if r.IntN(2) == 0 {
			rec.Alert.EndsAt, rec.LastAt = time.Unix(10, 0).UTC(), time.Unix(11, 5).UTC()
		}
		sent = append(sent, rec)
		p := packRecord(*rec)
		b.share(p)
		packed = append(packed, p)
	}
	for i, p := range packed {
		want, err := json.Marshal(sent[i])
		got, err2 := json.Marshal(p)
		if err != nil || err2 != nil || string(got) != string(want) {
			t.Fatalf("sent %s, stored %s: %v, %v", want, got, err, err2)
		}
		if read := p.full(); !reflect.DeepEqual(sent[i], read) {
			t.Fatalf("sent %+v, read %+v", sent[i], read)
		}
		loaded, err := decodeAlert(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(loaded.full()); err != nil || string(again) != string(want) {
			t.Fatalf("stored %s, loaded %s: %v", want, again, err)
		}
		if p.Alert.Name() != sent[i].Alert.Name() {
			t.Fatalf("rule %q, want %q", p.Alert.Name(), sent[i].Alert.Name())
		}
	}
}

// Every field of an alert is stored.
func TestStoredAlertHasEveryField(t *testing.T) {
	var stored storedAlert
	for _, pair := range [][2]reflect.Type{{reflect.TypeFor[state.AlertRecord](), reflect.TypeOf(stored)},
		{reflect.TypeFor[state.Alert](), reflect.TypeOf(stored.Alert)}} {
		for i := range pair[0].NumField() {
			want := pair[0].Field(i)
			got, ok := pair[1].FieldByName(want.Name)
			name := func(f reflect.StructField) string { n, _, _ := strings.Cut(f.Tag.Get("json"), ","); return n }
			if !ok || name(got) != name(want) {
				t.Errorf("%s.%s is not stored as %q", pair[0], want.Name, name(want))
			}
		}
	}
}

// Views and templates show an alert's labels and annotations, also after a restart.
func TestAlertsOfHaveTheirLabels(t *testing.T) {
	s := newStory(t)
	a := s.newAlert(state.Firing, "HighTTFT", "ttft_high", "critical", "llama")
	a.Annotations = map[string]string{"summary": "slow"}
	s.apply(state.Input{Alerts: &state.AlertBatch{Alerts: []state.Alert{a}}})
	var records []state.Record
	for key, value := range s.records {
		if !strings.HasPrefix(key, state.TimelinePrefix+".") {
			records = append(records, state.Record{Key: key, Value: value})
		}
	}
	in := s.onlyIncident()
	for _, board := range []*Board{s.board, loadBoard(t, records)} {
		got := board.AlertsOf(board.Incident(in.ID))
		if len(got) != 1 || !reflect.DeepEqual(got[0].Alert.Labels, a.Labels) || !reflect.DeepEqual(got[0].Alert.Annotations, a.Annotations) {
			t.Errorf("alerts are %+v, sent %+v", got, a)
		}
	}
}
