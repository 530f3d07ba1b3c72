package pagerduty

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	api "github.com/PagerDuty/go-pagerduty"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// PagerDuty's limits (https://developer.pagerduty.com/docs/events-api-v2-overview). maxBody leaves
// room for the envelope.
const (
	limitSummary = 1024
	limitBody    = 500 << 10
	limitNote    = 2000
	limitField   = 250
)

// event returns the trigger of an incident.
func event(key string, m notify.Message) *api.V2Event {
	summary, urgency := firstLine(m, limitSummary), severity(m.Severity)
	if o, needs := m.Handed(); needs && !m.HandedAt.IsZero() {
		summary = handedSummary(m, o) + " · " + m.Headline()
		if m.Severity != state.Critical {
			urgency = "error"
		}
	}
	e := &api.V2Event{
		RoutingKey: key, Action: "trigger", DedupKey: string(m.Incident), Client: "Paramedic", ClientURL: m.URL,
		Payload: &api.V2Payload{
			Summary: text.Cut(summary, limitSummary), Source: text.Cut(m.Where, limitField),
			Severity: urgency, Timestamp: m.StartedAt.UTC().Format("2006-01-02T15:04:05.000Z07:00"),
			Class: text.Cut(string(m.Cause), limitField), Details: details(m),
		},
	}
	link := func(href, text string) {
		if href != "" {
			e.Links = append(e.Links, map[string]string{"href": href, "text": text})
		}
	}
	for _, l := range m.Words.Links {
		link(l.URL, l.Text)
	}
	link(m.URL, "The incident, live")
	link(m.PlaybookURL, "Playbook: "+text.Cut(m.PlaybookTitle, limitField))
	shorten(e, m)
	return e
}

// firstLine returns the number and the title, with how bad and how sure it is: "#42 KV cache
// exhausted on llama-70b: critical, 93 % sure". A title of the operator stands alone.
func firstLine(m notify.Message, limit int) string {
	title := m.Name() + " " + m.Headline()
	if m.Words.Title != "" {
		return title
	}
	end := ": " + m.Gravity()
	return text.Cut(title, limit-text.Len(end)) + end
}

func severity(s state.Severity) string {
	switch s {
	case state.Critical, state.Warning, state.Info:
		return string(s)
	}
	return "error"
}

// details returns the texts below a page's summary. PagerDuty sorts the keys by name, hence the
// numbers.
func details(m notify.Message) map[string]any {
	if m.Words.Text != "" {
		return ownDetails(m)
	}
	d := map[string]any{
		"1 what is wrong": m.What, "2 why we believe it": m.Why, "incident": string(m.Incident), "where": m.Where,
		"cause": m.Verdict(), "alerts": m.Alerts,
	}
	set := func(key string, lines []string) {
		if len(lines) > 0 {
			d[key] = lines
		}
	}
	if m.Else != "" {
		d["3 what else it could be"] = m.Else
	}
	set("4 do now", m.Do)
	set("5 do not", m.Avoid)
	set("6 first aid", aid(m))
	set("7 checked for you", m.CheckLines())
	set("8 more evidence", m.MoreEvidence())
	if m.Time != "" {
		d["where the time goes"] = m.Time
	}
	if m.Escalate != "" {
		d["9 escalate"] = m.Escalate
	}
	set("templates", m.Words.Failed)
	return d
}

// ownDetails returns the operator's own details: the fields of a JSON object, or a text.
func ownDetails(m notify.Message) map[string]any {
	var d map[string]any
	if json.Unmarshal([]byte(m.Words.Text), &d) != nil || d == nil {
		d = map[string]any{"details": m.Words.Text}
	}
	if d["incident"] == nil {
		d["incident"] = string(m.Incident)
	}
	if len(m.Words.Failed) > 0 {
		d["templates"] = m.Words.Failed
	}
	return d
}

func aid(m notify.Message) []string {
	var out []string
	for _, o := range m.Actions {
		line := fmt.Sprintf("%s on %s (%s).", o.Change, o.Target, strings.ReplaceAll(string(o.State), "_", " "))
		if asked := o.Asked(); asked != "" && o.State.BeforeEffect() {
			line += " " + asked
		}
		if o.NeedsPerson {
			line += " " + o.Result + ". When it is fixed: paramedic cancel " + string(o.ID)
		}
		if o.Command != "" && o.State.BeforeEffect() {
			line += " By hand: " + o.Command
		}
		out = append(out, line)
	}
	return out
}

// shorten removes the least important parts until the body is within PagerDuty's limit.
func shorten(e *api.V2Event, m notify.Message) {
	drop := []string{"8 more evidence", "7 checked for you", "6 first aid", "5 do not", "4 do now",
		"9 escalate", "3 what else it could be"}
	d := e.Payload.Details.(map[string]any)
	for _, key := range drop {
		if size(e) <= limitBody {
			return
		}
		delete(d, key)
		d["shortened"] = "The incident's page has the rest: " + text.Cut(m.URL, 1000)
	}
	if size(e) > limitBody {
		e.Links, e.ClientURL = nil, "" // only links of extreme length can be left
		e.Payload.Details = map[string]any{"1 what is wrong": text.Cut(m.What, limitNote)}
	}
}

func size(e *api.V2Event) int {
	b, err := json.Marshal(e)
	if err != nil {
		return limitBody + 1
	}
	return len(b)
}

// marker returns the text by which our note is found again.
func marker(m notify.Message) string { return "[" + string(m.Incident) + "]" }

// mergeText returns the note about the incident that this one was merged into.
func mergeText(m notify.Message, mark string) string {
	note := fmt.Sprintf("Paramedic %s: this was the same problem as %s%s.", mark, text.Cut(m.MergedInto, 500), rootState(m))
	if m.URL != "" && len(m.URL) < 300 {
		note += "\nLive: " + m.URL
	}
	return text.Cut(note, limitNote)
}

// mergeEvent returns a change event with the content of mergeText. It has no key: if it is sent
// again because its answer was lost, the list has two lines.
func mergeEvent(key string, m notify.Message, now time.Time) api.ChangeEvent {
	return changeEvent(key, m, fmt.Sprintf("%s was the same problem as %s%s", m.Name(), text.Cut(m.MergedInto, 500), rootState(m)), now)
}

// rootState returns a clause about the incident that this one was merged into, as far as it is
// known.
func rootState(m notify.Message) string {
	switch {
	case m.RootPaged:
		return ", which is still open and has its own page"
	case m.RootOpen:
		return ", which is still open"
	}
	return ""
}

func changeEvent(key string, m notify.Message, summary string, now time.Time) api.ChangeEvent {
	e := api.ChangeEvent{RoutingKey: key, Payload: api.ChangeEventPayload{
		Summary: text.Cut(summary, limitSummary),
		Source:  text.Cut(m.Where, limitField), Timestamp: now.UTC().Format(time.RFC3339),
		CustomDetails: map[string]any{"incident": string(m.Incident), "title": text.Cut(m.Title, limitNote)},
	}}
	if m.URL != "" && len(m.URL) < limitNote {
		e.Links = []api.ChangeEventLink{{Href: m.URL, Text: "The incident, live"}}
	}
	return e
}

// causeMark returns the text by which a note with this cause is found again.
func causeMark(m notify.Message, before state.Cause) string {
	mark := marker(m) + " " + string(m.Cause)
	if before != "" {
		mark += ", in place of " + string(before)
	}
	return mark + ":"
}

// causeEvent returns a change event about an open page's new cause. It replaces a note where none
// can be written.
func causeEvent(key string, m notify.Message, before state.Cause, now time.Time) api.ChangeEvent {
	return changeEvent(key, m, fmt.Sprintf("%s (%s; before: %s)", firstLine(m, limitSummary-200), m.Cause, before), now)
}

// handedSummary returns the summary for first aid that needs a person.
func handedSummary(m notify.Message, o notify.Offer) string {
	return fmt.Sprintf("%s first aid needs a person: %s on %s", m.Name(), o.Change, o.Target)
}

// handedText returns a note on first aid that needs a person, with the reason and how to end it.
func handedText(m notify.Message, o notify.Offer, mark string) string {
	note := fmt.Sprintf("Paramedic %s %s on %s. %s\nParamedic leaves this pool alone until a person confirms that "+
		"it is fixed: on the page, or with paramedic cancel %s.",
		mark, o.Change, o.Target, text.Cut(o.Result, 1200), o.ID)
	if m.URL != "" && len(m.URL) < 300 {
		note += "\nLive: " + m.URL
	}
	return text.Cut(note, limitNote)
}

// noteText returns the diagnosis as a note of plain text.
func noteText(m notify.Message, before state.Cause) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nParamedic %s\n\n", text.Cut(firstLine(m, 250), 250), causeMark(m, before))
	fmt.Fprintf(&b, "What is wrong: %s\nWhy we believe it: %s\n", text.Cut(m.What, 450), text.Cut(m.Why, 450))
	other := ""
	if m.Else != "" {
		other = fmt.Sprintf("What else it could be: %s\n", text.Cut(m.Else, 400))
	}
	end := ""
	if m.URL != "" && len(m.URL) < 300 {
		end = "\nLive: " + m.URL
	}
	if m.PlaybookURL != "" && len(m.PlaybookURL) < 300 {
		end += "\nPlaybook: " + m.PlaybookURL
	}
	list := func(title string, lines []string) {
		for i, l := range lines {
			l = fmt.Sprintf("- %s: %s\n", title, text.Cut(l, 150))
			if i < 3 && text.Len(b.String())+text.Len(l)+text.Len(other)+len(end) < limitNote {
				b.WriteString(l)
			}
		}
	}
	list("Do now", m.Do)
	list("Do not", m.Avoid)
	b.WriteString(other)
	return text.Cut(strings.TrimRight(b.String(), "\n")+"\n"+end, limitNote)
}
