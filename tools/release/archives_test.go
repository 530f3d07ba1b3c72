package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// tagged clones the repository and tags its newest commit.
func tagged(t *testing.T, tag string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "clone")
	command(t, ".", "git", "clone", "--quiet", "../..", dir)
	command(t, dir, "git", "tag", tag)
	return dir
}

// command runs a program in a folder and returns what it prints.
func command(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, &stdout, &stderr)
	}
	return stdout.String()
}

// The make target runs for minutes. So this test takes the version from the commands that make
// would run, and builds the archive of this machine only.
func TestTagIsTheVersionOfItsArchives(t *testing.T) {
	clone := tagged(t, "v0.3.0")
	plan := command(t, clone, "make", "--dry-run", "release")
	for _, step := range []string{"archives", "image"} {
		if !regexp.MustCompile(`go run \. ` + step + ` -root \.\./\.\. -version v0\.3\.0 `).MatchString(plan) {
			t.Errorf("make release would not build the %s of v0.3.0:\n%s", step, plan)
		}
	}
	r := testRelease(t)
	r.root, r.version = clone, "v0.3.0"
	out := t.TempDir()
	if err := r.archives(out, []platform{ownPlatform()}); err != nil {
		t.Fatal(err)
	}
	command(t, out, "sha256sum", "--check", "--strict", "SHA256SUMS")
	if sums := string(must(os.ReadFile(filepath.Join(out, "SHA256SUMS")))(t)); strings.Count(sums, "\n") != 2 {
		t.Errorf("the checksums are not those of the archive and its bill of materials:\n%s", sums)
	}
	top := "paramedic_v0.3.0_" + ownPlatform().String()
	command(t, out, "tar", "-xzf", top+".tar.gz")
	checkArchive(t, filepath.Join(out, top))
}

// checkArchive checks an unpacked archive of v0.3.0.
func checkArchive(t *testing.T, dir string) {
	t.Helper()
	if got := command(t, dir, "./paramedic", "version"); !strings.HasPrefix(got, "paramedic v0.3.0 ") {
		t.Errorf("version prints %q", got)
	}
	for _, name := range []string{"LICENSE", "THIRD_PARTY_LICENSES", "paramedic.yaml", "paramedic.service", "man/man1/paramedic.1",
		"man/man1/paramedic-serve.1", "man/man1/paramedic-lab-run.1", "completions/paramedic.bash", "completions/_paramedic", "completions/paramedic.fish"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Size() == 0 {
			t.Errorf("the archive lacks %s: %v", name, err)
		}
	}
	for shell, script := range map[string]string{"bash": "completions/paramedic.bash", "zsh": "completions/_paramedic", "fish": "completions/paramedic.fish"} {
		if _, err := exec.LookPath(shell); err == nil {
			command(t, dir, shell, "-n", script)
		}
	}
	page := filepath.Join(dir, "man/man1/paramedic-serve.1")
	for _, reader := range [][]string{{"man", "-l", page}, {"mandoc", "-T", "utf8", page}} {
		if _, err := exec.LookPath(reader[0]); err != nil {
			continue
		}
		text := regexp.MustCompile(`.\x08`).ReplaceAllString(command(t, dir, reader[0], reader[1:]...), "")
		for _, want := range []string{"paramedic-serve - Run the bot", "--config", "paramedic v0.3.0", "January 2026", "paramedic serve --config paramedic.yaml"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s shows no %q:\n%s", reader[0], want, text)
			}
		}
	}
}
