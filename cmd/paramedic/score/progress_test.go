package score

import (
	"bytes"
	"testing"
)

// On a terminal, one line is overwritten after every trial, and removed before the result.
func TestScoreShowsProgressOnATerminal(t *testing.T) {
	var line bytes.Buffer
	told := &Progress{out: &line, all: 2}
	s := Selection{Seeds: 2, First: 3, Faults: []string{"engine_hang"}, Options: Options{Engine: "vllm"}}
	if _, err := s.Play(t.Context(), told.Done); err != nil {
		t.Fatal(err)
	}
	told.End()
	if got, want := line.String(), "\r1 of 2 runs done\r2 of 2 runs done\r\x1b[K"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	if NewProgress(&line, 2) != nil {
		t.Error("a buffer is no terminal")
	}
}
