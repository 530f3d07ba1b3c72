package state_test

import (
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"paramedic/state"
)

func TestToldIsReadAsItWasSet(t *testing.T) {
	at := time.Date(2026, 11, 30, 12, 0, 0, 5, time.UTC)
	want := map[state.Channel]state.Told{
		state.ChannelSlack:     {Rev: 2, At: at, Ref: map[string]string{"ts": "1.2", "text": "<a> & \"b\""}},
		state.ChannelPagerDuty: {Rev: 3},
		state.ChannelConsole:   {At: at},
	}
	before := state.ToldByOf(map[state.Channel]state.Told{state.ChannelSlack: {Rev: 1}})
	told := before
	for ch, on := range want {
		told = told.With(ch, on)
	}
	raw, err := json.Marshal(told)
	if err != nil {
		t.Fatal(err)
	}
	var loaded state.ToldBy
	var object map[state.Channel]state.Told
	if err := json.Unmarshal(raw, &loaded); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &object); err != nil || !reflect.DeepEqual(object, want) {
		t.Errorf("the JSON is %s, %v", raw, err)
	}
	for ch, on := range want {
		for _, of := range []state.ToldBy{told, loaded} {
			if got := of.On(ch); !reflect.DeepEqual(got, on) || of.Rev(ch) != on.Rev || of.Ref(ch, "ts") != on.Ref["ts"] {
				t.Errorf("%s: %+v, want %+v", ch, got, on)
			}
		}
	}
	if before.Rev(state.ChannelSlack) != 1 || before.Rev(state.ChannelConsole) != 0 {
		t.Error("an earlier copy has changed")
	}
}
