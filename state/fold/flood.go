package fold

import (
	"fmt"
	"maps"
	"time"

	"paramedic/state"
)

// Flood returns the flood of a channel, or nil. A flood that is over stays until its summary shows
// that.
func (b *Board) Flood(ch state.Channel) *state.Flood { return b.meta.Floods[ch] }

// applyFlood begins, updates or ends the flood of a channel, and wants its summary shown.
func (x *step) applyFlood(c state.FloodCount) {
	f := x.Flood(c.Channel)
	switch {
	case f == nil && c.Over():
		return
	case f == nil:
		f = &state.Flood{Key: state.FloodPrefix + state.Hash(string(c.Channel), fmt.Sprint(x.in.Turn()),
			x.now.UTC().Format(time.RFC3339Nano)), Since: x.now}
	}
	next := *f
	next.FloodCount, next.At = c, x.now
	next.Rev++
	x.setFlood(c.Channel, &next)
	x.wantFlood(&next)
}

func (x *step) setFlood(ch state.Channel, f *state.Flood) {
	floods := maps.Clone(x.meta.Floods)
	if floods == nil {
		floods = map[state.Channel]*state.Flood{}
	}
	if floods[ch] = f; f == nil {
		delete(floods, ch)
	}
	x.meta.Floods = floods
	x.touch(kindMeta, "board")
}

func (x *step) wantFlood(f *state.Flood) {
	x.wantEffect(state.Effect{ID: state.EffectID("flood:" + string(f.Channel)), Kind: state.EffectFlood,
		Channel: f.Channel, Cluster: x.in.Cluster, Want: f.Rev, Due: x.now})
}

// recordFlood records what the summary shows. A flood is forgotten once its summary shows its end,
// or cannot be shown.
func (x *step) recordFlood(e *state.Effect, o state.Outcome) {
	f := x.Flood(e.Channel)
	if f == nil {
		return
	}
	next := *f
	next.Told = told(f.Told, o)
	if o.Rev > f.Told.Rev {
		next.Told.At = x.now
	}
	x.setFlood(e.Channel, &next)
	switch {
	case !o.Done:
	case o.Error == "" && o.Rev < next.Rev:
		x.wantFlood(&next)
	case next.Over():
		x.setFlood(e.Channel, nil)
	}
}

// told returns what a channel shows after an outcome.
func told(t state.Told, o state.Outcome) state.Told {
	if len(o.Ref) > 0 {
		t.Ref = maps.Clone(t.Ref)
		if t.Ref == nil {
			t.Ref = map[string]string{}
		}
		maps.Copy(t.Ref, o.Ref)
	}
	t.Rev = max(t.Rev, o.Rev)
	return t
}

// applyFloodEvent applies an event about the page of a summary. It is about no incident: a person
// who acknowledges the summary has not seen the incidents. After a person has resolved it, it is
// not shown again during this flood.
func (x *step) applyFloodEvent(fo state.Foreign) {
	status := map[string]string{"resolved": "resolved", "reopened": "triggered"}[fo.Event]
	for ch, f := range x.meta.Floods {
		if f.Key == fo.Key && status != "" {
			next := *f
			next.Told = told(f.Told, state.Outcome{Ref: map[string]string{"status": status}})
			x.setFlood(ch, &next)
		}
	}
}
