package userfile

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// The kubelet mounts a ConfigMap as a folder of this moment, a link to it, and links to its files.
func TestFilesOfAMountedConfigMapAreRead(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "..2026_11_26_10_00_00.1", "rules.yaml"), "first")
	link(t, "..2026_11_26_10_00_00.1", filepath.Join(dir, "..data"))
	link(t, "..data/rules.yaml", filepath.Join(dir, "rules.yaml"))
	reads := func(want string) {
		t.Helper()
		if raw, err := Read(dir, "rules.yaml", 10); err != nil || string(raw) != want {
			t.Errorf("read %q, %v; want %q", raw, err, want)
		}
	}
	reads("first")
	write(t, filepath.Join(dir, "..2026_11_26_10_05_00.2", "rules.yaml"), "second")
	link(t, "..2026_11_26_10_05_00.2", filepath.Join(dir, "..data_tmp"))
	if err := os.Rename(filepath.Join(dir, "..data_tmp"), filepath.Join(dir, "..data")); err != nil {
		t.Fatal(err)
	}
	reads("second")

	// The directory itself may be a link: the operator named it.
	other := filepath.Join(t.TempDir(), "rules")
	link(t, dir, other)
	if raw, err := Read(other, "rules.yaml", 10); err != nil || string(raw) != "second" {
		t.Errorf("through a linked directory: %q, %v", raw, err)
	}
}

func TestFilesOutsideAreRefused(t *testing.T) {
	top := t.TempDir()
	dir := filepath.Join(top, "rules")
	write(t, filepath.Join(top, "secret"), "xoxb-secret")
	write(t, filepath.Join(dir, "large.yaml"), "01234567890")
	link(t, filepath.Join(top, "secret"), filepath.Join(dir, "absolute.yaml"))
	link(t, "../secret", filepath.Join(dir, "relative.yaml"))
	link(t, "..", filepath.Join(dir, "up"))
	link(t, "up/secret", filepath.Join(dir, "indirect.yaml"))
	link(t, "missing", filepath.Join(dir, "broken.yaml"))
	if err := os.Mkdir(filepath.Join(dir, "folder.yaml"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, "pipe.yaml"), 0o600); err != nil { // reading it would wait for ever
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"absolute.yaml": "is a symbolic link that is absolute or leads out of " + dir,
		"relative.yaml": "leads out of " + dir + ", which is refused: put the file itself there",
		"indirect.yaml": "leads out of " + dir,
		"broken.yaml":   "cannot be read: ",
		"missing.yaml":  "cannot be read: ",
		"folder.yaml":   "is no regular file",
		"pipe.yaml":     "is no regular file",
		"large.yaml":    "is too large: it has more than 10 bytes",
	} {
		raw, err := Read(dir, name, 10)
		if err == nil || !strings.Contains(err.Error(), want) || len(raw) > 0 {
			t.Errorf("%s: read %q, %v; want %q", name, raw, err, want)
		}
	}
}
