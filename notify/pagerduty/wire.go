package pagerduty

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paramedic/internal/text"
	"paramedic/notify"
)

// defaultWait is the wait after 429 if PagerDuty names no time.
const defaultWait = 30 * time.Second

// maxReply bounds how much of an answer is read.
const maxReply = 4 << 20

// A call records what the library hides: the status, Retry-After and body of an error, and the
// network error if there was no answer. One is made for every request.
type call struct {
	http   *http.Client
	status int
	header http.Header
	body   []byte
	err    error
}

// Do sends the request.
func (c *call) Do(r *http.Request) (*http.Response, error) {
	resp, err := c.http.Do(r)
	if err != nil {
		c.err = err
		return nil, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxReply))
	if err != nil {
		c.err = err
		return nil, err
	}
	c.err = nil
	c.status, c.header, c.body = resp.StatusCode, resp.Header, body
	resp.Body = io.NopCloser(bytes.NewReader(body))
	return resp, nil
}

// verdict returns the result of the call: nil if it succeeded, and otherwise whether a retry can
// help, and when. The library's own error is not used. See fixable for a refused event.
func (c *call) verdict(what string) error {
	switch {
	case c.err != nil && (errors.Is(c.err, context.Canceled) || errors.Is(c.err, context.DeadlineExceeded)):
		return fmt.Errorf("pagerduty %s: no answer in time: %w", what, c.err)
	case c.err != nil:
		return fmt.Errorf("pagerduty %s: %w", what, c.err)
	case c.status >= 200 && c.status < 300:
		return nil
	}
	err := fmt.Errorf("pagerduty %s answered %d%s", what, c.status, reason(c.body))
	switch {
	case c.status == http.StatusTooManyRequests:
		wait := defaultWait
		if s, bad := strconv.Atoi(strings.TrimSpace(c.header.Get("Retry-After"))); bad == nil && s > 0 && s < 3600 {
			wait = time.Duration(s) * time.Second
		}
		return &notify.Later{After: wait, Err: err}
	case c.status >= 500 || c.status == http.StatusRequestTimeout:
		return err
	case c.status == http.StatusUnauthorized || c.status == http.StatusForbidden:
		err = fmt.Errorf("%w; check the key or token of notify.pagerduty and what it may do", err)
	}
	return &notify.Refused{Err: err}
}

// fixable reports whether PagerDuty, or a proxy before it, refused something other than the event:
// the key, for instance, or the address.
func (c *call) fixable() bool {
	if c.status == http.StatusBadRequest {
		return bytes.Contains(bytes.ToLower(c.body), []byte("routing key"))
	}
	return c.status > http.StatusBadRequest && c.status < 500 && c.status != http.StatusRequestEntityTooLarge
}

// reason returns the error text of an answer's body. The events API and the REST API place it
// differently.
func reason(body []byte) string {
	var said struct {
		Message string `json:"message"`
		Errors  any    `json:"errors"`
		Error   struct {
			Message string `json:"message"`
			Errors  any    `json:"errors"`
		} `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil {
		return ""
	}
	var parts []string
	for _, s := range []any{said.Message, said.Errors, said.Error.Message, said.Error.Errors} {
		if s != nil && s != "" {
			parts = append(parts, fmt.Sprint(s))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return ": " + text.Cut(text.Clean(strings.Join(parts, ": ")), 300)
}
