package httpio

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// PlainID reports whether text is safe in logs, keys and headers: at most `most` letters, digits,
// '.', '-' and '_'.
func PlainID(text string, most int) bool {
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

// HasControl reports whether text has characters that no label has and that act on a terminal: C0,
// DEL and C1. white allows line breaks and tabs.
func HasControl(text string, white bool) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		if white && (r == '\n' || r == '\t' || r == '\r') {
			return false
		}
		return r < 0x20 || r >= 0x7f && r <= 0x9f
	})
}

// Cut shortens text to at most n bytes, between characters, and appends an ellipsis.
func Cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	end := n - len("…")
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// ParseTime reads an RFC 3339 time in UTC. It refuses a year that cannot be written as JSON again.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if t = t.UTC(); err == nil && (t.Year() < 1 || t.Year() > 9998) {
		return t, errors.New("out of range")
	}
	return t, err
}
