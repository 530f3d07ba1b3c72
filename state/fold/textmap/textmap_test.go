package textmap_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"testing"

	jsonv2 "github.com/go-json-experiment/json/v1"

	"paramedic/state/fold/textmap"
)

// A packed map is written and read as a Go map is.
func TestMapsAreStoredAsGoMaps(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	texts := []string{"", "a", "<b>&", "\"quoted\"", "ü\x00", "\u2028", fmt.Sprintf("%0300d", 7)}
	for _, n := range []int{-1, 0, 1, 3, 40, 127, 128, 300} {
		var m map[string]string
		if n >= 0 {
			m = map[string]string{}
		}
		for i := range n {
			m[texts[r.IntN(len(texts))]+fmt.Sprint(i)] = texts[r.IntN(len(texts))]
		}
		want, err := jsonv2.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		got, err := jsonv2.Marshal(textmap.Of(m))
		if err != nil || string(got) != string(want) {
			t.Fatalf("%s is stored as %s, %v", want, got, err)
		}
		var read textmap.Map
		if err := jsonv2.Unmarshal(want, &read); err != nil || read != textmap.Of(m) || !reflect.DeepEqual(read.Unpack(), m) {
			t.Errorf("%s is read as %v, %v", want, read.Unpack(), err)
		}
		if read.IsZero() != (len(m) == 0) {
			t.Errorf("%s is zero: %v", want, read.IsZero())
		}
		for name := range m {
			if v, ok := read.Get(name); !ok || v != m[name] {
				t.Errorf("%q is %q, %v", name, v, ok)
			}
		}
	}
}

// Names in any order, names that come twice and nulls are read as into a Go map.
func TestUnsortedMapsAreRead(t *testing.T) {
	for _, text := range []string{`{"b":"1","a":"2"}`, `{"a":"1","c":"2","b":"3","d":"4"}`, `{"a":"1","a":"2"}`, `{"a":null}`, `null`,
		` { } `, `{"\u0061":"\u00fc"}`, "{\"a\":\"\xff\"}", `{"\ud800":"x"}`} {
		var want map[string]string
		if err := json.Unmarshal([]byte(text), &want); err != nil {
			t.Fatal(err)
		}
		var got textmap.Map
		if err := jsonv2.Unmarshal([]byte(text), &got); err != nil || !maps.Equal(got.Unpack(), want) {
			t.Errorf("%s is read as %v, %v", text, got.Unpack(), err)
		}
	}
	for _, text := range []string{`[]`, `7`, `{"a":1}`, `{"a":{}}`, `{"a":"1"`, `"a"`} {
		var got textmap.Map
		if err := jsonv2.Unmarshal([]byte(text), &got); err == nil {
			t.Errorf("%s is read as %v", text, got.Unpack())
		}
	}
}
