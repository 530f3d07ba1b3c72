package state

import (
	"regexp"
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

// signalID matches a word that may be a signal's ID.
var signalID = regexp.MustCompile(`\b[a-z][a-z0-9]*(?:_[a-z0-9]+)+\b`)

// Text returns s with the titles of signals in place of their IDs.
func (t Titles) Text(s string) string {
	if len(t.Signals) == 0 {
		return s
	}
	return signalID.ReplaceAllStringFunc(s, func(id string) string {
		if title := t.Signals[id]; title != "" && id != capFlag {
			return InSentence(title)
		}
		return id
	})
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
