package fold

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"paramedic/state"
)

// outcome applies what came of delivering an effect. An outcome of an older turn is dropped: it was
// answered already.
func (x *step) outcome(o state.Outcome) {
	e := x.effects[o.Effect]
	if e == nil || e.Turn != o.Turn {
		return
	}
	in := x.incidents[e.Incident]
	if in != nil && e.Kind == state.EffectNotify {
		x.told(in, e, o)
	}
	if !o.Done {
		e.Attempts++
		e.Error, e.Due, e.Turn = oneLine(o.Error), o.RetryAt, x.in.Seq
		x.touch(kindEffect, string(e.ID))
		return
	}
	x.drop(e.ID)
	if in == nil {
		return
	}
	switch e.Kind {
	case state.EffectNotify:
		if o.Error == "" && in.Rev > o.Rev {
			x.notify(in, e.Channel)
		}
	case state.EffectEnrich:
		x.enriched(in, e)
	case state.EffectRun:
		if a := x.actions[e.Action]; a != nil {
			x.runAction(a)
		}
	case state.EffectNote:
		x.noted(in, e, o)
	}
}

// told notes what a channel has shown.
func (x *step) told(in *state.Incident, e *state.Effect, o state.Outcome) {
	t, before := in.Told[e.Channel], in.Told[e.Channel].Rev
	if len(o.Ref) > 0 {
		t.Ref = maps.Clone(t.Ref)
		if t.Ref == nil {
			t.Ref = map[string]string{}
		}
		maps.Copy(t.Ref, o.Ref)
	}
	if o.Rev > t.Rev {
		t.Rev, t.At = o.Rev, x.now
	}
	in.Told = maps.Clone(in.Told)
	if in.Told == nil {
		in.Told = map[state.Channel]state.Told{}
	}
	in.Told[e.Channel] = t
	x.changedIncident(in)
	switch {
	case o.Done && o.Error != "":
		x.record(in, state.Entry{Kind: "notified", Quiet: true, Text: fmt.Sprintf("%s could not be told, and it will not be tried again: %s", e.Channel, o.Error)})
	case o.Done && before == 0 && e.Channel != state.ChannelConsole:
		x.record(in, state.Entry{Kind: "notified", Quiet: true, Text: fmt.Sprintf("%s was told", e.Channel)})
	case !o.Done && e.Attempts == 2:
		x.record(in, state.Entry{Kind: "notified", Quiet: true, Text: fmt.Sprintf("%s does not take the message, it is tried again: %s", e.Channel, o.Error)})
	}
}

// enriched plans the next gathering of evidence.
func (x *step) enriched(in *state.Incident, e *state.Effect) {
	if !in.Open() {
		return
	}
	every := enrichYoung
	switch age := x.now.Sub(in.OpenedAt); {
	case age > youth:
		every = enrichOld
	case age < undecided && in.Cause() == state.Unknown:
		every = enrichUndecided
	}
	next := x.now.Add(every)
	if in.EnrichAt.After(e.Due) {
		next = sooner(next, in.EnrichAt) // a symptom came while evidence was being gathered
	}
	in.EnrichAt = next
	x.changedIncident(in)
	x.wantEvidence(in)
}

// vanishedSlack is how much later than an alert's last mention Alertmanager must have been asked to
// prove it gone; mostReconciled and mostEnded bound the alerts that one input ends and the
// incidents that they are of, each of which is up to six records beside its alerts. The next asking
// does the rest.
const (
	vanishedSlack  = 30 * time.Second
	mostReconciled = 150
	mostEnded      = 70
)

// vanished ends the episodes of alerts that Alertmanager no longer holds: silenced alerts that
// resolve are never announced.
func (x *step) vanished(v state.Vanished) {
	gone := make(map[state.Fingerprint]bool, len(v.Fingerprints))
	for _, fp := range v.Fingerprints {
		gone[fp] = true
	}
	x.endAlerts("Alertmanager no longer holds the alert", func(rec *state.AlertRecord) bool {
		return gone[rec.Alert.Fingerprint] && v.At.Sub(rec.LastAt) > vanishedSlack
	})
}

// endAlerts ends active alerts that went without a word, and reports whether there were any.
func (x *step) endAlerts(why string, gone func(*state.AlertRecord) bool) bool {
	var ended []*state.Incident
	n := 0
	for _, fp := range slices.Sorted(maps.Keys(x.Board.alerts)) {
		rec := x.Board.alerts[fp]
		if !rec.Active || !gone(rec) {
			continue
		}
		if n++; n > mostReconciled || len(ended) == mostEnded {
			break
		}
		rec.Alert.Status = state.Resolved
		if in := x.gone(rec); in != nil && !slices.Contains(ended, in) {
			ended = append(ended, in)
			x.record(in, state.Entry{Kind: "note", Quiet: true, Text: fmt.Sprintf("%s: %s", orDash(rec.Alert.Name()), why)})
		}
	}
	for _, in := range ended {
		x.settle(in)
	}
	return n > 0
}
