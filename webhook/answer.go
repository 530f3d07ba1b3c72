package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"runtime/debug"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// A handler answers a request itself, or returns an error that is answered for it.
type handler func(w http.ResponseWriter, r *http.Request) error

// An answer is an error with the status and the words that the sender gets.
type answer struct {
	code       int
	text       string
	candidates []string
	missing    string // the field that the body lacks
	retryAfter int    // seconds
}

func (a *answer) Error() string { return a.text }

func fail(code int, format string, args ...any) *answer {
	a := &answer{code: code, text: fmt.Sprintf(format, args...)}
	if code == http.StatusServiceUnavailable {
		a.retryAfter = 1
	}
	return a
}

func writeJSON(w http.ResponseWriter, code int, v any) error {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return fmt.Errorf("encoding the answer: %w", err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(code)
	_, err := w.Write(buf.Bytes())
	return err
}

// handle turns a handler's error into an answer.
func (s *Server) handle(h handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		header.Set("Cache-Control", "no-store")
		err := h(w, r)
		if err == nil {
			return
		}
		var a *answer
		if !errors.As(err, &a) {
			s.Logger.Error("request failed", "path", r.URL.Path, "err", err)
			a = fail(http.StatusInternalServerError, "internal error; the log says more under request %s", header.Get("X-Request-Id"))
		}
		if rec, ok := w.(*recorder); ok && rec.code != 0 {
			return // the answer has begun
		}
		if a.retryAfter > 0 {
			header.Set("Retry-After", strconv.Itoa(a.retryAfter))
		}
		body := map[string]any{"error": a.text}
		if len(a.candidates) > 0 {
			body["candidates"] = a.candidates
		}
		if a.missing != "" {
			body["missing"] = a.missing
		}
		if err := writeJSON(w, a.code, body); err != nil {
			s.Logger.Debug("answer was not taken", "path", r.URL.Path, "err", err)
		}
	})
}

// recorder remembers what was answered, for the metrics.
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

// ServeHTTP gives every request an ID, the headers that every answer needs, and an end to panics.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := s.Clock.Now()
	id := r.Header.Get("X-Request-Id")
	if !plainID(id, 64) {
		id = rand.Text()
	}
	r.Header.Set("X-Request-Id", id)
	header := w.Header()
	header.Set("X-Request-Id", id)
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("X-Frame-Options", "DENY")
	header.Set("Referrer-Policy", "same-origin")

	// A body that does not arrive must not hold the connection, neither while a handler reads it
	// nor while net/http skips it after an early refusal. The deadline is a socket's, so it is the
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
			s.Logger.Error("request panicked", "path", r.URL.Path, "err", fmt.Sprint(p), "stack", string(debug.Stack()))
			if rec.code == 0 {
				_ = writeJSON(rec, http.StatusInternalServerError, map[string]string{"error": "internal error; the log says more under request " + id})
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
	if err := s.checkOrigin(r); err != nil {
		s.handle(func(http.ResponseWriter, *http.Request) error { return err }).ServeHTTP(rec, r)
		return
	}
	s.mux.ServeHTTP(rec, r)
}

// plainID says whether text is safe in logs, keys and headers: letters, digits, '.', '-' and '_'.
func plainID(text string, most int) bool {
	if text == "" || len(text) > most {
		return false
	}
	for _, c := range []byte(text) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9', c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

// readBody reads a body of at most limit bytes that arrives within the read timeout and is UTF-8.
func (s *Server) readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead) // no growth steps for a body that tells its length
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var big *http.MaxBytesError
	switch {
	case errors.As(err, &big):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return nil, fail(http.StatusServiceUnavailable, "the body did not arrive within %s; send it again", s.Limits.ReadTimeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, fail(http.StatusBadRequest, "the body is shorter than its Content-Length")
	case err != nil:
		return nil, fail(http.StatusBadRequest, "the body could not be read")
	}
	// All of it is here: from now on the deadline would only end the request's context.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if !utf8.Valid(buf.Bytes()) {
		return nil, fail(http.StatusBadRequest, "the body is not valid UTF-8")
	}
	return buf.Bytes(), nil
}

func tooLarge(limit int64) error {
	return fail(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes; send less at once", limit)
}

// decodeOne decodes exactly one JSON value.
func decodeOne(body []byte, into any, strict bool) error {
	dec := json.NewDecoder(bytes.NewReader(body))
	if strict {
		dec.DisallowUnknownFields()
	}
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("more follows after the JSON value")
	}
	return nil
}

// inWords returns a decoding error without the names of Go's types, which say nothing to the
// sender.
func inWords(err error) error {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return err
	}
	want := "an object"
	switch kind := wrong.Type.Kind(); {
	case kind == reflect.String:
		want = "a string"
	case kind == reflect.Bool:
		want = "true or false"
	case kind == reflect.Slice:
		want = "an array"
	case kind >= reflect.Int && kind <= reflect.Float64:
		want = "a number"
	}
	_, field, _ := strings.Cut("."+wrong.Field, ".Data.") // the payload embeds Alertmanager's type
	if field == "" {
		field = strings.NewReplacer("Alert.", "", "payload.", "").Replace(wrong.Field)
	}
	value, _, _ := strings.Cut(wrong.Value, " ") // "number -1"
	if value == "number" && want == "a number" {
		value, want = wrong.Value, "a number in range"
	}
	return fmt.Errorf("%s must be %s, not %s", cmp.Or(field, "the value"), want, value)
}
