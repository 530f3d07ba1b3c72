package httpio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
)

// A Handler answers a request, or returns an error that its caller answers.
type Handler func(w http.ResponseWriter, r *http.Request) error

// An Error holds the status and the text that the sender of a request gets.
type Error struct {
	Code       int
	Text       string
	Candidates []string // the meanings of an ambiguous name
	Missing    string   // the field that the body lacks
	RetryAfter int      // seconds
}

func (e *Error) Error() string { return e.Text }

// Fail returns an error that is answered with the status and the text. With 503, the sender is
// asked to retry after a second.
func Fail(code int, format string, args ...any) *Error {
	a := &Error{Code: code, Text: fmt.Sprintf(format, args...)}
	if code == http.StatusServiceUnavailable {
		a.RetryAfter = 1
	}
	return a
}

// WriteJSON answers with the status and v as JSON.
func WriteJSON(w http.ResponseWriter, code int, v any) error {
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
