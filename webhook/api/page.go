package api

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"paramedic/state"
	"paramedic/webhook/httpio"
)

// The page sizes of a listing.
const (
	pageDefault = 50
	pageMost    = 500
)

// pageOf reads the parameters limit and cursor.
func pageOf(r *http.Request) (limit int, after *state.Place, err error) {
	limit = pageDefault
	if text := r.URL.Query().Get("limit"); text != "" {
		if limit, err = strconv.Atoi(text); err != nil || limit < 1 || limit > pageMost {
			return 0, nil, httpio.Fail(http.StatusBadRequest,
				"limit %q is not a page size: give a number from 1 to %d, and follow next for more",
				httpio.Cut(text, 32), pageMost)
		}
	}
	if text := r.URL.Query().Get("cursor"); text != "" {
		p, err := readCursor(text)
		if err != nil {
			return 0, nil, httpio.Fail(http.StatusBadRequest,
				"cursor %q is not valid: give the field next of the page before, or omit it to begin with "+
					"the newest", httpio.Cut(text, 64))
		}
		after = &p
	}
	return limit, after, nil
}

// cursorVersion begins a cursor's text, so that a later format can be told apart.
const cursorVersion = "1"

// cursor returns a place in a listing as text: version, nanoseconds and ID. It returns nil for no
// place.
func cursor(p *state.Place) *string {
	if p == nil {
		return nil
	}
	nanos := int64(0)
	if !p.At.IsZero() {
		nanos = p.At.UnixNano()
	}
	text := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%s %d %s", cursorVersion, nanos, p.ID))
	return &text
}

func readCursor(text string) (state.Place, error) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return state.Place{}, fmt.Errorf("decoding the cursor: %w", err)
	}
	parts := strings.Split(string(raw), " ")
	if len(parts) != 3 || parts[0] != cursorVersion || parts[2] == "" {
		return state.Place{}, fmt.Errorf("the cursor has %d parts", len(parts))
	}
	nanos, err := strconv.ParseInt(parts[1], 10, 64)
	if err != nil {
		return state.Place{}, fmt.Errorf("reading the cursor's time: %w", err)
	}
	p := state.Place{ID: parts[2]}
	if nanos != 0 {
		p.At = time.Unix(0, nanos).UTC()
	}
	return p, nil
}
