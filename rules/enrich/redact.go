package enrich

import (
	"errors"
	"net/url"
	"regexp"
	"strings"
)

var credential = regexp.MustCompile(`(?i)(bearer\s+|basic\s+|token=|password=|//[^/\s:@]+:)[^\s"'@&]+`)

// Redact is an error's text without the URL of the call, which can hold a password, and without anything that looks like a
// credential, in at most 200 characters of one line.
func Redact(err error) string {
	text := err.Error()
	if u := new(url.Error); errors.As(err, &u) {
		text = u.Err.Error()
	}
	text = credential.ReplaceAllString(text, "${1}[redacted]")
	text = strings.Join(strings.Fields(text), " ")
	if r := []rune(text); len(r) > 200 {
		text = string(r[:200]) + "…"
	}
	return text
}
