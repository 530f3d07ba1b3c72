package main

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	classifier "github.com/google/licenseclassifier/v2"
)

// A release holds the inputs that all outputs share.
type release struct {
	root    string    // of the repository
	version string    // such as v1.2.3
	created time.Time // of every file in the output
	work    string    // for binaries

	classifier *classifier.Classifier
	modules    map[string]module // what read found so far, by folder
}

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) == 0 {
		return fmt.Errorf("name what to build: image, archives or licences")
	}
	f := flag.NewFlagSet("release", flag.ContinueOnError)
	root := f.String("root", "../..", "the repository's `folder`")
	version := f.String("version", "devel", "the `version` that the binary prints")
	out := f.String("out", "", "the output's `folder`; it is replaced")
	if err := f.Parse(args[1:]); err != nil {
		return err
	}
	created, err := commitTime(*root)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "paramedic-release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	r := &release{root: *root, version: *version, created: created, work: work}
	if args[0] == "licences" {
		return r.licences()
	}
	if *out == "" {
		return fmt.Errorf("name the output's folder with -out")
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	switch args[0] {
	case "image":
		return r.image(*out)
	case "archives":
		return r.archives(*out, archivePlatforms)
	}
	return fmt.Errorf("%q is none of image, archives and licences", args[0])
}

// commitTime returns the time that stands in every output: $SOURCE_DATE_EPOCH, or the time of the
// commit.
func commitTime(root string) (time.Time, error) {
	raw := os.Getenv("SOURCE_DATE_EPOCH")
	if raw == "" {
		b, err := exec.Command("git", "-C", root, "log", "-1", "--format=%ct").Output()
		if err != nil {
			return time.Time{}, fmt.Errorf("reading the time of the commit: %w; outside a clone, set SOURCE_DATE_EPOCH", err)
		}
		raw = strings.TrimSpace(string(b))
	}
	seconds, err := strconv.ParseInt(raw, 10, 64)
	if err != nil {
		return time.Time{}, fmt.Errorf("SOURCE_DATE_EPOCH must be seconds since 1970: %w", err)
	}
	return time.Unix(seconds, 0).UTC(), nil
}

// A platform is an operating system and a processor architecture that binaries are built for.
type platform struct{ os, arch string }

func (p platform) String() string { return p.os + "_" + p.arch }

// compile builds the binary for a platform, once, and returns its path.
func (r *release) compile(p platform) (string, error) {
	path, err := filepath.Abs(filepath.Join(r.work, p.String(), "paramedic"))
	if err != nil {
		return "", err
	}
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", path,
		"-ldflags", "-s -w -X paramedic/cmd/paramedic/service.Version="+r.version, "./cmd/paramedic")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+p.os, "GOARCH="+p.arch)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building for %s: %w\n%s", p, err, out)
	}
	return path, nil
}
