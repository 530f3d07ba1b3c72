package state

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"
)

// Told is the state of an incident on one channel: the revision that it last showed, and its
// handles.
type Told struct {
	Rev uint64    `json:"rev"`
	At  time.Time `json:"at,omitzero"`
	// Ref holds the channel's handles. Slack has "channel", "ts" and "thread" (the last timeline
	// entry posted in the thread). PagerDuty has "status" (triggered, acknowledged or resolved).
	Ref map[string]string `json:"ref,omitempty"`
}

// ToldBy holds what each channel has shown of an incident. Its JSON is an object with a [Told] by
// channel. It is not changed in place, so that copies may share it, and takes a fifth of the memory
// of Go maps.
type ToldBy []toldBy

type toldBy struct {
	channel Channel
	rev     uint64
	at      time.Time
	ref     string // the JSON of Told.Ref, or ""
}

// ToldByOf returns the states of several channels.
func ToldByOf(told map[Channel]Told) ToldBy {
	if told == nil {
		return nil
	}
	out := make(ToldBy, 0, len(told))
	for _, ch := range slices.Sorted(maps.Keys(told)) {
		out = append(out, packTold(ch, told[ch]))
	}
	return out
}

func packTold(ch Channel, t Told) toldBy {
	out := toldBy{channel: ch, rev: t.Rev, at: t.At}
	if len(t.Ref) > 0 {
		ref, err := json.Marshal(t.Ref)
		if err != nil {
			panic(fmt.Sprintf("encoding strings: %v", err)) // a map of strings always has a JSON
		}
		out.ref = string(ref)
	}
	return out
}

func (t toldBy) told() Told {
	out := Told{Rev: t.rev, At: t.at}
	if t.ref != "" {
		if err := json.Unmarshal([]byte(t.ref), &out.Ref); err != nil {
			panic(fmt.Sprintf("decoding %q: %v", t.ref, err)) // packTold has encoded it
		}
	}
	return out
}

func (t ToldBy) index(ch Channel) (int, bool) {
	return slices.BinarySearchFunc(t, ch, func(t toldBy, ch Channel) int { return cmp.Compare(t.channel, ch) })
}

// On returns the state on a channel. It is zero if the channel has shown nothing.
func (t ToldBy) On(ch Channel) Told {
	if i, ok := t.index(ch); ok {
		return t[i].told()
	}
	return Told{}
}

// Rev returns the revision that a channel has shown last, or 0.
func (t ToldBy) Rev(ch Channel) uint64 {
	if i, ok := t.index(ch); ok {
		return t[i].rev
	}
	return 0
}

// Ref returns one of a channel's handles, or "".
func (t ToldBy) Ref(ch Channel, name string) string { return t.On(ch).Ref[name] }

// With returns the states with another one on a channel.
func (t ToldBy) With(ch Channel, told Told) ToldBy {
	i, known := t.index(ch)
	out := make(ToldBy, 0, len(t)+1)
	out = append(append(out, t[:i]...), packTold(ch, told))
	if known {
		i++
	}
	return append(out, t[i:]...)
}

// MarshalJSON writes an object with a [Told] by channel.
func (t ToldBy) MarshalJSON() ([]byte, error) {
	type stored struct {
		Rev uint64          `json:"rev"`
		At  time.Time       `json:"at,omitzero"`
		Ref json.RawMessage `json:"ref,omitempty"`
	}
	out := make(map[Channel]stored, len(t))
	for _, on := range t {
		out[on.channel] = stored{on.rev, on.at, json.RawMessage(on.ref)}
	}
	return json.Marshal(out)
}

// UnmarshalJSON reads what MarshalJSON has written.
func (t *ToldBy) UnmarshalJSON(text []byte) error {
	var told map[Channel]Told
	if err := json.Unmarshal(text, &told); err != nil {
		return err
	}
	*t = ToldByOf(told)
	return nil
}
