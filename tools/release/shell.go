package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
)

// manPages returns the committed man pages, with the version and the month of the commit.
func (r *release) manPages() ([]file, error) {
	paths, err := filepath.Glob(filepath.Join(r.root, "docs/man/*.1"))
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return nil, fmt.Errorf("%s/docs/man has no man pages: run make generate", r.root)
	}
	heading := fmt.Appendf(nil, `"1" "%s" "paramedic %s"`, r.created.Format("January 2006"), r.version)
	var out []file
	for _, path := range paths {
		page, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		dated := bytes.Replace(page, []byte(`"1" "" ""`), heading, 1)
		if bytes.Equal(dated, page) {
			return nil, fmt.Errorf("%s has no place for the version in its heading .TH", path)
		}
		out = append(out, file{name: "man/man1/" + filepath.Base(path), mode: 0o644, body: dated})
	}
	return out, nil
}

// completions returns the scripts that complete the command line in a shell. They ask the installed
// binary at each completion, so one script fits all platforms.
func (r *release) completions(binary string) ([]file, error) {
	var out []file
	for _, c := range []struct{ shell, name string }{{"bash", "paramedic.bash"}, {"zsh", "_paramedic"}, {"fish", "paramedic.fish"}} {
		script, err := exec.Command(binary, "completion", c.shell).Output()
		if err != nil {
			return nil, fmt.Errorf("printing the completion for %s: %w", c.shell, err)
		}
		out = append(out, file{name: "completions/" + c.name, mode: 0o644, body: script})
	}
	return out, nil
}

// ownPlatform returns the platform of this machine, whose binaries can run here.
func ownPlatform() platform { return platform{runtime.GOOS, runtime.GOARCH} }
