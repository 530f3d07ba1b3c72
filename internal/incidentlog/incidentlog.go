// Package incidentlog adds an incident's ID to every log line that is written on the incident's
// behalf.
//
// Code that learns which incident it works for calls [With] or [Name]. A logger whose handler is a
// [Handler] then adds the ID under [Key], if the line is written with the context (WarnContext and
// so on).
package incidentlog

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// Key is the key of the incident's ID in log lines.
const Key = "incident"

// A subject holds the ID once it is known.
type subject struct{ id atomic.Pointer[string] }

type subjectKey struct{}

// Open returns a context for a piece of work whose incident is not known yet. Name sets it, also
// for lines of callers that hold the returned context.
func Open(ctx context.Context) context.Context {
	return context.WithValue(ctx, subjectKey{}, &subject{})
}

// Name sets the incident of a context from Open. An empty ID and another context change nothing.
func Name(ctx context.Context, id string) {
	if s, ok := ctx.Value(subjectKey{}).(*subject); ok && id != "" {
		s.id.Store(&id)
	}
}

// With returns a context for work on an incident.
func With(ctx context.Context, id string) context.Context {
	ctx = Open(ctx)
	Name(ctx, id)
	return ctx
}

// A Handler passes log lines on, and adds the incident of their context.
type Handler struct{ slog.Handler }

// Handle adds the incident's ID, unless the line has one.
func (h Handler) Handle(ctx context.Context, r slog.Record) error {
	s, ok := ctx.Value(subjectKey{}).(*subject)
	if !ok || s.id.Load() == nil || has(r, Key) {
		return h.Handler.Handle(ctx, r)
	}
	r = r.Clone()
	r.AddAttrs(slog.String(Key, *s.id.Load()))
	return h.Handler.Handle(ctx, r)
}

// WithAttrs returns a Handler whose lines have the attributes.
func (h Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return Handler{h.Handler.WithAttrs(attrs)}
}

// WithGroup returns a Handler whose lines have their attributes in the group.
func (h Handler) WithGroup(name string) slog.Handler { return Handler{h.Handler.WithGroup(name)} }

// has reports whether a line has an attribute of the key.
func has(r slog.Record, key string) bool {
	found := false
	r.Attrs(func(a slog.Attr) bool {
		found = a.Key == key
		return !found
	})
	return found
}
