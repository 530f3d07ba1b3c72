package httpio

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"os"
	"time"
	"unicode/utf8"

	json "github.com/go-json-experiment/json/v1"

	"paramedic/internal/onepass"
)

// firstBuffer is the memory for a body before it arrives.
const firstBuffer = 64 << 10

// ReadBody reads a body of at most limit bytes of UTF-8. The caller has set the read deadline.
// timeout is the duration that the error names if the deadline passes.
func ReadBody(w http.ResponseWriter, r *http.Request, limit int64, timeout time.Duration) ([]byte, error) {
	return ReadBodyTo(new(bytes.Buffer), w, r, limit, timeout)
}

// ReadBodyTo is [ReadBody] into an empty buffer. The body is valid as long as the buffer's content.
func ReadBodyTo(buf *bytes.Buffer, w http.ResponseWriter, r *http.Request, limit int64,
	timeout time.Duration) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, tooLarge(limit)
	}
	if coding := r.Header.Get("Content-Encoding"); coding != "" && coding != "identity" {
		return nil, Fail(http.StatusBadRequest, "the body is encoded as %q: send it without Content-Encoding", Cut(coding, 32))
	}
	// No growth steps for a usual body with a known length. A sender gets more memory by sending.
	if r.ContentLength > 0 {
		buf.Grow(int(min(r.ContentLength, firstBuffer)) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var big *http.MaxBytesError
	var own *Error // of a body that the caller has wrapped
	switch {
	case errors.As(err, &own):
		return nil, own
	case errors.As(err, &big):
		return nil, tooLarge(limit)
	case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, context.DeadlineExceeded):
		return nil, Fail(http.StatusServiceUnavailable, "the body did not arrive within %s: send it again", timeout)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return nil, Fail(http.StatusBadRequest, "the body is shorter than its Content-Length")
	case err != nil:
		return nil, Fail(http.StatusBadRequest, "the body could not be read: send it again")
	}
	// The body is complete. From now on the deadline would only end the request's context.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	if !utf8.Valid(buf.Bytes()) {
		return nil, Fail(http.StatusBadRequest, "the body is not valid UTF-8")
	}
	return buf.Bytes(), nil
}

func tooLarge(limit int64) error {
	return Fail(http.StatusRequestEntityTooLarge, "the body is larger than %d bytes: send less at once", limit)
}

// DecodeOne decodes a body that holds exactly one JSON value. It ignores unknown fields.
func DecodeOne(body []byte, into any) error {
	var kind *json.UnmarshalTypeError
	if err := onepass.Unmarshal(body, into); err == nil || errors.As(err, &kind) {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(body))
	if err := dec.Decode(into); err != nil {
		if errors.Is(err, io.EOF) {
			return errors.New("it is empty")
		}
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("it has more after the JSON value")
	}
	return nil
}

// SentJSON reports whether a request declares its body as JSON.
func SentJSON(r *http.Request) bool {
	kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	return err == nil && kind == "application/json"
}
