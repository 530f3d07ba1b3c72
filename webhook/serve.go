package webhook

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"strconv"
	"time"

	"paramedic/internal/incidentlog"
	"paramedic/webhook/httpio"
)

// handle returns a handler that answers the error of h.
func (s *Server) handle(h httpio.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Cache-Control", "no-store")
		err := h(w, r)
		if err == nil {
			return
		}
		var a *httpio.Error
		if !errors.As(err, &a) {
			s.Logger.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "err", err)
			a = httpio.Fail(http.StatusInternalServerError, "internal error: see Paramedic's log for request %s",
				header.Get("X-Request-Id"))
		}
		if rec, ok := w.(*recorder); ok && rec.code != 0 {
			return // the answer has already begun
		}
		s.logRefusal(r, a)
		if a.RetryAfter > 0 {
			header.Set("Retry-After", strconv.Itoa(a.RetryAfter))
		}
		body := map[string]any{"error": a.Text}
		if len(a.Candidates) > 0 {
			body["candidates"] = a.Candidates
		}
		if a.Missing != "" {
			body["missing"] = a.Missing
		}
		if err := httpio.WriteJSON(w, a.Code, body); err != nil {
			s.Logger.DebugContext(r.Context(), "the client did not take the answer", "path", r.URL.Path, "err", err)
		}
	})
}

// A recorder keeps what was answered, for the metrics.
type recorder struct {
	http.ResponseWriter
	code   int
	alerts int
}

func (r *recorder) WriteHeader(code int) {
	if r.code == 0 {
		r.code = code
	}
	r.ResponseWriter.WriteHeader(code)
}

func (r *recorder) Write(b []byte) (int, error) {
	if r.code == 0 {
		r.code = http.StatusOK
	}
	return r.ResponseWriter.Write(b)
}

// Unwrap lets http.ResponseController reach the connection.
func (r *recorder) Unwrap() http.ResponseWriter { return r.ResponseWriter }

// ServeHTTP gives every request an ID and every answer its common headers, and recovers from
// panics.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Clock.Now()
	id := r.Header.Get("X-Request-Id")
	if !httpio.PlainID(id, 64) {
		id = rand.Text()
	}
	r.Header.Set("X-Request-Id", id)
	r = r.WithContext(incidentlog.Open(r.Context()))
	header := w.Header()
	header.Set("X-Request-Id", id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin")

	// A body that does not arrive must not hold the connection. A handler may wait for it, or
	// net/http, which skips it after an early refusal. The deadline is a socket's, so it is the
	// machine's time.
	if r.Body != nil && r.Body != http.NoBody {
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(s.Limits.ReadTimeout))
	}

	rec := &recorder{ResponseWriter: w}
	defer func() {
		if p := recover(); p != nil {
			if p == http.ErrAbortHandler { //nolint:errorlint // a panic's value is compared as net/http compares it
				panic(p)
			}
			s.Logger.ErrorContext(r.Context(), "request panicked", "path", r.URL.Path, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			if rec.code == 0 {
				_ = httpio.WriteJSON(rec, http.StatusInternalServerError,
					map[string]string{"error": "internal error: see Paramedic's log for request " + id})
			}
		}
		if s.Observe != nil {
			code := rec.code
			if code == 0 {
				code = http.StatusOK
			}
			s.Observe(r.Pattern, code, s.Clock.Now().Sub(start), rec.alerts)
		}
	}()
	if err := s.access.CheckOrigin(r); err != nil {
		s.handle(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(rec, r)
		return
	}
	s.mux.ServeHTTP(rec, r)
}
