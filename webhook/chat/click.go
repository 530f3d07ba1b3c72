package chat

import (
	"errors"
	"net/http"
	"strings"

	json "github.com/go-json-experiment/json/v1"

	"paramedic/internal/incidentlog"
	"paramedic/state"
	"paramedic/webhook/httpio"
)

// The buttons of an incident's message.
const (
	buttonAck     = "paramedic.ack"     // value: the incident's ID
	buttonApprove = "paramedic.approve" // value: action ID | plan hash
	buttonDeny    = "paramedic.deny"    // value: action ID | plan hash
	buttonCancel  = "paramedic.cancel"  // value: action ID | plan hash
)

// A clickPayload holds the fields of a block_actions payload that are used. slack-go's own type
// decodes the whole message, and fails on a block that it does not know.
type clickPayload struct {
	Type        string `json:"type"`
	TriggerID   string `json:"trigger_id"`
	ResponseURL string `json:"response_url"`
	User        struct {
		ID       string `json:"id"`
		Username string `json:"username"`
		Name     string `json:"name"`
	} `json:"user"`
	Actions []struct {
		ActionID string `json:"action_id"`
		Value    string `json:"value"`
		ActionTS string `json:"action_ts"`
	} `json:"actions"`
}

// decodeClick reads the field payload of an interaction. It returns nil for a click on another
// app's button or on a link.
func decodeClick(payload string) (*clickPayload, error) {
	var c clickPayload
	if err := httpio.DecodeOne([]byte(payload), &c); err != nil {
		var syntax *json.SyntaxError
		if errors.As(err, &syntax) {
			return nil, httpio.Fail(http.StatusBadRequest, "the payload is not JSON: %s", syntax)
		}
		return nil, httpio.Fail(http.StatusBadRequest, "the payload is not an interaction")
	}
	if c.Type != "block_actions" {
		return nil, nil
	}
	switch {
	case !httpio.PlainID(c.User.ID, 64):
		return nil, httpio.Fail(http.StatusBadRequest, "the interaction has no user")
	case len(c.Actions) != 1:
		return nil, httpio.Fail(http.StatusBadRequest, "the interaction has %d actions; one was expected",
			len(c.Actions))
	}
	switch c.Actions[0].ActionID {
	case buttonAck, buttonApprove, buttonDeny, buttonCancel:
		return &c, nil
	}
	return nil, nil
}

// Interaction handles a click. The notifier edits the message itself. Only a refused click is
// answered here, to the person who clicked.
func (s *Chat) Interaction(w http.ResponseWriter, r *http.Request) error {
	form, err := s.readForm(w, r)
	if err != nil {
		return err
	}
	click, err := decodeClick(form.Get("payload"))
	if err != nil {
		return err
	}
	if click != nil {
		if err := s.click(r, click); err != nil {
			var a *httpio.Error
			if !errors.As(err, &a) {
				s.Logger.ErrorContext(r.Context(), "click was not handled", "err", err)
				a = httpio.Fail(http.StatusInternalServerError, "Paramedic could not handle this click: its log has the error")
			}
			s.replyLater(r.Context(), click.ResponseURL, ":warning: "+escape(a.Text))
		}
	}
	w.WriteHeader(http.StatusOK)
	return nil
}

func (s *Chat) click(r *http.Request, click *clickPayload) error {
	button := click.Actions[0]
	c := call{user: click.User.ID, name: click.User.Username, trigger: click.TriggerID}
	if c.name == "" {
		c.name = click.User.Name
	}
	if c.trigger == "" {
		c.trigger = button.ActionTS
	}
	if button.ActionID == buttonAck {
		in, ok := s.View.Incident(state.IncidentID(button.Value))
		if !ok {
			return httpio.Fail(http.StatusNotFound, "that incident is no longer stored")
		}
		incidentlog.Name(r.Context(), string(in.ID))
		_, err := s.incident(r.Context(), c, state.VerbAck, in)
		return err
	}
	id, hash, ok := strings.Cut(button.Value, "|")
	a, known := s.View.Action(state.ActionID(id))
	if !ok || hash == "" || !known {
		return httpio.Fail(http.StatusNotFound, "that action is no longer stored")
	}
	incidentlog.Name(r.Context(), string(a.Incident))
	verb := map[string]state.Verb{buttonApprove: state.VerbApprove, buttonDeny: state.VerbDeny,
		buttonCancel: state.VerbCancel}[button.ActionID]
	_, err := s.decide(r.Context(), c, decision{verb: verb, action: a, planHash: hash})
	return err
}
