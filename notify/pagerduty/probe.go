package pagerduty

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"

	api "github.com/PagerDuty/go-pagerduty"

	"paramedic/internal/text"
	"paramedic/notify"
)

// keyShape matches an integration key, and an orchestration's.
var keyShape = regexp.MustCompile(`^[0-9A-Za-z]{32}$`)

// noIncident is the ID of an incident that no account has. PagerDuty checks a note for it like any
// other, and stores it nowhere.
const noIncident = "Q0000000000000"

// Probe checks with PagerDuty that the bot can do its work. It checks the routing key by its form,
// the API token by its permissions, and the webhook's secret. It sends no event, so that no person
// is paged.
func (n *Notifier) Probe(ctx context.Context, webhookSecret func() (string, error)) []notify.Probe {
	out := []notify.Probe{{What: "pagerduty routing key", Err: n.probeKey()}}
	if n.cfg.Notes() {
		out = append(out, notify.Probe{What: "pagerduty api token", Err: n.probeToken(ctx)})
	} else {
		out = append(out, notify.Probe{What: "pagerduty api token",
			Off: "not configured; for notes in incidents that other tools opened set notify.pagerduty.api_token_file " +
				"and from"})
	}
	hook := notify.Probe{What: "pagerduty webhook secret"}
	if n.cfg.WebhookSecretFile == "" {
		hook.Off = "not configured, so that what people do in PagerDuty is not seen here; open Integrations, Generic " +
			"Webhooks (v3), New Webhook, " +
			"and set notify.pagerduty.webhook_secret_file to the secret that it shows"
	} else {
		_, hook.Err = webhookSecret()
	}
	return append(out, hook)
}

func (n *Notifier) probeKey() error {
	key, err := n.opt.RoutingKey()
	if err != nil {
		return err
	}
	if !keyShape.MatchString(key) {
		return fmt.Errorf("it has %d characters and is not 32 letters and digits, so that no page would be taken: "+
			"open Services, the service, Integrations, Events API V2, and copy the Integration Key", len(key))
	}
	return nil
}

// probeToken checks that the token may write notes, and that the user of the notes exists.
func (n *Notifier) probeToken(ctx context.Context) error {
	const fix = "open Integrations, API Access Keys, Create New API Key, and leave Read-only off"
	token, err := n.opt.APIToken()
	if err != nil {
		return err
	}
	c, call := n.client(token)
	users, listErr := c.ListUsersWithContext(ctx, api.ListUsersOptions{Query: n.cfg.From})
	switch err := call.verdict("users"); {
	case call.status == http.StatusUnauthorized:
		return fmt.Errorf("PagerDuty does not know the token (401): %s", fix)
	case err != nil:
		return err
	case listErr != nil:
		return fmt.Errorf("pagerduty users: %w", listErr)
	}
	if !hasUser(users.Users, n.cfg.From) {
		return fmt.Errorf("no user has the address %s: open People, Users, and set notify.pagerduty.from to one's "+
			"login e-mail", text.Clean(n.cfg.From))
	}
	c, call = n.client(token)
	_, noteErr := c.CreateIncidentNoteWithContext(ctx, noIncident,
		api.IncidentNote{User: api.APIObject{Summary: n.cfg.From},
			Content: "Paramedic asks whether it may write notes."})
	switch call.status {
	case http.StatusNotFound:
		return nil // permitted: only the incident is missing
	case http.StatusUnauthorized, http.StatusForbidden:
		return fmt.Errorf("the token may read and not write notes (%d): %s", call.status, fix)
	}
	if err := call.verdict("note"); err != nil {
		return err
	}
	return errors.Join(noteErr,
		errors.New("a note for an incident that is nowhere was taken: whether the token may write notes is not known"))
}

func hasUser(users []api.User, mail string) bool {
	for _, u := range users {
		if strings.EqualFold(u.Email, mail) {
			return true
		}
	}
	return false
}
