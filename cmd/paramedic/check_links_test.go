package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// check refuses rules, playbooks and templates that are links out of their directory, and shows
// nothing of the file that they lead to. The links of a mounted ConfigMap are read.
func TestCheckRefusesLinksOutOfDirectories(t *testing.T) {
	book, err := os.ReadFile("../../playbooks/library/bad_rollout.md")
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{"rules/own.yaml": []byte("alerts: []\n"), "playbooks/bad_rollout.md": book,
		"templates/own.tmpl": []byte(`{{ define "paramedic.slack.footer" }}ours{{ end }}`)}
	for kind, place := range map[string]func(top, name string) string{
		"a ConfigMap":   func(_, name string) string { return "..data/" + filepath.Base(name) },
		"an outer file": func(top, _ string) string { return filepath.Join(top, "secret") },
	} {
		top := t.TempDir()
		put(t, top, "secret", []byte("s3cret: true"))
		for name, raw := range files {
			dir := filepath.Join(top, filepath.Dir(name))
			if err := os.MkdirAll(filepath.Join(dir, "..2026_11_26"), 0o700); err != nil {
				t.Fatal(err)
			}
			put(t, filepath.Join(dir, "..2026_11_26"), filepath.Base(name), raw)
			for link, target := range map[string]string{filepath.Join(dir, "..data"): "..2026_11_26",
				filepath.Join(top, name): place(top, name)} {
				if err := os.Symlink(target, link); err != nil {
					t.Fatal(err)
				}
			}
		}
		put(t, top, "paramedic.yaml", fmt.Appendf(nil, "clusters: [{name: prod}]\ntriage: {rules_dir: %s/rules}\nplaybooks: {dir: %[1]s/playbooks}\n"+
			"notify: {templates: ['%[1]s/templates/*.tmpl']}\n", top))
		var out, errs bytes.Buffer
		code := run(t.Context(), []string{"check", "--config", filepath.Join(top, "paramedic.yaml")}, &out, &errs)
		got := out.String() + errs.String()
		switch refused := strings.Count(got, "is a symbolic link that is absolute or leads out of"); {
		case kind == "a ConfigMap" && (code != 0 || refused > 0):
			t.Errorf("%s: exit code %d\n%s", kind, code, got)
		case kind != "a ConfigMap" && (code != 2 || refused != 3 || strings.Contains(got, "s3cret")):
			t.Errorf("%s: exit code %d, %d refused\n%s", kind, code, refused, got)
		}
	}
}
