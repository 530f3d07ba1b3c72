package pagerduty

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	api "github.com/PagerDuty/go-pagerduty"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// Note writes the diagnosis into an incident that another tool opened, once per change of the
// cause.
func (n *Notifier) Note(ctx context.Context, m notify.Message, ref string, before state.Cause) error {
	if !n.cfg.Notes() {
		return &notify.Refused{Err: errors.New("notes need notify.pagerduty.api_token_file and from")}
	}
	token, err := n.opt.APIToken()
	if err != nil {
		return notify.Unreadable(err)
	}
	return n.note(ctx, token, ref, causeMark(m, before), noteText(m, before))
}

// note writes a note into an incident, unless it has one with the mark.
func (n *Notifier) note(ctx context.Context, token, ref, mark, words string) error {
	if ref == "" || url.PathEscape(ref) != ref {
		return &notify.Refused{Err: fmt.Errorf("%q is not the ID of a PagerDuty incident",
			text.Cut(text.Clean(ref), 60))}
	}
	if err := n.rest.Wait(ctx); err != nil {
		return err
	}
	c, call := n.client(token)
	notes, listErr := c.ListIncidentNotesWithContext(ctx, ref)
	if err := classify(n.rest, call.verdict("notes of "+ref)); err != nil {
		return err
	}
	if listErr != nil {
		return fmt.Errorf("pagerduty notes of %s: %w", ref, listErr)
	}
	for _, note := range notes {
		if strings.Contains(note.Content, mark) {
			return nil
		}
	}
	if err := n.rest.Wait(ctx); err != nil {
		return err
	}
	c, call = n.client(token)
	// The library sends the user's summary as the header From.
	_, _ = c.CreateIncidentNoteWithContext(ctx, ref,
		api.IncidentNote{User: api.APIObject{Summary: n.cfg.From}, Content: words})
	return classify(n.rest, call.verdict("note in "+ref))
}

// noteMerge writes a note into our own page about the incident that it was merged into. Events
// cannot do that: a resolve has no text. A trigger would open a second incident if a person has
// resolved the page without our knowledge. It would also do so if the resolve overtakes it, because
// PagerDuty processes events in no promised order. Events identify an incident by our key, notes by
// PagerDuty's ID, so noteMerge looks the ID up. If there is none, no person was paged, and no note
// is needed.
func (n *Notifier) noteMerge(ctx context.Context, m notify.Message) error {
	mark := marker(m) + " merged"
	return n.noteOwn(ctx, m, mark, mergeText(m, mark))
}

// noteOwn writes a note into our own page.
func (n *Notifier) noteOwn(ctx context.Context, m notify.Message, mark, text string) error {
	token, err := n.opt.APIToken()
	if err != nil {
		return notify.Unreadable(err)
	}
	if err := n.rest.Wait(ctx); err != nil {
		return err
	}
	c, call := n.client(token)
	found, listErr := c.ListIncidentsWithContext(ctx, api.ListIncidentsOptions{IncidentKey: string(m.Incident)})
	if err := classify(n.rest, call.verdict("search for the page of "+string(m.Incident))); err != nil {
		return err
	}
	if listErr != nil {
		return fmt.Errorf("pagerduty search for the page of %s: %w", m.Incident, listErr)
	}
	if len(found.Incidents) == 0 {
		return nil
	}
	return n.note(ctx, token, found.Incidents[len(found.Incidents)-1].ID, mark, text)
}
