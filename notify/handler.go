package notify

import (
	"context"
	"fmt"
	"maps"
	"math"
	"sync"
	"time"

	"paramedic/state"
)

// A Notifier shows incidents on one channel.
//
// Show replaces what the channel shows by the message. It MUST be safe to repeat. told is what the
// channel certainly shows. fresh is true if nothing can have been shown since. If it is false, an
// earlier attempt may have succeeded without a known outcome, and Show finds out before it repeats
// it. Show returns the channel's present handles, also beside an error if a part was done. It
// blocks no longer than its context. It marks errors with Refused, Fixable and Later if it knows
// the reason.
type Notifier interface {
	Show(ctx context.Context, m Message, told state.Told, fresh bool) (map[string]string, error)
}

// A Paced is a Notifier with a limit. Free returns how many messages it can show now without a
// wait, and when there is one more.
type Paced interface {
	Free(now time.Time) (messages int, more time.Time)
}

// A Noter writes a message into another tool's incident. before is the cause that the last note
// there named, or empty if there is none. Note MUST leave one note for the same message and the
// same cause before it, however often it is called.
type Noter interface {
	Note(ctx context.Context, m Message, ref string, before state.Cause) error
}

// A HandlerConfig configures a Handler.
type HandlerConfig struct {
	View      state.View
	Clock     state.Clock
	Notifiers map[state.Channel]Notifier
	Noter     Noter // nil: no notes in incidents of other tools
	Links     Links
	Several   bool // messages are about several clusters, so that a name includes its cluster
	Titles    state.Titles
	// Wording returns the operator's own texts for a channel; nil: there are none.
	Wording func(ctx context.Context, ch state.Channel, f Facts, m Message) Words
	// Playbook returns the playbook of the incident, with its checks answered from the evidence. If
	// it is nil, messages have none.
	Playbook func(in *state.Incident, ev *state.Evidence) Playbook
	// Since returns when this process began to deliver a cluster's effects. An older effect may
	// have been tried by another process. nil: when the handler was made.
	Since func(cluster string) time.Time
	// Flood returns the flood of a channel, if there is one. nil: there is none.
	Flood func(ch state.Channel) (state.Flood, bool)
	// Timeout bounds one attempt; zero means 20 s.
	Timeout time.Duration
}

// A Handler delivers the effects notify, note and flood. It is safe for concurrent use.
type Handler struct {
	cfg HandlerConfig

	mu    sync.Mutex
	since time.Time
	tried map[state.EffectID]attempt
}

// An attempt records the last delivery of an effect, in case its outcome could not be stored.
type attempt struct {
	turn  uint64
	ended bool // the notifier returned
}

// NewHandler returns a handler.
func NewHandler(cfg HandlerConfig) *Handler {
	if cfg.Timeout <= 0 {
		cfg.Timeout = 20 * time.Second
	}
	return &Handler{cfg: cfg, since: cfg.Clock.Now(), tried: map[state.EffectID]attempt{}}
}

// Free returns how many messages a channel can show now without a wait, and when there is one more.
func (h *Handler) Free(ch state.Channel, now time.Time) (messages int, more time.Time) {
	if n, ok := h.cfg.Notifiers[ch].(Paced); ok {
		return n.Free(now)
	}
	return math.MaxInt, now
}

// refDoubt is the handle that the handler itself keeps in a channel's Ref. It is set if an attempt
// ended without a known outcome.
const refDoubt = "doubt"

// Handle delivers one effect and returns its outcome.
func (h *Handler) Handle(ctx context.Context, e state.Effect) state.Outcome {
	if e.Kind == state.EffectFlood {
		return h.flood(ctx, e)
	}
	out := state.Outcome{Effect: e.ID, Turn: e.Turn}
	in, ok := h.cfg.View.Incident(e.Incident)
	if !ok {
		out.Done, out.Error = true, fmt.Sprintf("incident %s is no longer stored", e.Incident)
		return out
	}
	ctx, cancel := context.WithTimeout(ctx, h.cfg.Timeout)
	defer cancel()
	switch e.Kind {
	case state.EffectNotify:
		h.notify(ctx, e, &in, &out)
	case state.EffectNote:
		h.note(ctx, e, &in, &out)
	default:
		out.Done, out.Error = true, fmt.Sprintf("notify has no handler for effect kind %q", e.Kind)
	}
	return out
}

func (h *Handler) notify(ctx context.Context, e state.Effect, in *state.Incident, out *state.Outcome) {
	out.Tried = in.Rev
	told := in.Told.On(e.Channel)
	if told.Rev > 0 && told.Rev >= in.Rev && told.Rev >= e.Want {
		out.Done, out.Rev, out.Ref = true, told.Rev, told.Ref
		return
	}
	n, ok := h.cfg.Notifiers[e.Channel]
	if !ok {
		out.Done, out.Error = true, fmt.Sprintf("channel %s is not configured: set notify.%s", e.Channel, e.Channel)
		return
	}
	if in.Silenced(e.Channel, h.cfg.Clock.Now()) {
		// Nothing is lost: the effect is wanted again when the silence ends, or when a rise in
		// severity ends it.
		out.Done, out.Error = true, fmt.Sprintf("silenced until %s", in.SilencedUntil.UTC().Format(time.RFC3339))
		return
	}
	m, err := h.message(ctx, e.Channel, in)
	ref, showErr := n.Show(ctx, m, told, h.fresh(e, told))
	h.ended(e)
	out.Ref = maps.Clone(ref)
	if mayBeShown(showErr) || told.Ref[refDoubt] != "" {
		if out.Ref == nil {
			out.Ref = map[string]string{}
		}
		out.Ref[refDoubt] = ""
		if showErr != nil {
			out.Ref[refDoubt] = "yes"
		}
	}
	if showErr != nil {
		err = showErr
	}
	h.settle(out, e, err)
	if showErr == nil {
		out.Rev = in.Rev
	}
}

func (h *Handler) note(ctx context.Context, e state.Effect, in *state.Incident, out *state.Outcome) {
	if h.cfg.Noter == nil {
		out.Done, out.Error = true, "notes need notify.pagerduty.api_token_file and notify.pagerduty.from: set both"
		return
	}
	m, _ := h.message(ctx, "", in) // a note needs no timeline
	var before state.Cause
	for _, ext := range in.External {
		if ext.ID == e.Ref {
			before = ext.Cause
		}
	}
	out.Ref = map[string]string{state.RefCause: string(m.Cause)}
	h.settle(out, e, h.cfg.Noter.Note(ctx, m, e.Ref, before))
}

// settle sets the outcome from an attempt's error.
func (h *Handler) settle(out *state.Outcome, e state.Effect, err error) {
	if err == nil {
		out.Done = true
		return
	}
	out.Error = line(err.Error(), maxLine)
	wait, again := retryAfter(err, e.Attempts, e.Channel == state.ChannelPagerDuty)
	if !again {
		out.Done = true
		return
	}
	out.RetryAt = h.cfg.Clock.Now().Add(wait)
}

// message collects the facts and composes the message. If it returns an error, the message is
// valid, but lacks the timeline.
func (h *Handler) message(ctx context.Context, ch state.Channel, in *state.Incident) (Message, error) {
	f := Facts{Incident: *in, Links: h.cfg.Links, Several: h.cfg.Several, Titles: h.cfg.Titles}
	f.Evidence, _ = h.cfg.View.Evidence(in.ID)
	for _, id := range in.Actions {
		if a, ok := h.cfg.View.Action(id); ok {
			f.Actions = append(f.Actions, a)
		}
	}
	if in.MergedInto != "" {
		if root, ok := h.cfg.View.Incident(in.MergedInto); ok {
			f.Root = &root
		}
	}
	if h.cfg.Playbook != nil {
		f.Playbook = h.cfg.Playbook(in, &f.Evidence)
	}
	var err error
	if f.Timeline, err = h.cfg.View.Timeline(ctx, in.ID); err != nil {
		err = fmt.Errorf("reading the timeline: %w", err)
	}
	m := Compose(f)
	if h.cfg.Wording != nil && (ch == state.ChannelSlack || ch == state.ChannelPagerDuty) {
		f.Alerts = h.cfg.View.Alerts(in.ID)
		m.Words = h.cfg.Wording(ctx, ch, f, m)
	}
	return m, err
}

// maxTried bounds the number of attempts that the handler remembers.
const maxTried = 4096

// fresh reports whether certainly nothing of this effect was shown since told. This process must
// have delivered the cluster's effects since before the effect was wanted. Every attempt so far
// must have a known outcome. This turn must not have been tried here before.
func (h *Handler) fresh(e state.Effect, told state.Told) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	since := h.since
	if h.cfg.Since != nil {
		if s := h.cfg.Since(e.Cluster); s.After(since) {
			since = s
		}
	}
	last, again := h.tried[e.ID]
	if len(h.tried) >= maxTried {
		// Attempts that are forgotten count as tried: all effects wanted before now.
		clear(h.tried)
		h.since = h.cfg.Clock.Now()
	}
	h.tried[e.ID] = attempt{turn: e.Turn}
	known := !again || last.ended && last.turn != e.Turn
	return known && e.Since.After(since) && told.Ref[refDoubt] == ""
}

// ended records that the notifier returned. From now on the outcome holds what is not known.
func (h *Handler) ended(e state.Effect) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if a, ok := h.tried[e.ID]; ok && a.turn == e.Turn {
		h.tried[e.ID] = attempt{turn: e.Turn, ended: true}
	}
}
