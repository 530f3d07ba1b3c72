package catalog_test

import (
	"path/filepath"
	"strings"
	"testing"

	"paramedic/rules/catalog"
	"paramedic/rules/rulestest"
)

func TestSharedConditionsAreExpanded(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `causes:
  - id: kv_leak
    title: "Ours on {target}"
    prior: -1
    scope: pod
    where:
      full: kv_usage.max > 0.9 || kv_usage.min > 0.8
    evidence:
      - {when: full && requests_waiting.max > 1, unless: "!full || hint(\"full\") != \"\"", weight: 20, text: "used {kv_usage.max}"}
`)
	c, problems, err := catalog.Load(dir)
	if err != nil || len(problems) > 0 {
		t.Fatal(err, problems)
	}
	cause, _ := c.Cause("kv_leak")
	e := cause.Evidence[0]
	if want := "(kv_usage.max > 0.9 || kv_usage.min > 0.8) && requests_waiting.max > 1"; e.When != want {
		t.Errorf("when is %q, want %q", e.When, want)
	}
	if want := `!(kv_usage.max > 0.9 || kv_usage.min > 0.8) || hint("full") != ""`; e.Unless != want {
		t.Errorf("unless is %q, want %q", e.Unless, want)
	}
}

func TestUnusableConditionNamesAreProblems(t *testing.T) {
	dir := t.TempDir()
	rulestest.Write(t, dir, "mine.yaml", `causes:
  - id: kv_leak
    title: "Ours on {target}"
    prior: -1
    scope: pod
    where:
      kv_usage: requests_waiting.max > 1
      workers: requests_waiting.max > 1
      role: requests_waiting.max > 1
      Full: requests_waiting.max > 1
      broken: no_such_signal.max > 1
    evidence:
      - {when: kv_usage.max > 0.9, weight: 20, text: "used {kv_usage.max}"}
`)
	_, problems, err := catalog.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{"7", "8", "9", "10", "11"} {
		found := false
		for _, p := range problems {
			found = found || strings.HasPrefix(p.String(), filepath.Join(dir, "mine.yaml")+":"+line+":")
		}
		if !found {
			t.Errorf("no problem at line %s: %v", line, problems)
		}
	}
	if len(problems) != 5 {
		t.Errorf("%d problems, want 5: %v", len(problems), problems)
	}
}
