package guard

import (
	"testing"
	"time"
)

func TestMay(t *testing.T) {
	last := time.Unix(0, 0)
	for _, c := range []struct {
		halted     bool
		done, most int
		after      time.Duration
		want       bool
	}{
		{false, 0, 2, time.Hour, true},
		{true, 0, 2, time.Hour, false},
		{false, 3, 2, time.Hour, false}, // and not with 2: the bound may move
		{false, 0, 2, time.Second, false},
		{false, 0, 2, time.Minute, true},
	} {
		if got := May(c.halted, c.done, c.most, last, last.Add(c.after)); got != c.want {
			t.Errorf("%+v: %t", c, got)
		}
	}
}

func TestSay(t *testing.T) {
	for state, want := range map[string]string{"on": "works", "off": "rests", "": "unknown"} { // and not "up"
		if got := Say(state); got != want {
			t.Errorf("%s: %s", state, got)
		}
	}
}
