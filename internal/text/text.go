// Package text makes text from outside fit to be shown: labels, annotations, chat, errors of other
// programs.
//
// It takes out what no reader sees and what acts on what they see: control characters, which a
// terminal obeys, and the format characters of Unicode, which reorder, hide or smuggle text. A
// label can carry a right-to-left override that turns "exe.gpj" into "jpg.exe". The package has no
// opinion on markup: where text goes into HTML, Markdown or Slack's format, it has to be escaped
// there as well.
//
// It imports the standard library only, and every room may import it but state.
package text

import (
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Hidden reports whether a character has no glyph of its own: it reorders its neighbours, joins or
// hides them, or is not seen at all.
func Hidden(r rune) bool {
	if r < 0xAD {
		return false
	}
	return unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == 0x2800
}

// Clean returns s on one line: without control and hidden characters and what is not UTF-8, and
// with every run of white space as one space. Control characters count as white space, so that a
// terminal's escape sequence does not glue two words together.
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

// clean reports whether s is as Clean would leave it, for the text that most of it is: printable
// ASCII.
func clean(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' || c == ' ' && (i == 0 || i == len(s)-1 || s[i-1] == ' ') {
			return false
		}
	}
	return true
}

// Lines returns s with its line breaks and tabs, and without other control characters, hidden
// characters and what is not UTF-8.
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

// Line returns s cleaned and cut to at most that many units of [Len]. Of a text of an absurd length
// it looks at the beginning only.
func Line(s string, most int) string {
	if far := 16 * most; far > 0 && len(s) > far {
		s = s[:far] + "…"
	}
	return Cut(Clean(s), most)
}

// Len returns a text's length as chat tools count it: in UTF-16 code units, which is never less
// than its characters.
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

// Cut shortens a text to at most limit units of [Len], with an ellipsis where something is missing.
// A limit below one gives nothing.
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
