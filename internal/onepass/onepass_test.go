package onepass_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"paramedic/internal/onepass"
)

type value struct {
	Name   string            `json:"name"`
	N      int               `json:"n,omitempty"`
	At     time.Time         `json:"at"`
	Labels map[string]string `json:"labels"`
	List   []value           `json:"list"`
	Next   *value            `json:"next"`
	Raw    json.RawMessage   `json:"raw"`
	Any    any               `json:"any"`
}

// FuzzUnmarshal compares the results with those of encoding/json.
func FuzzUnmarshal(f *testing.F) {
	for _, text := range []string{
		`{"name":"a\u00fc\ud800","NAME":"b","n":3,"at":"2026-11-30T12:00:00.5+02:00","labels":{"a":"b","a":"c"},"other":[1,{}]}`,
		`{"list":[{"name":"x"},null,{"n":-1}],"next":{"next":{"raw":{"a": [1, 2]}}},"any":{"a":[1.5,true,null,"x"]}}`,
		"{\"name\":\"\xff\",\"labels\":null}", `{"n":1.5,"name":"x"}`, `{"n":"1"}`, `{"name":1,"n":2}`, `{"labels":{"a":1,"b":"c"}}`,
		`{"at":"yesterday","name":"x"}`, `{"name":"a"`, `{"name":"a"} x`, ` {} `, ``, `null`, `[]`, `{"name":"a",}`,
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var got, want value
		gotErr, wantErr := onepass.Unmarshal(text, &got), json.Unmarshal(text, &want)
		if (gotErr == nil) != (wantErr == nil) {
			t.Fatalf("%q: %v, encoding/json says %v", text, gotErr, wantErr)
		}
		if wantErr == nil && !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, encoding/json reads %+v", text, got, want)
		}
	})
}
