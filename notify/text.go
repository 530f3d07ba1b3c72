package notify

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes foreign text safe to put on one line of anything: invalid UTF-8, control characters (a terminal's escape sequences
// among them) and characters that reorder text are taken out, and every run of white space becomes one space.
func Clean(s string) string {
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		switch {
		case r == utf8.RuneError, hidden(r):
			continue
		case unicode.IsSpace(r), unicode.IsControl(r):
			space = b.Len() > 0
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r)
	}
	return b.String()
}

// hidden characters have no glyph: they reverse the reading order or smuggle text past the eye.
func hidden(r rune) bool {
	switch {
	case r >= 0x202A && r <= 0x202E, r >= 0x2066 && r <= 0x2069: // bidirectional overrides
		return true
	case r == 0x200B, r == 0x200E, r == 0x200F, r == 0xFEFF, r == 0x2060:
		return true
	case r >= 0xE0000 && r <= 0xE007F: // tags
		return true
	}
	return false
}

// Len is a text's length as chat tools count it: in UTF-16 code units, which is never less than its characters.
func Len(s string) int {
	n := 0
	for _, r := range s {
		n += units(r)
	}
	return n
}

func units(r rune) int {
	if r > 0xFFFF {
		return 2
	}
	return 1
}

// Cut shortens a text to at most limit units of [Len], with an ellipsis where something is missing. A limit below one gives nothing.
func Cut(s string, limit int) string {
	if limit < 1 {
		return ""
	}
	if len(s) <= limit {
		return s
	}
	n, last := 0, 0 // last: where the ellipsis still fits
	for i, r := range s {
		if n < limit {
			last = i
		}
		if n += units(r); n > limit {
			return strings.TrimRight(s[:last], " ") + "…"
		}
	}
	return s
}
