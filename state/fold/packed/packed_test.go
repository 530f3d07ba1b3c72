package packed_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
	"time"

	jsonv2 "github.com/go-json-experiment/json/v1"

	"paramedic/state"
	"paramedic/state/fold/packed"
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
	sharer := packed.NewSharer()
	var sent []*state.AlertRecord
	var stored []*packed.Alert
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
		p := packed.Of(rec)
		sharer.Share(p)
		stored = append(stored, p)
	}
	for i, p := range stored {
		want, err := json.Marshal(sent[i])
		got, err2 := jsonv2.Marshal(p)
		if err != nil || err2 != nil || string(got) != string(want) {
			t.Fatalf("sent %s, stored %s: %v, %v", want, got, err, err2)
		}
		if read := p.Full(); !reflect.DeepEqual(*sent[i], read) {
			t.Fatalf("sent %+v, read %+v", sent[i], read)
		}
		loaded, err := packed.Decode(got)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := json.Marshal(loaded.Full()); err != nil || string(again) != string(want) {
			t.Fatalf("stored %s, loaded %s: %v", want, again, err)
		}
		if rec := p.Record(); rec.Alert.Name() != sent[i].Alert.Name() || p.Rule() != rec.Alert.Name() || rec.Sign.Entity != sent[i].Sign.Entity {
			t.Fatalf("sent %+v, the short form is %+v", sent[i], rec)
		}
	}
}

// Every field of an alert is stored.
func TestAlertKeepsEveryField(t *testing.T) {
	var rec state.AlertRecord
	n := 0
	fill(reflect.ValueOf(&rec).Elem(), &n)
	raw, err := jsonv2.Marshal(packed.Of(&rec))
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := packed.Decode(raw)
	if err != nil || !reflect.DeepEqual(loaded.Full(), rec) {
		t.Errorf("%+v is stored as %s and read as %+v, %v", rec, raw, loaded.Full(), err)
	}
}

// fill gives each field of v another value.
func fill(v reflect.Value, n *int) {
	*n++
	switch at := v.Addr().Interface().(type) {
	case *time.Time:
		*at = time.Unix(int64(*n), int64(*n)).UTC()
		return
	case *state.AlertStatus:
		*at = state.Resolved
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(fmt.Sprint(*n))
	case reflect.Int:
		v.SetInt(int64(*n))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Map:
		v.Set(reflect.ValueOf(map[string]string{"alertname": fmt.Sprint(*n)}))
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i), n)
		}
	default:
		panic(v.Type())
	}
}
