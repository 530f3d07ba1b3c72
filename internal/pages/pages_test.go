package pages

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const page = `# A page

Run ` + "`paramedic check`" + ` and [read](other.md) ` + "`a\nb`" + `:

` + "```sh\npwd\n```" + `

It prints:

` + "```output\n/…\n```" + `

    indented --flag

- In a list:

  ` + "```yaml\n  a: 1\n  ```" + `
`

func write(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestPageHasItsBlocksAndSpans(t *testing.T) {
	p, err := Read(write(t, page))
	if err != nil || len(p.Blocks) != 3 {
		t.Fatal(p, err)
	}
	want := []Block{{Lang: "sh", Text: "pwd\n", Line: 7, Output: &Output{Text: "/…\n"}}, {Text: "indented --flag\n", Line: 16},
		{Lang: "yaml", Text: "a: 1\n", Line: 21}}
	for i, b := range p.Blocks {
		if diff := cmp.Diff(want[i], b); diff != "" {
			t.Errorf("block %d: %s", i, diff)
		}
	}
	if strings.Join(p.Spans, "|") != "paramedic check|a b" {
		t.Errorf("spans %q", p.Spans)
	}
}

// An output belongs to the commands right above it, and not to those of another section.
func TestOutputWithoutCommandsIsRefused(t *testing.T) {
	for _, text := range []string{"```output\nx\n```\n", "```sh\npwd\n```\n\n## Next\n\n```output\nx\n```\n", "```sh\npwd\n```\n```output\nx\n```\n```output\nx\n```\n"} {
		if _, err := Read(write(t, text)); err == nil || !strings.Contains(err.Error(), "follows no commands") {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestShownOutputMustBeTheRealOne(t *testing.T) {
	for _, c := range []struct {
		shown, real string
		want        bool
	}{
		{"a\nb\n", "a \nb\n\n", true},
		{"a\n", "a\nb\n", false},
		{"a\nb\n", "a\n", false},
		{"a\n…\nd\n", "a\nb\nc\nd\n", true},
		{"a\n…\nd\n", "a\nd\n", true},
		{"a\n…\nd\n", "a\nb\nc\n", false},
		{"…\n", "", true},
		{"", "", true},
		{"took … s (p95)\n", "took 1.2 s (p95)\n", true},
		{"took … s (p95)\n", "took 1.2 s (p99)\n", false},
		{"a…c\n", "a\nc\n", false},
		{"1.5\n", "1x5\n", false},
	} {
		if got := (Output{Text: c.shown}).Matches(c.real); got != c.want {
			t.Errorf("%q shows %q: %v", c.shown, c.real, got)
		}
	}
}

// An output that varies fixes the words, and the places of the numbers.
func TestVaryingOutputFixesTheWords(t *testing.T) {
	p, err := Read(write(t, "```sh\ndate\n```\n```output varies\n#1 took 1.25 s\n```\n"))
	if err != nil || !p.Blocks[0].Output.Varies {
		t.Fatal(p, err)
	}
	for real, want := range map[string]bool{"#12 took 0.7 s": true, "#1 took 12 s": false, "#1 took 1.25 m": false} {
		if got := p.Blocks[0].Output.Matches(real); got != want {
			t.Errorf("%q matches: %v", real, got)
		}
	}
	dated := Output{Text: "OPENED               TITLE\nNov 26 05:24:44 UTC  GPU fault\n", Varies: true}
	for real, want := range map[string]bool{"OPENED              TITLE\nDec 1 02:34:39 UTC  GPU fault": true,
		"OPENED TITLE\nDec 1 02:34:39 UTC GPU fault": false, "OPENED              TITLE\nDec 1 02:34:39 UTC  KV cache full": false} {
		if got := dated.Matches(real); got != want {
			t.Errorf("%q matches: %v", real, got)
		}
	}
}
