package fold

import (
	"fmt"
	"slices"
	"time"

	"paramedic/state"
	"paramedic/state/fold/index"
)

// occurred returns the time of the event at the other tool. That tool's clock may be ahead, and
// some events have no time.
func (x *step) occurred(fo state.Foreign) time.Time {
	if fo.At.IsZero() || fo.At.After(x.now) {
		return x.now
	}
	return fo.At
}

// applyForeign applies another tool's event: about one of our incidents, or about an incident of
// its own that a rule recognises. Events may come late and out of order. An event that is older
// than the known state changes nothing.
func (x *step) applyForeign(fo state.Foreign) {
	if state.IsFlood(fo.Key) {
		x.applyFloodEvent(fo)
		return
	}
	if in := x.root(state.IncidentID(fo.Key)); in != nil {
		x.applyPageEvent(in, fo)
		return
	}
	at := x.occurred(fo)
	a := state.Alert{Fingerprint: state.Fingerprint(fo.Source + "-" + fo.ID), Status: state.Firing, Labels: fo.Labels,
		StartsAt: at}
	rec := x.alerts.Get(a.Fingerprint)
	switch {
	case fo.Event != "triggered" && fo.Event != "reopened" && fo.Event != "resolved":
		return
	case rec != nil && at.Before(later(rec.StartsAt(), rec.EndsAt())):
		return
	case rec == nil && x.Triage.Classify(a, x.in.Cluster).Symptom == state.Unclassified:
		return // its text names no inference service
	case fo.Event == "resolved":
		a.Status, a.EndsAt = state.Resolved, at
		if in := x.resolveAlert(rec, a); in != nil {
			x.endExternal(in, fo.ID, true)
			x.updateStatus(in)
		}
		return
	}
	in := x.applyAlert(a)
	if in == nil {
		return
	}
	if !slices.ContainsFunc(in.External, func(e state.External) bool { return e.ID == fo.ID }) {
		in.External = append(in.External, state.External{Source: fo.Source, ID: fo.ID, URL: fo.URL,
			Title: oneLine(fo.Title), Low: fo.Low})
		x.record(in, state.Entry{Kind: "note",
			Text: fmt.Sprintf("incident %[2]s of %[1]s is about the same trouble: %[3]s", fo.Source, fo.ID, fo.Title)})
	}
	x.endExternal(in, fo.ID, false)
	x.updateStatus(in)
	x.noteExternals(in)
}

// endExternal records whether another tool's incident has ended.
func (x *step) endExternal(in *state.Incident, id string, ended bool) {
	in.External = slices.Clone(in.External)
	for i := range in.External {
		if in.External[i].ID == id {
			in.External[i].Ended = ended
		}
	}
	x.changedIncident(in)
}

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

func (x *step) applyPageEvent(in *state.Incident, fo state.Foreign) {
	if in.ID != state.IncidentID(fo.Key) {
		// This is the page of a merged incident. The bot itself ended it, which says nothing about
		// the root's page.
		switch fo.Event {
		case "acknowledged":
			x.ackAt(in, ackedElsewhere(fo.Actor), "on the page of "+fo.Key, x.occurred(fo))
		case "annotated":
			x.record(in, state.Entry{Kind: "note", Actor: fo.Actor, Quiet: true, Text: fo.Title})
		}
		return
	}
	if fo.Event == "annotated" {
		x.record(in, state.Entry{Kind: "note", Actor: fo.Actor, Quiet: true, Text: fo.Title})
		return
	}
	at := x.occurred(fo)
	if at.Before(in.PageAt) {
		return
	}
	in.PageAt = at
	x.changedIncident(in)
	switch fo.Event {
	case "acknowledged":
		if in.Open() {
			x.setPageStatus(in, "acknowledged")
			x.ackAt(in, fo.Actor, "", at)
		}
	case "unacknowledged":
		if in.Open() && !at.Before(in.AckedAt) { // an acknowledgement on another channel may be newer
			x.setPageStatus(in, "triggered")
			x.unack(in, fo.Actor)
		}
	case "resolved":
		switch {
		case !in.Open():
		case fo.Actor.ID == "" && in.ActiveAlerts > 0:
			x.pageTimedOut(in)
		default:
			x.setPageStatus(in, "resolved")
			x.resolve(in, fo.Actor, "in PagerDuty")
		}
	case "reopened":
		x.setPageStatus(in, "triggered")
		if !in.Open() {
			x.reopenFromPage(in, fo.Actor)
		}
	}
}

// pageTimedOut opens a new page for an incident whose page PagerDuty resolved without a person
// (auto-resolve) while its alerts fire.
func (x *step) pageTimedOut(in *state.Incident) {
	x.endPage(in)
	x.record(in, state.Entry{Kind: "note", Text: "PagerDuty resolved its page by itself. Alerts still fire, so Paramedic pages again"})
	x.publish(in)
}

// setPageStatus records the status of the incident's page, so that it is not sent again.
func (x *step) setPageStatus(in *state.Incident, status string) {
	t := in.Told.On(state.ChannelPagerDuty)
	if t.Ref == nil {
		t.Ref = map[string]string{}
	}
	t.Ref["status"] = status
	in.Told = in.Told.With(state.ChannelPagerDuty, t)
	x.changedIncident(in)
}

// endPage forgets the page of an incident that is open again. Routes decide anew whether it pages,
// and events about the old page that come late do not count.
func (x *step) endPage(in *state.Incident) {
	x.setPageStatus(in, "")
	t := in.Told.On(state.ChannelPagerDuty)
	t.Rev = 0
	in.Told = in.Told.With(state.ChannelPagerDuty, t)
	in.Channels = slices.DeleteFunc(slices.Clone(in.Channels), func(c state.Channel) bool { return c == state.ChannelPagerDuty })
	in.PageAt = x.now
}

// unack withdraws an acknowledgement, which the person gave up or let time out.
func (x *step) unack(in *state.Incident, by state.Actor) {
	if in.AckedAt.IsZero() {
		return
	}
	was := in.Acker()
	in.AckedAt, in.AckedBy = time.Time{}, nil
	if in.Status == state.StatusAcked {
		in.Status = state.StatusOpen
	}
	text := fmt.Sprintf("no longer acknowledged by %s", was)
	if by.ID != "" {
		text += fmt.Sprintf(": %s unacknowledged it in PagerDuty", by)
	} else {
		text += ": its acknowledgement ended in PagerDuty, which pages again"
	}
	x.record(in, state.Entry{Kind: "unacked", Actor: by, Text: text})
	x.publish(in)
}

// reopenFromPage reopens an incident that was resolved while its alerts fired. Without active
// alerts it stays resolved: the timeline records that a person reopened the page.
func (x *step) reopenFromPage(in *state.Incident, by state.Actor) {
	keys := x.countActive(in)
	if in.ActiveAlerts == 0 {
		x.record(in, state.Entry{Kind: "note", Actor: by,
			Text: fmt.Sprintf("reopened in PagerDuty%s: it stays resolved here, because none of its alerts fires", byWhom(by))})
		return
	}
	x.reopen(in, keys)
	x.planNow(in) // its runs ended with the incident, and its verdict may not change
	x.record(in, state.Entry{Kind: "reopened", Actor: by, Text: fmt.Sprintf("reopened in PagerDuty%s", byWhom(by))})
	x.publish(in)
}

// countActive counts the incident's active alerts anew, and returns their index keys.
func (x *step) countActive(in *state.Incident) (keys []index.Key) {
	for i := range in.Symptoms {
		in.Symptoms[i].Active = 0
	}
	in.ActiveAlerts = 0
	for _, rec := range x.alertsOf(in) {
		if !rec.Active() {
			continue
		}
		in.ActiveAlerts++
		if c := in.Symptom(rec.Symptom()); c != nil {
			c.Active++
		}
		keys = append(keys, x.alertKeys(rec)...)
	}
	x.changedIncident(in)
	return keys
}

// reopen opens a resolved incident again, without its acknowledgement.
func (x *step) reopen(in *state.Incident, keys []index.Key) {
	x.forgetEnd(in)
	in.ResolvedAt, in.ResolvedBy = time.Time{}, ""
	in.AckedAt, in.AckedBy = time.Time{}, nil
	if in.Status = state.StatusMonitoring; in.ActiveAlerts > 0 {
		in.Status = x.activeStatus(in)
	}
	x.open.Add(in, keys)
	x.indexScope(in)
	x.indexEverywhere(in)
	in.EnrichAt = x.now
	x.wantEvidence(in)
	x.changedIncident(in)
}

func byWhom(by state.Actor) string {
	if by.ID == "" {
		return ""
	}
	return " by " + by.String()
}
