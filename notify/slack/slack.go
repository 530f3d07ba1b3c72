package slack

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"strconv"
	"sync"
	"time"

	api "github.com/slack-go/slack"

	"paramedic/internal/text"
	"paramedic/notify"
	"paramedic/state"
)

// Slack accepts about one message a second per channel. Other methods have a limit per minute and
// workspace: 50 calls for tier 3, 20 for tier 2 (https://docs.slack.dev/apis/web-api/rate-limits).
// Burst and rate together stay below that in every minute.
const (
	postEvery   = 1050 * time.Millisecond
	tier3Every  = 1500 * time.Millisecond
	tier3Burst  = 10
	tier2Every  = 12 * time.Second
	tier2Burst  = 15
	patience    = 8 * time.Second
	methodPost  = "chat.postMessage"
	methodEdit  = "chat.update"
	methodRead  = "conversations.history"
	methodReply = "conversations.replies"
	methodList  = "conversations.list"
	// maxReply bounds how much of an answer is read.
	maxReply = 8 << 20
)

// Options configure a Notifier beyond its Config.
type Options struct {
	Clock state.Clock
	Log   *slog.Logger           // nil: none
	HTTP  *http.Client           // nil: a client with a timeout
	Token func() (string, error) // nil: Config.TokenFile, read at every call
	// TookOver returns when this process went on in place of another one, which made calls until
	// then. nil or zero: there was none.
	TookOver func() time.Time
	// Approves reports whether any Slack user may approve an action with these approvers. nil: true
	// if there are any approvers.
	Approves func(approvers []string) bool
}

// A Notifier shows incidents in a Slack channel. It is safe for concurrent use.
type Notifier struct {
	cfg   Config
	opt   Options
	http  bounded
	limit map[string]*notify.Limiter // by method

	mu      sync.Mutex
	channel string // the ID of the configured channel, once known
}

var _ notify.Notifier = (*Notifier)(nil)

// New returns a notifier with a valid configuration.
func New(cfg Config, opt Options) *Notifier {
	if opt.HTTP == nil {
		opt.HTTP = &http.Client{Timeout: 15 * time.Second}
	}
	if opt.Token == nil {
		opt.Token = notify.SecretFile(cfg.TokenFile)
	}
	if opt.Log == nil {
		opt.Log = slog.New(slog.DiscardHandler)
	}
	n := &Notifier{cfg: cfg, opt: opt, http: bounded{opt.HTTP}, limit: limiters(opt)}
	if isID(cfg.Channel) {
		n.channel = cfg.Channel
	}
	return n
}

// limiters returns the limiters by method. After a takeover they begin empty. A process lists the
// channels once, so one call of these is left: it would wait for 12 s.
func limiters(opt Options) map[string]*notify.Limiter {
	of := func(every time.Duration, burst, left int) *notify.Limiter {
		return notify.NewLimiter(opt.Clock, every, burst, patience).After(opt.TookOver, left)
	}
	tier3 := func() *notify.Limiter { return of(tier3Every, tier3Burst, 0) }
	return map[string]*notify.Limiter{
		methodPost: of(postEvery, 1, 0), methodEdit: tier3(), methodRead: tier3(), methodReply: tier3(),
		methodList: of(tier2Every, tier2Burst, 1),
	}
}

// bounded is an HTTP client that reads at most maxReply of an answer.
type bounded struct{ *http.Client }

// Do sends the request.
func (b bounded) Do(r *http.Request) (*http.Response, error) {
	resp, err := b.Client.Do(r)
	if err == nil {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(resp.Body, maxReply), resp.Body}
	}
	return resp, err
}

// clicks reports whether the bot accepts clicks. Without the signing secret they could not be
// verified, and are refused.
func (n *Notifier) clicks() bool { return n.cfg.SigningSecretFile != "" }

// approves reports whether any Slack user may approve an action with these approvers.
func (n *Notifier) approves(approvers []string) bool {
	if n.opt.Approves == nil {
		return len(approvers) > 0
	}
	return n.opt.Approves(approvers)
}

func (n *Notifier) client() (*api.Client, error) {
	token, err := n.opt.Token()
	if err != nil {
		return nil, notify.Unreadable(err)
	}
	options := []api.Option{api.OptionHTTPClient(n.http)}
	if n.cfg.APIURL != "" {
		options = append(options, api.OptionAPIURL(n.cfg.APIURL))
	}
	return api.New(token, options...), nil
}

// The handles in the channel's Ref: the message, the last timeline entry in its thread, and a
// digest of the message's content.
const (
	refChannel = "channel"
	refTS      = "ts"
	refThread  = "thread"
	refShown   = "shown"
)

// Show posts or edits the incident's message, then writes the new entries into its thread.
func (n *Notifier) Show(ctx context.Context, m notify.Message, told state.Told, fresh bool) (map[string]string, error) {
	c, err := n.client()
	if err != nil {
		return nil, err
	}
	ref := maps.Clone(told.Ref)
	if ref == nil {
		ref = map[string]string{}
	}
	if ref[refTS] == "" && !fresh {
		if err := n.find(ctx, c, m, ref); err != nil {
			return ref, err
		}
	}
	if ref[refTS] == "" && m.MergedInto != "" {
		return ref, nil // it was never shown, and the incident that it was merged into is
	}
	if err := n.message(ctx, c, m, ref, fresh); err != nil {
		return ref, err
	}
	return ref, n.thread(ctx, c, m, ref, fresh)
}

// message posts the message, or edits the existing one.
func (n *Notifier) message(ctx context.Context, c *api.Client, m notify.Message, ref map[string]string,
	fresh bool) error {
	blocks := n.render(m)
	body, err := json.Marshal(blocks)
	if err != nil {
		return &notify.Refused{Err: fmt.Errorf("encoding a Slack message: %w", err)}
	}
	shown := state.Hash(string(body))
	if fresh && ref[refTS] != "" && ref[refShown] == shown {
		return nil // an edit without changes would waste a call
	}
	edit := ref[refTS] != ""
	err = n.send(ctx, c, m, ref, blocks)
	if blocksRefused(err) {
		n.opt.Log.WarnContext(ctx, "slack refused the message's blocks; sending its shortest form", "incident", m.Incident, "err",
			err)
		err = n.send(ctx, c, m, ref, n.brief(m))
	}
	if err != nil {
		method := methodPost
		if edit {
			method = methodEdit
		}
		return n.classify(method, err)
	}
	ref[refShown] = shown
	if !edit && len(m.Entries) > 0 {
		// The message contains the entries so far. The thread begins with later ones, and a first
		// message is one call.
		ref[refThread] = lastEntry(m)
	}
	return nil
}

// errNoHandle reports an answer that names neither the message nor an error.
var errNoHandle = errors.New("the answer names no message")

func (n *Notifier) send(ctx context.Context, c *api.Client, m notify.Message, ref map[string]string,
	blocks []api.Block) error {
	method, to := methodPost, lastEntry(m)
	if ref[refTS] != "" {
		method, to = methodEdit, ref[refThread]
	}
	if err := n.limit[method].Wait(ctx); err != nil {
		return err
	}
	options := []api.MsgOption{
		api.MsgOptionText(notice(m), false), api.MsgOptionBlocks(blocks...), api.MsgOptionDisableMarkdown(),
		api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl(),
		api.MsgOptionMetadata(api.SlackMetadata{EventType: EventIncident,
			EventPayload: map[string]any{"incident": string(m.Incident), "to": to}}),
	}
	if ref[refTS] != "" {
		_, _, _, err := c.UpdateMessageContext(ctx, ref[refChannel], ref[refTS], options...)
		return err
	}
	channel, ts, err := c.PostMessageContext(ctx, n.cfg.Channel, options...)
	if err != nil {
		return err
	}
	if channel == "" || ts == "" {
		return errNoHandle
	}
	ref[refChannel], ref[refTS] = channel, ts
	n.mu.Lock()
	n.channel = channel
	n.mu.Unlock()
	return nil
}

// lastEntry returns the last timeline entry of a message in the form of its handle.
func lastEntry(m notify.Message) string {
	if len(m.Entries) == 0 {
		return "0"
	}
	return strconv.Itoa(m.Entries[len(m.Entries)-1].N)
}

// notice returns the text of the notification on a phone or watch.
func notice(m notify.Message) string {
	word := m.Gravity()
	switch {
	case m.Status == state.StatusResolved:
		word = "resolved"
	case m.Words.Title != "":
		word = string(m.Severity)
	}
	return escape(text.Cut(fmt.Sprintf("%s %s: %s", m.Name(), word, m.Headline()), 300))
}

// classify classifies a failed call for the outbox, and makes later calls of the method wait if
// Slack asked for it.
func (n *Notifier) classify(method string, err error) error {
	var own *notify.Later
	if errors.As(err, &own) {
		return err // our own limiter: nothing was sent
	}
	err = verdict(method, err)
	var later *notify.Later
	if errors.As(err, &later) {
		if l := n.limit[method]; l != nil {
			l.Close(later.After)
		}
	}
	return err
}

// maxRows bounds the entries in one message of the thread.
const maxRows = 40

// thread writes the timeline entries that the thread lacks, all in one message.
func (n *Notifier) thread(ctx context.Context, c *api.Client, m notify.Message, ref map[string]string,
	fresh bool) error {
	last, _ := strconv.Atoi(ref[refThread])
	if len(after(m.Entries, last)) == 0 {
		return nil
	}
	if !fresh {
		written, err := n.written(ctx, c, m, ref)
		if err != nil {
			return err
		}
		last = max(last, written)
		ref[refThread] = strconv.Itoa(last)
	}
	entries := after(m.Entries, last)
	if len(entries) == 0 {
		return nil
	}
	if err := n.limit[methodPost].WaitBehind(ctx); err != nil {
		return err
	}
	to := entries[len(entries)-1].N
	_, ts, err := c.PostMessageContext(ctx, ref[refChannel], api.MsgOptionTS(ref[refTS]),
		api.MsgOptionText(escape(text.Cut(entries[len(entries)-1].Text, 300)), false), api.MsgOptionDisableMarkdown(),
		api.MsgOptionBlocks(history(m, entries)), api.MsgOptionDisableLinkUnfurl(), api.MsgOptionDisableMediaUnfurl(),
		api.MsgOptionMetadata(api.SlackMetadata{EventType: EventTimeline, EventPayload: map[string]any{
			"incident": string(m.Incident), "to": strconv.Itoa(to),
		}}))
	if err == nil && ts == "" {
		err = errNoHandle
	}
	if err != nil {
		return n.classify(methodPost, err)
	}
	ref[refThread] = strconv.Itoa(to)
	return nil
}

func after(entries []state.Entry, n int) []state.Entry {
	for i, e := range entries {
		if e.N > n {
			return entries[i:]
		}
	}
	return nil
}

// history returns the block of a batch of timeline entries.
func history(m notify.Message, entries []state.Entry) api.Block {
	p := &page{left: budget - 500}
	var rows []api.RichTextElement
	if skipped := len(entries) - maxRows; skipped > 0 {
		entries = entries[skipped:]
		text := fmt.Sprintf("The incident's page has %d earlier entries.", skipped)
		e := words(text)
		if m.URL != "" && len(m.URL) <= limitURL {
			e = api.NewRichTextSectionLinkElement(m.URL, text, nil)
		}
		rows = append(rows, row(e))
	}
	var day string
	for i, e := range entries {
		text, at := e.Text, e.At.UTC().Format("15:04:05 UTC")
		if now := e.At.UTC().Format("Jan 2 "); day != "" && now != day {
			day, at = now, now+at
		} else {
			day = now
		}
		if i < len(entries)-1 {
			text = p.text(text, 200)
		} else {
			text = p.text(text, 500)
		}
		rows = append(rows, row(code(at), words("  "+text)))
	}
	return rich(rows...)
}
