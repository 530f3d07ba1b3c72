package chat

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"paramedic/internal/text"
	"paramedic/state"
	"paramedic/webhook/access"
	"paramedic/webhook/command"
	"paramedic/webhook/httpio"
)

// A Config holds the settings for Slack's commands and buttons.
type Config struct {
	// SigningSecret is the app's. If it is nil, Slack's paths answer 404.
	SigningSecret *access.Secret
	// Authorize reports whether the user may do the verb, and otherwise the reason. action is nil
	// for verbs on incidents and the fleet. If Authorize is nil, every user is refused.
	Authorize func(by state.Actor, verb state.Verb, action *state.Action) (reason string, ok bool)
	// MayRead reports whether a user may list and show incidents. If it is nil, every user is
	// refused.
	MayRead func(Asker) bool
	// Titles holds the titles of signals.
	Titles state.Titles
	// APIURL is the Web API's base if it is not Slack's own. Replies may then go to its host too.
	APIURL string
	// HTTP sends the replies to refused clicks. If it is nil, a client with a deadline of
	// replyTimeout does.
	HTTP *http.Client
}

// An Asker is the sender of a command, with the channel. Slack has signed both.
type Asker struct{ User, Channel, ChannelName string }

const (
	maxSkew       = 5 * time.Minute
	maxBody       = 1 << 20
	maxText       = 2900 // a section's text holds 3000 characters
	appendTimeout = 1500 * time.Millisecond
	applyWait     = 800 * time.Millisecond // together with appendTimeout below the three seconds that Slack waits
	replyTimeout  = 5 * time.Second
)

// A Chat handles Slack's requests.
type Chat struct {
	Config
	*command.Runner
	tokens      *access.Tokens
	bodyTimeout time.Duration
	replays     *access.Replays // requests that were already handled
	replies     chan struct{}

	mu     sync.Mutex
	closed bool
	work   sync.WaitGroup // replies under way
}

// New returns a Chat whose users have the roles in tokens. A body must arrive within bodyTimeout.
func New(c Config, r *command.Runner, tokens *access.Tokens, bodyTimeout time.Duration) *Chat {
	return &Chat{
		Config: c, Runner: r, tokens: tokens, bodyTimeout: bodyTimeout,
		replays: access.NewReplays(10*time.Minute, 10_000), replies: make(chan struct{}, 16),
	}
}

// Close waits for replies under way. No reply begins after it.
func (s *Chat) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}

// background runs f, unless the chat is closed or 16 replies are under way. It reports whether f
// runs.
func (s *Chat) background(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	select {
	case s.replies <- struct{}{}:
	default:
		return false
	}
	s.work.Go(func() {
		defer func() { <-s.replies }()
		f()
	})
	return true
}

// readForm reads a request from Slack. It verifies that Slack has just signed it, and that it is
// no replay.
func (s *Chat) readForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if s.SigningSecret == nil {
		return nil, httpio.Fail(http.StatusNotFound, "Slack is not configured: set notify.slack.signing_secret_file")
	}
	secret, err := s.SigningSecret.Value()
	if err != nil {
		s.Logger.ErrorContext(r.Context(), "Slack cannot be authenticated", "err", err)
		return nil, httpio.Fail(http.StatusServiceUnavailable, "Slack's signing secret cannot be read now; try again")
	}
	body, err := httpio.ReadBody(w, r, maxBody, s.bodyTimeout)
	if err != nil {
		return nil, err
	}
	now := s.Clock.Now()
	if err := verifySlack(r.Header, body, secret, now); err != nil {
		return nil, httpio.Fail(http.StatusUnauthorized, "not from Slack: %s", err)
	}
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return nil, httpio.Fail(http.StatusBadRequest, "the body is not a form")
	}
	keys := []string{"sig " + r.Header.Get("X-Slack-Signature")}
	trigger := form.Get("trigger_id")
	if trigger == "" {
		var p struct {
			TriggerID string `json:"trigger_id"`
		}
		if json.Unmarshal([]byte(form.Get("payload")), &p) == nil {
			trigger = p.TriggerID
		}
	}
	if trigger != "" {
		keys = append(keys, "trigger "+trigger)
	}
	if !s.replays.Add(now, keys...) {
		return nil, httpio.Fail(http.StatusConflict, "this request was already handled")
	}
	return form, nil
}

// verifySlack checks Slack's signature
// (https://docs.slack.dev/authentication/verifying-requests-from-slack/). slack-go's
// NewSecretsVerifier is not used because it reads the machine's clock.
func verifySlack(header http.Header, body []byte, secret string, now time.Time) error {
	text := header.Get("X-Slack-Request-Timestamp")
	given, ok := strings.CutPrefix(header.Get("X-Slack-Signature"), "v0=")
	if text == "" || !ok {
		return errors.New("the signature headers are missing")
	}
	seconds, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return errors.New("the timestamp is not a number")
	}
	if now.Sub(time.Unix(seconds, 0)).Abs() > maxSkew {
		return errors.New("the timestamp is more than five minutes off")
	}
	sig, err := hex.DecodeString(given)
	if err != nil {
		return errors.New("the signature is not hexadecimal")
	}
	mac := hmac.New(sha256.New, []byte(secret))
	mac.Write([]byte("v0:" + text + ":"))
	mac.Write(body)
	if !hmac.Equal(mac.Sum(nil), sig) {
		return errors.New("the signature does not match")
	}
	return nil
}

// message is the answer to a command or a refused click. Only the person who asked sees it.
type message struct {
	ResponseType    string `json:"response_type"`
	ReplaceOriginal bool   `json:"replace_original"`
	Text            string `json:"text"`
}

func ephemeral(text string) message {
	return message{ResponseType: "ephemeral", Text: httpio.Cut(text, maxText)}
}

var escaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// escape returns text that Slack shows literally, without mentions, links or channels.
// Formatting marks become apostrophes.
func escape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '`' || r == '*' || r == '~' {
			return '\''
		}
		return r
	}, text.Line(s, 500))
	return escaper.Replace(s)
}

// authorize sets the user as the actor of a request. It returns the reason if the user may not do
// it.
func (s *Chat) authorize(o *command.Request, userID, name, trigger string, a *state.Action) (refused string) {
	o.Actor = s.tokens.SlackActor(userID)
	o.Actor.Name = text.Line(name, 80)
	o.Nonce = trigger
	if o.Nonce == "" {
		o.Nonce = s.Clock.Now().Format(time.RFC3339Nano)
	}
	if s.Authorize == nil {
		return "no Slack user may act: set slack_user in auth.api.tokens_file, or approvers in remediate.policies"
	}
	reason, ok := s.Authorize(o.Actor, o.Verb, a)
	if ok {
		return ""
	}
	if reason == "" {
		reason = "your Slack user may not do this"
	}
	return reason
}

// do carries out an authorised request within Slack's timeout. It reports whether the request
// was applied.
func (s *Chat) do(ctx context.Context, o command.Request) (applied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, appendTimeout+applyWait)
	defer cancel()
	applied, err = s.CarryOut(ctx, o, applyWait)
	if err == nil && applied && o.Action != "" {
		_, err = s.Decided(o)
	}
	return applied, err
}

// replyLater sends an ephemeral message to a response_url, after the request was answered.
func (s *Chat) replyLater(ctx context.Context, to, text string) {
	if !s.replyAllowed(to) {
		s.Logger.WarnContext(ctx, "Slack's response_url is not Slack's; the reply is not sent")
		return
	}
	sent := s.background(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), replyTimeout)
		defer cancel()
		if err := s.reply(ctx, to, ephemeral(text)); err != nil {
			s.Logger.WarnContext(ctx, "reply to Slack was not sent", "err", err)
		}
	})
	if !sent {
		s.Logger.WarnContext(ctx, "too many replies to Slack are under way; one is not sent")
	}
}

// replyAllowed reports whether a reply may go to a URL from a payload. It allows only Slack's own
// host and that of APIURL.
func (s *Chat) replyAllowed(to string) bool {
	u, err := url.Parse(to)
	if err != nil || u.User != nil {
		return false
	}
	if u.Scheme == "https" && u.Host == "hooks.slack.com" {
		return true
	}
	own, err := url.Parse(s.APIURL)
	return err == nil && own.Host != "" && u.Host == own.Host && u.Scheme == own.Scheme
}

func (s *Chat) reply(ctx context.Context, to string, m message) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("response_url is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: replyTimeout}
	if s.HTTP != nil {
		client = *s.HTTP
	}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	resp, err := client.Do(req)
	if err != nil {
		var u *url.Error
		if errors.As(err, &u) {
			err = u.Err // the URL is a credential
		}
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode >= 300 {
		return errors.New("Slack answered " + resp.Status)
	}
	return nil
}
