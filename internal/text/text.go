// Package text makes text from outside safe to show: labels, annotations, chat, and errors of other
// programs.
//
// It removes characters that readers cannot see but that change what they see. These are control
// characters, which a terminal obeys, and Unicode's format characters, which reorder or hide text.
// For example, a label with a right-to-left override can turn "exe.gpj" into "jpg.exe". The package
// does not escape markup: callers must still escape text for HTML, Markdown or Slack.
//
// It imports the standard library only. Every package may import it, except state.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether a character has no glyph of its own: it is invisible, or it reorders,
// joins or hides its neighbours.
func Hidden(r rune) bool {
	if r < 0xAD {
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) ||
		r == 0x2800
}

// Clean returns s on one line, without control characters, hidden characters and invalid UTF-8.
// Each run of white space becomes one space. Control characters count as white space, so that
// removing an escape sequence does not join two words.
func Clean(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s))
	space := false
	for _, r := range s {
		switch {
		case r == utf8.RuneError, Hidden(r):
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

// clean reports whether Clean would return s unchanged. It recognizes only printable ASCII, which
// covers most texts.
func clean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// Lines returns s with its line breaks and tabs, but without other control characters, hidden
// characters and invalid UTF-8.
func Lines(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n', r == '\t':
			return r
		case r == utf8.RuneError, unicode.IsControl(r), Hidden(r):
			return -1
		}
		return r
	}, s)
}

// Line returns s cleaned and cut to at most the given number of units of [Len]. It reads at most 16
// bytes of s per unit, so that a very long text costs little.
func Line(s string, most int) string {
	if far := 16 * most; far > 0 && len(s) > far {
		s = s[:far] + "…"
	}
	return Cut(Clean(s), most)
}

// Len returns the length of a text in UTF-16 code units, as chat tools count it. This is never less
// than the number of characters.
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

// Cut shortens a text to at most limit units of [Len] and marks the cut with an ellipsis. It
// returns "" if the limit is below one.
func Cut(s string, limit int) string {
	if limit < 1 {
		return ""
	}
	if len(s) <= limit {
		return s
	}
	n, last := 0, 0 // last: the last position where the ellipsis still fits
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

// Phrase returns one line of foreign text, cut to 160 units of [Len]. It keeps one leading space,
// so that a word can bring the space that separates it from the text before.
func Phrase(s string) string {
	line := Line(s, 160)
	if line != "" && s[0] == ' ' {
		return " " + line
	}
	return line
}

// List joins up to three items with commas. Of a longer list it returns the first two and the
// number of the others.
func List(items []string) string {
	if len(items) > 3 {
		return strings.Join(items[:2], ", ") + " and " + strconv.Itoa(len(items)-2) + " more"
	}
	return strings.Join(items, ", ")
}

// Enumerate joins all items with commas and "and".
func Enumerate(items []string) string {
	if len(items) < 2 {
		return strings.Join(items, "")
	}
	return strings.Join(items[:len(items)-1], ", ") + " and " + items[len(items)-1]
}
