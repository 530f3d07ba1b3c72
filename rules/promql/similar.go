package promql

import (
	"slices"
	"strings"
)

// WordsOf returns the words of a name, at least one.
func WordsOf(name string) []string {
	return strings.Split(strings.ReplaceAll(strings.ToLower(name), ":", "_"), "_")
}

// The similarity of two names, the most similar first.
const (
	sameWords  = iota // they differ in case, or a colon replaces an underscore
	samePlural        // requests for request
	sameUnit          // only one has the suffix of its unit
	oneSlip           // one typing error in a long word
	Unlike            // different metrics
)

// units are the suffixes that people often omit.
var units = []string{"total", "seconds", "bytes", "ratio"}

// Likeness returns the similarity of two names. Names that differ by a number or a short word are
// different metrics: p95 and p99, 4xx and 5xx, rx and tx.
func Likeness(a, b []string) int {
	if len(a) > len(b) {
		a, b = b, a
	}
	switch {
	case len(b) == len(a)+1 && slices.Equal(a, b[:len(a)]) && slices.Contains(units, b[len(a)]):
		return sameUnit
	case len(a) != len(b):
		return Unlike
	}
	out, differ := sameWords, 0
	for i := range a {
		if a[i] == b[i] {
			continue
		}
		differ++
		switch {
		case a[i]+"s" == b[i] || b[i]+"s" == a[i]:
			out = samePlural
		case slip(a[i], b[i]):
			out = oneSlip
		default:
			return Unlike
		}
	}
	if differ > 1 {
		return Unlike
	}
	return out
}

// slip reports whether two long words differ by one letter after the first: replaced, inserted, or
// swapped with the next.
func slip(a, b string) bool {
	const long = 5
	if len(a) > len(b) {
		a, b = b, a
	}
	if len(a) < long || a[0] != b[0] || len(b) > len(a)+1 || strings.ContainsAny(a+b, "0123456789") {
		return false
	}
	at := 0
	for at < len(a) && a[at] == b[at] {
		at++
	}
	if len(a) < len(b) {
		return a[at:] == b[at+1:]
	}
	return a[at+1:] == b[at+1:] || at+1 < len(a) && a[at] == b[at+1] && a[at+1] == b[at] && a[at+2:] == b[at+2:]
}
