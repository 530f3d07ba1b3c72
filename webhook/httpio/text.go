package httpio

import (
	"errors"
	"strings"
	"time"
	"unicode/utf8"
)

// PlainID reports whether text is safe in logs, keys and headers: letters, digits, '.', '-' and '_'.
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

// HasControl finds characters that no label has and that would act on a terminal: C0 (but for white
// space in values), DEL and C1.
func HasControl(text string, white bool) bool {
	return strings.ContainsFunc(text, func(r rune) bool {
		if white && (r == '\n' || r == '\t' || r == '\r') {
			return false
		}
		return r < 0x20 || r >= 0x7f && r <= 0x9f
	})
}

// Cut shortens text to at most n bytes, between characters, and marks it.
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

// ParseTime reads an RFC 3339 time that can be written as JSON again.
func ParseTime(text string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339Nano, text)
	if t = t.UTC(); err == nil && (t.Year() < 1 || t.Year() > 9998) {
		return t, errors.New("out of range") // it could not be written as JSON again
	}
	return t, err
}
