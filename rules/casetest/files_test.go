package casetest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"paramedic/rules/rulestest"
)

// The problems of a case quote its lines, so a link must not make a secret part of a case.
func TestLinksOutOfCasesAreRefused(t *testing.T) {
	const secret = "hunter2"
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "secret")
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(outside, secret+"\n")
	write(filepath.Join(dir, "a.txtar"), "A case.\n-- workers --\na llm w pool model node 0\n-- evidence --\nbase linked.evidence\n-- want --\ncause unknown\n")
	if err := os.Symlink(outside, filepath.Join(dir, "linked.evidence")); err != nil {
		t.Fatal(err)
	}
	results, err := RunCases(rulestest.MustLoad(t), dir)
	if err != nil {
		t.Fatal(err)
	}
	told := strings.Join(results[0].Failures, "\n")
	if !strings.Contains(told, "symbolic link") || strings.Contains(told, secret) {
		t.Errorf("evidence behind a link: %s", told)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "b.txtar")); err != nil {
		t.Fatal(err)
	}
	if _, err := RunCases(rulestest.MustLoad(t), dir); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a case that is a link: %v", err)
	}
}
