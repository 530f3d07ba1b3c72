package notify

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"paramedic/state"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// view holds the bot's state in these tests: one incident.
type view struct {
	state.View
	in       state.Incident
	timeline error
}

func (v *view) Incident(id state.IncidentID) (state.Incident, bool) { return v.in, id == v.in.ID }
func (v *view) Evidence(state.IncidentID) (state.Evidence, bool)    { return state.Evidence{}, false }
func (v *view) Action(state.ActionID) (state.Action, bool)          { return state.Action{}, false }
func (v *view) Timeline(context.Context, state.IncidentID) ([]state.Entry, error) {
	return nil, v.timeline
}

// channel records what it is asked to show.
type channel struct {
	err   error
	shown []Message
	fresh []bool
	notes []state.Cause // the cause that each note replaces
}

func (c *channel) Show(_ context.Context, m Message, told state.Told, fresh bool) (map[string]string, error) {
	c.shown, c.fresh = append(c.shown, m), append(c.fresh, fresh)
	return map[string]string{"ts": "1"}, c.err
}

func (c *channel) Note(_ context.Context, m Message, ref string, before state.Cause) error {
	c.shown, c.notes = append(c.shown, m), append(c.notes, before)
	return c.err
}

type clock struct{ now time.Time }

func (c *clock) Now() time.Time                       { return c.now }
func (c *clock) After(time.Duration) <-chan time.Time { return nil }

func bench() (*Handler, *view, *channel, *clock, state.Effect) {
	v, ch, ck := &view{in: sample().Incident}, &channel{}, &clock{now: onset}
	h := NewHandler(HandlerConfig{View: v, Clock: ck, Noter: ch, Notifiers: map[state.Channel]Notifier{state.ChannelSlack: ch}})
	e := state.Effect{ID: "notify:slack:1", Kind: state.EffectNotify, Incident: v.in.ID, Channel: state.ChannelSlack, Want: 2,
		Since: onset.Add(time.Second), Turn: 7}
	return h, v, ch, ck, e
}

func TestHandlerShowsTheNewestRevision(t *testing.T) {
	h, _, ch, _, e := bench()
	out := h.Handle(t.Context(), e)
	if !out.Done || out.Error != "" || out.Rev != 3 || out.Ref["ts"] != "1" || out.Effect != e.ID || out.Turn != 7 {
		t.Errorf("outcome %+v", out)
	}
	if len(ch.shown) != 1 || !ch.fresh[0] {
		t.Errorf("shown %d, fresh %v", len(ch.shown), ch.fresh)
	}
}

func TestHandlerSkipsShownRevision(t *testing.T) {
	h, v, ch, _, e := bench()
	v.in.Told = state.ToldByOf(map[state.Channel]state.Told{state.ChannelSlack: {Rev: 3, Ref: map[string]string{"ts": "1"}}})
	if out := h.Handle(t.Context(), e); !out.Done || out.Rev != 3 || len(ch.shown) != 0 {
		t.Errorf("outcome %+v after %d calls", out, len(ch.shown))
	}
}

func TestHandlerClassifiesFailures(t *testing.T) {
	for _, c := range []struct {
		name     string
		err      error
		attempts int
		done     bool
		wait     time.Duration
		doubt    string
	}{
		{"refused is the end", &Refused{errors.New("no such channel")}, 0, true, 0, ""},
		{"an operator can fix it", &Fixable{errors.New("token revoked")}, 99, false, 10 * time.Minute, ""},
		{"asked to wait", &Later{After: 42 * time.Second, Err: errors.New("429")}, 0, false, 42 * time.Second, ""},
		{"a secret is rotated", Unreadable(errors.New("the file is empty")), 0, false, time.Second, ""},
		{"unknown backs off", errors.New("timeout"), 3, false, 8 * time.Second, "yes"},
		{"and not for ever", errors.New("timeout"), 99, false, 2 * time.Minute, "yes"},
	} {
		h, _, ch, _, e := bench()
		ch.err, e.Attempts = c.err, c.attempts
		out := h.Handle(t.Context(), e)
		if out.Done != c.done || out.Error == "" || out.Rev != 0 || out.Ref["doubt"] != c.doubt {
			t.Errorf("%s: outcome %+v", c.name, out)
		}
		if !c.done && out.RetryAt.Sub(onset) != c.wait {
			t.Errorf("%s: again after %s, want %s", c.name, out.RetryAt.Sub(onset), c.wait)
		}
	}
}

func TestHandlerMarksUnknownOutcomes(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(*Handler, *view, *state.Effect)
	}{
		{"wanted before this process began", func(_ *Handler, _ *view, e *state.Effect) { e.Since = onset.Add(-time.Minute) }},
		{"an attempt ended without an answer", func(_ *Handler, v *view, _ *state.Effect) {
			v.in.Told = state.ToldByOf(map[state.Channel]state.Told{state.ChannelSlack: {Ref: map[string]string{"doubt": "yes"}}})
		}},
		{"the same turn again", func(h *Handler, _ *view, e *state.Effect) { h.Handle(context.Background(), *e) }},
		{"the last attempt panicked", func(h *Handler, _ *view, e *state.Effect) {
			h.tried[e.ID] = attempt{turn: e.Turn - 1}
		}},
		{"another replica had the cluster", func(h *Handler, _ *view, _ *state.Effect) {
			h.cfg.Since = func(string) time.Time { return onset.Add(time.Hour) }
		}},
	} {
		h, v, ch, _, e := bench()
		c.make(h, v, &e)
		out := h.Handle(t.Context(), e)
		if ch.fresh[len(ch.fresh)-1] {
			t.Errorf("%s: called fresh", c.name)
		}
		if out.Ref["doubt"] != "" {
			t.Errorf("%s: doubt stays after success", c.name)
		}
	}
}

func TestHandlerForgetsSafely(t *testing.T) {
	h, _, ch, ck, e := bench()
	for i := range maxTried {
		h.tried[state.EffectID(string(rune(i)))] = attempt{turn: 1, ended: true}
	}
	ck.now = onset.Add(time.Minute)
	h.Handle(t.Context(), e)
	h.Handle(t.Context(), e)
	if ch.fresh[1] || len(h.tried) > 2 {
		t.Errorf("fresh %v with %d remembered", ch.fresh, len(h.tried))
	}
}

func TestSilencedIncidentIsNotShown(t *testing.T) {
	h, v, ch, ck, e := bench()
	v.in.SilencedUntil = onset.Add(time.Hour)
	if out := h.Handle(t.Context(), e); !out.Done || out.Rev != 0 || !strings.Contains(out.Error, "silenced until") || len(ch.shown) != 0 {
		t.Errorf("outcome %+v after %d calls", out, len(ch.shown))
	}
	ck.now = onset.Add(time.Hour)
	if out := h.Handle(t.Context(), e); !out.Done || out.Rev != 3 || len(ch.shown) != 1 {
		t.Errorf("after the silence: %+v", out)
	}
}

func TestHandlerDeliversWithoutTimeline(t *testing.T) {
	h, v, ch, _, e := bench()
	v.timeline = errors.New("the store is slow")
	out := h.Handle(t.Context(), e)
	if len(ch.shown) != 1 || out.Done || out.Rev != 3 || out.RetryAt.IsZero() {
		t.Errorf("outcome %+v after %d calls", out, len(ch.shown))
	}
}

func TestHandlerReportsErrors(t *testing.T) {
	h, _, _, _, e := bench()
	for want, e := range map[string]state.Effect{
		"no longer stored":      {Kind: e.Kind, Incident: "INC-0"},
		"set notify.pagerduty":  {Kind: e.Kind, Incident: e.Incident, Channel: state.ChannelPagerDuty},
		"no handler for effect": {Kind: state.EffectRun, Incident: e.Incident},
	} {
		if out := h.Handle(t.Context(), e); !out.Done || !strings.Contains(out.Error, want) {
			t.Errorf("%+v, want %q", out, want)
		}
	}
}

func TestHandlerWritesNotes(t *testing.T) {
	h, v, ch, _, e := bench()
	e.Kind, e.Ref = state.EffectNote, "P1"
	v.in.External = []state.External{{ID: "P0", Cause: "kv_leak"}, {ID: "P1", Cause: "unknown"}}
	if out := h.Handle(t.Context(), e); !out.Done || out.Error != "" || len(ch.notes) != 1 || ch.notes[0] != "unknown" ||
		out.Ref[state.RefCause] != string(v.in.Cause()) {
		t.Errorf("outcome %+v, in place of %v", out, ch.notes)
	}
	h.cfg.Noter = nil
	if out := h.Handle(t.Context(), e); !out.Done || !strings.Contains(out.Error, "api_token_file") {
		t.Errorf("outcome %+v", out)
	}
}

func TestLimiterWaitsOnItsClock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(state.SystemClock{}, time.Second, 1, 2*time.Second)
		begin := time.Now()
		for range 3 {
			if err := l.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("three calls took %s", took)
		}
		l.Close(time.Minute)
		var later *Later
		if err := l.Wait(t.Context()); !errors.As(err, &later) || later.After != time.Minute {
			t.Errorf("after a 429: %v", err)
		}
	})
}

// A lost is the lease of a process that another one has replaced.
type lost struct{}

func (lost) Held() bool               { return false }
func (lost) Changed() <-chan struct{} { return nil }

func TestLimiterAllowsNoCallAfterTheLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewLimiter(state.SystemClock{}, time.Second, 1, 2*time.Second)
		ctx := state.WithLease(t.Context(), lost{})
		for i, wait := range []func(context.Context) error{l.Wait, l.Wait, l.WaitBehind} { // at once, after a wait, behind
			var later *Later
			if err := wait(ctx); !errors.Is(err, state.ErrNotHeld) || !errors.As(err, &later) {
				t.Errorf("call %d: %v", i, err)
			}
		}
	})
}

func TestSecretFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	read := SecretFile(path)
	if _, err := read(); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	for content, want := range map[string]string{"xoxb-1\n": "xoxb-1", "xoxb-2": "xoxb-2"} {
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := read(); got != want || err != nil {
			t.Errorf("read %q, %v", got, err)
		}
	}
	if err := os.WriteFile(path, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := read(); !errors.Is(err, ErrNoSecret) {
		t.Errorf("empty: %v", err)
	}
}
