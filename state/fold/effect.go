package fold

import (
	"fmt"
	"slices"
	"time"

	"paramedic/state"
)

// applyOutcome applies the result of an effect's delivery. An outcome of an older turn is dropped:
// that turn was answered already.
func (x *step) applyOutcome(o state.Outcome) {
	e := x.effects[o.Effect]
	if e == nil || e.Turn != o.Turn {
		return
	}
	in := x.incidents[e.Incident]
	if in != nil && e.Kind == state.EffectNotify {
		x.recordShown(in, e, o)
	}
	if o.Done { // first: what follows may want the effect again
		x.dropEffect(e.ID)
	}
	if e.Kind == state.EffectFlood {
		x.recordFlood(e, o)
	}
	if !o.Done {
		x.changeEffect(e, func(e *state.Effect) {
			e.Attempts++
			e.Error, e.Due, e.Turn = oneLine(o.Error), o.RetryAt, x.in.Turn()
		})
		return
	}
	if in == nil {
		return
	}
	switch e.Kind {
	case state.EffectNotify:
		// A newer revision came meanwhile. Older records do not tell which one was refused.
		if o.Error == "" && in.Rev > o.Rev || o.Tried > 0 && in.Rev > o.Tried {
			x.wantNotify(in, e.Channel)
		}
	case state.EffectEnrich:
		x.scheduleEnrich(in, e)
	case state.EffectRun:
		if a := x.actions[e.Action]; a != nil {
			x.scheduleRun(a)
		}
	case state.EffectNote:
		x.recordNote(in, e, o)
	}
}

// recordShown records the revision that a channel has shown.
func (x *step) recordShown(in *state.Incident, e *state.Effect, o state.Outcome) {
	before := in.Told.On(e.Channel)
	t := told(before, o)
	if t.Rev > before.Rev {
		t.At = x.now
	}
	in.Told = in.Told.With(e.Channel, t)
	x.changedIncident(in)
	if e.Channel == state.ChannelPagerDuty && raised(before, t) {
		in.PageAt = x.now // what PagerDuty reports of the page before it comes late
	}
	if e.Channel == state.ChannelPagerDuty && in.Open() && t.Ref["status"] == "resolved" {
		x.setPageStatus(in, "") // it was reopened while the end of its page was on its way
	}
	switch {
	case o.Done && o.Error != "":
		x.record(in, state.Entry{Kind: "notified", Quiet: true,
			Text: fmt.Sprintf("Paramedic could not notify %s, and does not try again: %s", e.Channel, o.Error)})
	case o.Done && before.Rev == 0 && e.Channel != state.ChannelConsole:
		x.record(in, state.Entry{Kind: "notified", Quiet: true, Text: fmt.Sprintf("Paramedic notified %s", e.Channel)})
	case !o.Done && e.Attempts == 2:
		x.record(in, state.Entry{Kind: "notified", Quiet: true,
			Text: fmt.Sprintf("%s refuses the message, and Paramedic tries again: %s", e.Channel, o.Error)})
	}
}

// raised reports whether a page was replaced by one of another severity.
func raised(before, after state.Told) bool {
	was := before.Ref["severity"]
	return was != "" && after.Ref["severity"] != was
}

// scheduleEnrich schedules the next gathering of evidence.
func (x *step) scheduleEnrich(in *state.Incident, e *state.Effect) {
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
	crowded := time.Duration(x.open.Len()) * enrichShare
	next := x.now.Add(max(every, min(crowded, enrichOld)))
	if in.EnrichAt.After(e.Due) {
		next = sooner(next, in.EnrichAt) // a symptom came during the gathering
	}
	in.EnrichAt = next
	x.changedIncident(in)
	x.wantEvidence(in)
}

// An alert is gone if Alertmanager was queried vanishedSlack after its last report, or later.
// maxEndedAlerts and maxEndedIncidents bound the changes of one input: each incident is up to six
// records beside its alerts. The next query ends the rest.
const (
	vanishedSlack     = 30 * time.Second
	maxEndedAlerts    = 150
	maxEndedIncidents = 70
)

// applyVanished ends the episodes of alerts that Alertmanager no longer has. It never announces the
// end of silenced alerts. An alert that Alertmanager holds counts as reported.
func (x *step) applyVanished(v state.Vanished) {
	for _, fp := range v.Held[:min(len(v.Held), state.MaxHeld)] {
		if rec := x.alerts.Get(fp); rec != nil && rec.Active() && v.At.After(rec.LastAt()) {
			rec.SetLastAt(v.At)
			x.touch(kindAlert, string(fp))
		}
	}
	var gone []state.Fingerprint
	for _, fp := range v.Fingerprints {
		if rec := x.alerts.Get(fp); rec != nil && rec.Active() && v.At.Sub(rec.LastAt()) > vanishedSlack {
			gone = append(gone, fp)
		}
	}
	x.endAlerts("Alertmanager no longer holds the alert", gone)
}

// endAlerts ends active alerts for which no resolution was sent.
func (x *step) endAlerts(why string, gone []state.Fingerprint) {
	var ended []*state.Incident
	slices.Sort(gone)
	for n, fp := range slices.Compact(gone) {
		rec := x.alerts.Get(fp)
		if n == maxEndedAlerts || len(ended) == maxEndedIncidents {
			break
		}
		if in := x.endEpisode(rec, rec.EndsAt()); in != nil && !slices.Contains(ended, in) {
			ended = append(ended, in)
			x.record(in, state.Entry{Kind: "note", Quiet: true,
				Text: fmt.Sprintf("%s: %s", orDash(rec.Rule()), why)})
		}
	}
	for _, in := range ended {
		x.updateStatus(in)
	}
}
