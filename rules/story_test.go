package rules

import "testing"

func TestATitleWithinASentence(t *testing.T) {
	for title, want := range map[string]string{
		"Queue grows": "queue grows", "KV cache is full": "KV cache is full", "A worker is down": "a worker is down", "Überlast": "überlast",
		"ÜÖ": "ÜÖ", "負荷が高い": "負荷が高い", "": "",
	} {
		if got := midSentence(title); got != want {
			t.Errorf("%q: %q, want %q", title, got, want)
		}
	}
}
