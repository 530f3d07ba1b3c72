package pagerduty

import (
	"context"
	"fmt"
	"maps"
	"strconv"

	api "github.com/PagerDuty/go-pagerduty"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

var _ notify.Flooder = (*Notifier)(nil)

// PerMinute is the number of events that a Notifier sends in a minute.
const PerMinute = 110

// refFlood is the handle of a summary that holds the last revision that was reported.
const refFlood = "rev"

// ShowFlood opens one page that names the incidents that wait, and resolves it when the flood is
// over. A change of an open page is a note or a change event, as for an incident: a second trigger
// would page again if a person has resolved the first.
func (n *Notifier) ShowFlood(ctx context.Context, f state.Flood, url string) (map[string]string, error) {
	ref := maps.Clone(f.Told.Ref)
	if ref == nil {
		ref = map[string]string{}
	}
	m := notify.Message{Incident: state.IncidentID(f.Key), Title: f.Text(), Where: "Paramedic", URL: url,
		Severity: f.Severity}
	rev := strconv.FormatUint(f.Rev, 10)
	var err error
	switch status := ref[refStatus]; {
	case status == resolved:
		return ref, nil
	case f.Over(): // also without a status: a trigger may have been delivered
		if err = n.send(ctx, "resolve", m); err == nil {
			ref[refStatus] = resolved
		}
	case status == "":
		if err = n.deliver(ctx, func(key string) *api.V2Event { return floodEvent(key, f, m) }); err == nil {
			ref[refStatus], ref[refFlood] = triggered, rev
		}
	case ref[refFlood] != rev:
		if err = n.reportFlood(ctx, m, rev); err == nil {
			ref[refFlood] = rev
		}
	}
	return ref, err
}

// reportFlood reports the new number of incidents on the open page.
func (n *Notifier) reportFlood(ctx context.Context, m notify.Message, rev string) error {
	if n.cfg.Notes() {
		mark := fmt.Sprintf("%s %s:", marker(m), rev)
		return n.noteOwn(ctx, m, mark, text.Cut(mark+" "+m.Title, limitNote))
	}
	return n.recordChange(ctx,
		func(key string) api.ChangeEvent { return changeEvent(key, m, m.Title, n.opt.Clock.Now()) })
}

// floodEvent returns the trigger of a summary.
func floodEvent(key string, f state.Flood, m notify.Message) *api.V2Event {
	causes := map[string]any{}
	for _, c := range f.Causes {
		causes[string(c.Cause)] = c.N
	}
	e := &api.V2Event{
		RoutingKey: key, Action: "trigger", DedupKey: f.Key, Client: "Paramedic", ClientURL: m.URL,
		Payload: &api.V2Payload{
			Summary: text.Cut(m.Title, limitSummary), Source: m.Where, Severity: severity(f.Severity),
			Timestamp: f.Since.UTC().Format("2006-01-02T15:04:05.000Z07:00"), Class: "page_flood",
			Details: map[string]any{
				"1 what is wrong": fmt.Sprintf("%d incidents wait for their own page. PagerDuty takes about %d pages a "+
					"minute for a key. Paramedic sends the most severe and largest incidents first.", f.Waiting, PerMinute),
				"2 causes": causes,
				"3 do now": "Look at the list of incidents. To acknowledge this page acknowledges none of them. Paramedic " +
					"resolves it when each of them has its page, or has ended.",
			},
		},
	}
	if m.URL != "" {
		e.Links = append(e.Links, map[string]string{"href": m.URL, "text": "The incidents, live"})
	}
	return e
}
