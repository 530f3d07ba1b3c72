package state

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Titles holds the titles of signals and symptoms by ID. Texts for people show them in place of the
// IDs. The zero value has none.
type Titles struct {
	Signals  map[string]string
	Symptoms map[Symptom]string
}

// Signal returns the title of a signal or of "symptom:ID". A signal without a title is its ID, with
// spaces.
func (t Titles) Signal(id string) string {
	if title := t.Signals[id]; title != "" {
		return title
	}
	if symptom, ok := strings.CutPrefix(id, "symptom:"); ok {
		return "Alert: " + t.Symptom(Symptom(symptom))
	}
	return strings.ReplaceAll(id, "_", " ")
}

// Symptom returns the title of a symptom, or its ID with spaces.
func (t Titles) Symptom(id Symptom) string {
	if title := t.Symptoms[id]; title != "" {
		return title
	}
	return strings.ReplaceAll(string(id), "_", " ")
}

// capFlag is the ID of a signal that is also an engine's flag. A text means the flag.
const capFlag = "max_num_seqs"

// Text returns s with the titles of signals in place of their IDs.
func (t Titles) Text(s string) string {
	return MapNames(s, func(id string, _ bool) string {
		if title := t.Signals[id]; title != "" {
			return InSentence(title)
		}
		return id
	})
}

// MapNames returns s with f applied to every name that has an underscore, such as the ID of a
// signal or a cause. first is set for the first word of s. A name within a path or a pod's name
// stays, and so does max_num_seqs.
func MapNames(s string, f func(name string, first bool) string) string {
	var out strings.Builder
	for rest := s; rest != ""; {
		n := strings.IndexFunc(rest, isNamePart)
		if n < 0 {
			n = len(rest)
		}
		out.WriteString(rest[:n])
		rest = rest[n:]
		n = strings.IndexFunc(rest, func(r rune) bool { return !isNamePart(r) })
		if n < 0 {
			n = len(rest)
		}
		word := strings.TrimRight(rest[:n], ".:")
		end := rest[len(word):n]
		if strings.Contains(word, "_") && word != capFlag {
			word = f(word, strings.TrimSpace(out.String()) == "")
		}
		out.WriteString(word + end)
		rest = rest[n:]
	}
	return out.String()
}

// isNamePart reports whether a letter may be part of a name, a path or a pod's name.
func isNamePart(r rune) bool {
	return r == '_' || r == '-' || r == '/' || r == '.' || r == ':' || r == '=' || r >= '0' && r <= '9' ||
		r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r > 127 && r != '→' && r != '×' && r != '…'
}

// InSentence returns a title for use within a sentence. Its first letter is small, unless the title
// begins with an abbreviation such as KV, or with Xid.
func InSentence(title string) string {
	first, n := utf8.DecodeRuneInString(title)
	second, _ := utf8.DecodeRuneInString(title[n:])
	if !unicode.IsUpper(first) || unicode.IsUpper(second) || unicode.IsDigit(second) || strings.HasPrefix(title, "Xid") {
		return title
	}
	return string(unicode.ToLower(first)) + title[n:]
}
