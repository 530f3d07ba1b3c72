package text

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// Clean removes characters that reorder, hide or smuggle text. It keeps ordinary text of any
// alphabet.
func TestCleanRemovesInvisibleCharacters(t *testing.T) {
	for in, want := range map[string]string{
		"a\x1b[31mred\x1b[0m\nb\t c":           "a [31mred [0m b c",
		"\u202Egnp.exe\u200b":                  "gnp.exe",
		"pod-\u202A\u202B\u202C\u202D\u202E1":  "pod-1",
		"pod-\u2066\u2067\u2068\u20692":        "pod-2",
		"\u200E\u200F\u061Cmark":               "mark",
		"soft\u00ADhyphen":                     "softhyphen",
		"ze\u200Bro\u200C\u200D\u2060\uFEFF":   "zero",
		"tag\U000E0041\U000E007F":              "tag",
		"fill\u3164\uFFA0\u115F\u2800er":       "filler",
		"vs\uFE0F\U000E0100":                   "vs",
		"c1\u0085\u009B31m":                    "c1 31m",
		"line\u2028para\u2029":                 "line para",
		"bad \xff utf8":                        "bad utf8",
		"  edges  and   runs ":                 "edges and runs",
		"KV cache 98 % → 128, ×1.6, “ok” 日本 é": "KV cache 98 % → 128, ×1.6, “ok” 日本 é",
		"العربية עברית":                        "العربية עברית",
		"plain":                                "plain",
		"":                                     "",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := Lines("a\r\n\tb\u202E\x1b[2J\xff"); got != "a\n\tb[2J" {
		t.Errorf("Lines gives %q", got)
	}
}

func TestCutKeepsToItsLimit(t *testing.T) {
	for _, c := range []struct {
		in    string
		limit int
		want  string
	}{{"hello", 5, "hello"}, {"hello!", 5, "hell…"}, {"😀😀😀", 4, "😀…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"x", 0, ""}} {
		got := Cut(c.in, c.limit)
		if got != c.want || Len(got) > max(c.limit, 0) {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.in, c.limit, got, c.want)
		}
	}
	if got := Line(strings.Repeat(" x", 1<<20), 5); got != "x x…" {
		t.Errorf("Line gives %q", got)
	}
}

func FuzzText(f *testing.F) {
	f.Add("some 😀 text \xff\u202e", 7)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit %= 1 << 20
		if got := Cut(s, limit); Len(got) > max(limit, 0) {
			t.Errorf("Cut(%q, %d) = %q", s, limit, got)
		}
		for name, got := range map[string]string{"Clean": Clean(s), "Line": Line(s, limit), "Lines": Lines(s)} {
			if !utf8.ValidString(got) || strings.ContainsFunc(got, Hidden) || strings.ContainsAny(got, "\x1b\r\x00") || name != "Lines" &&
				strings.ContainsAny(got, "\n\t") {
				t.Errorf("%s(%q) = %q", name, s, got)
			}
		}
		if c := Clean(s); Clean(c) != c || !clean(c) && len(c) > 0 && isASCII(c) {
			t.Errorf("Clean(%q) = %q", s, c)
		}
	})
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r > '~' })
}
