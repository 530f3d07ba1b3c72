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

// A Config says how to take Slack's commands and buttons.
type Config struct {
	// SigningSecret is the app's; without it Slack's paths are closed.
	SigningSecret *access.Secret
	// Authorize says whether the user may do what the verb says, and why not. Action is nil for
	// verbs on incidents and the fleet. Nil refuses everybody.
	Authorize func(by state.Actor, verb state.Verb, action *state.Action) (reason string, ok bool)
	// MayRead reports whether a user may list and show incidents; nil refuses everybody.
	MayRead func(Asker) bool
	// APIURL is the Web API's base where it is not Slack's own; replies may then go to its host
	// too.
	APIURL string
	// HTTP sends the replies that a refused button gets; nil is a client of its own with a
	// deadline.
	HTTP *http.Client
}

// A Asker is who sent a command, and from which channel. Slack has signed it.
type Asker struct{ User, Channel, ChannelName string }

const (
	slackSkew    = 5 * time.Minute
	slackBody    = 1 << 20
	slackText    = 2900 // a section's text holds 3000
	slackAppend  = 1500 * time.Millisecond
	slackApply   = 800 * time.Millisecond // with slackAppend well inside the three seconds that Slack waits
	slackReplyTo = 5 * time.Second
)

// A Chat takes Slack's requests.
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

// New returns a Chat whose users have the roles that tokens give them. A body must arrive within
// bodyTimeout.
func New(c Config, r *command.Runner, tokens *access.Tokens, bodyTimeout time.Duration) *Chat {
	return &Chat{
		Config: c, Runner: r, tokens: tokens, bodyTimeout: bodyTimeout,
		replays: access.NewReplays(10*time.Minute, 10_000), replies: make(chan struct{}, 16),
	}
}

// Close waits for replies under way; none begins after it.
func (s *Chat) Close() {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	s.work.Wait()
}

// background runs f unless the server is closed or too many such calls are under way, and says
// whether it does.
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

// slackForm reads a request of Slack's and proves that Slack has just sent it, and only once.
func (s *Chat) slackForm(w http.ResponseWriter, r *http.Request) (url.Values, error) {
	if s.SigningSecret == nil {
		return nil, httpio.Fail(http.StatusNotFound, "Slack is not configured: set notify.slack.signing_secret_file")
	}
	secret, err := s.SigningSecret.Value()
	if err != nil {
		s.Logger.Error("Slack cannot be authenticated", "err", err)
		return nil, httpio.Fail(http.StatusServiceUnavailable, "Slack's signing secret cannot be read now; try again")
	}
	body, err := httpio.ReadBody(w, r, slackBody, s.bodyTimeout)
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
// (https://docs.slack.dev/authentication/verifying-requests-from-slack/). It is not slack-go's
// NewSecretsVerifier because that one asks the machine for the time.
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
	if now.Sub(time.Unix(seconds, 0)).Abs() > slackSkew {
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

// slackMessage is what a command or a refused button is answered with: only the person who asked
// sees it.
type slackMessage struct {
	ResponseType    string `json:"response_type"`
	ReplaceOriginal bool   `json:"replace_original"`
	Text            string `json:"text"`
}

func ephemeral(text string) slackMessage {
	return slackMessage{ResponseType: "ephemeral", Text: httpio.Cut(text, slackText)}
}

var slackEscaper = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slackEscape makes text that Slack shows as it is: no mention, link or channel can be made of it.
// Marks that only change how it looks are taken out.
func slackEscape(s string) string {
	s = strings.Map(func(r rune) rune {
		if r == '`' || r == '*' || r == '~' {
			return '\''
		}
		return r
	}, text.Line(s, 500))
	return slackEscaper.Replace(s)
}

// slackOrder makes the order the user's, or says why the user may not.
func (s *Chat) slackOrder(o *command.Request, userID, name, trigger string, a *state.Action) (refused string) {
	o.Actor = s.tokens.SlackActor(userID)
	o.Actor.Name = text.Line(name, 80)
	o.Nonce = trigger
	if o.Nonce == "" {
		o.Nonce = s.Clock.Now().Format(time.RFC3339Nano)
	}
	if s.Authorize == nil {
		return "nobody is authorised to act through Slack"
	}
	reason, ok := s.Authorize(o.Actor, o.Verb, a)
	if ok {
		return ""
	}
	if reason == "" {
		reason = "you are not authorised to do this"
	}
	return reason
}

// slackDo carries out an authorised order within Slack's time and says what came of it.
func (s *Chat) slackDo(ctx context.Context, o command.Request) (applied bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, slackAppend+slackApply)
	defer cancel()
	applied, err = s.CarryOut(ctx, o, slackApply)
	if err == nil && applied && o.Action != "" {
		_, err = s.Decided(o)
	}
	return applied, err
}

// replyLater sends an ephemeral message to a response_url, after the request was answered.
func (s *Chat) replyLater(to, text string) {
	if !s.replyAllowed(to) {
		s.Logger.Warn("Slack's response_url is not Slack's; the reply is not sent")
		return
	}
	sent := s.background(func() {
		ctx, cancel := context.WithTimeout(context.Background(), slackReplyTo)
		defer cancel()
		if err := s.reply(ctx, to, ephemeral(text)); err != nil {
			s.Logger.Warn("reply to Slack was not sent", "err", err)
		}
	})
	if !sent {
		s.Logger.Warn("too many replies to Slack are under way; one is not sent")
	}
}

// replyAllowed keeps a payload from making the bot call anything but Slack.
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

func (s *Chat) reply(ctx context.Context, to string, m slackMessage) error {
	body, err := json.Marshal(m)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return errors.New("response_url is not a URL")
	}
	req.Header.Set("Content-Type", "application/json")
	client := http.Client{Timeout: slackReplyTo}
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
