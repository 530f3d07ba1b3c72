package slack

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
)

// defaultWait is the wait after a rate limit if Slack names no time.
const defaultWait = 10 * time.Second

// temporary lists the error codes of temporary failures. After these, the call may have taken
// effect.
var temporary = map[string]bool{
	"internal_error": true, "fatal_error": true, "request_timeout": true, "service_unavailable": true, "team_added_to_org": true,
}

// hints holds advice for the errors that an operator can fix.
var hints = map[string]string{
	"channel_not_found": "check notify.slack.channel, and invite the bot to it",
	"not_in_channel":    "invite the bot to the channel",
	"is_archived":       "the channel is archived; set notify.slack.channel to another",
	"invalid_auth": "the token in notify.slack.token_file is not valid: " + atPermissions +
		", and copy the Bot User OAuth Token (xoxb-…)",
	"not_authed": "the token in notify.slack.token_file is not valid: " + atPermissions +
		", and copy the Bot User OAuth Token (xoxb-…)",
	"token_revoked": "the token in notify.slack.token_file was revoked; install the app again: " +
		atPermissions + ", Reinstall to Workspace",
	"account_inactive":  "the bot's account was deactivated; install the app again",
	"missing_scope":     "install the app again with the scopes of deploy/slack/manifest.yaml",
	"restricted_action": "the workspace does not let the bot post there",
}

// final explains the errors that no operator can fix.
var final = map[string]string{
	"message_not_found":   "the message was deleted; the incident goes on elsewhere",
	"cant_update_message": "the message belongs to another app",
}

// verdict classifies a failed call: whether a retry can help, and when. No other code decides that.
func verdict(method string, err error) error {
	if err == nil {
		return nil
	}
	var limited *api.RateLimitedError
	if errors.As(err, &limited) {
		return &notify.Later{After: max(limited.RetryAfter, time.Second), Err: fmt.Errorf("slack %s: %w", method, err)}
	}
	var status api.StatusCodeError
	if errors.As(err, &status) {
		err = fmt.Errorf("slack %s answered %s", method, http.StatusText(status.Code))
		switch {
		case status.Code == http.StatusTooManyRequests:
			return &notify.Later{After: defaultWait, Err: err}
		case status.Code >= 500 || status.Code == http.StatusRequestTimeout:
			return err
		}
		// Slack itself answers 200 and an error code, so a proxy refuses.
		return &notify.Fixable{Err: fmt.Errorf("slack %s answered %d", method, status.Code)}
	}
	code := errorCode(err)
	switch {
	case code == "":
		return fmt.Errorf("slack %s: %w", method, err) // the network, or an answer that is not from Slack
	case code == "ratelimited" || code == "rate_limited":
		return &notify.Later{After: defaultWait, Err: fmt.Errorf("slack %s: %w", method, err)}
	case temporary[code]:
		return fmt.Errorf("slack %s: %w", method, err)
	case final[code] != "":
		return &notify.Refused{Err: fmt.Errorf("slack %s: %s: %s", method, code, final[code])}
	case hints[code] != "":
		return &notify.Fixable{Err: fmt.Errorf("slack %s: %s: %s", method, code, hints[code])}
	}
	return &notify.Refused{Err: fmt.Errorf("slack %s: %s", method, text.Cut(text.Clean(code), 200))}
}

// refused reports whether Slack refused a call, and a retry right now would be refused, too.
func refused(err error) bool {
	var no *notify.Refused
	var fixable *notify.Fixable
	return errors.As(err, &no) || errors.As(err, &fixable)
}

// errorCode returns the code of an answer with ok: false, or "" for any other failure.
func errorCode(err error) string {
	var said api.SlackErrorResponse
	if errors.As(err, &said) {
		return said.Err
	}
	return ""
}

// blocksRefused reports whether Slack refused the blocks, not the call.
func blocksRefused(err error) bool {
	switch errorCode(err) {
	case "invalid_blocks", "invalid_blocks_format", "msg_blocks_too_long", "msg_too_long", "no_text",
		"too_many_attachments":
		return true
	}
	return false
}
