package main

import (
	"bytes"
	"debug/buildinfo"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"

	classifier "github.com/google/licenseclassifier/v2"
	"github.com/google/licenseclassifier/v2/assets"
)

// allowed lists the licences that a linked module may have. Each permits to ship the binary under
// Apache-2.0 with the licence's text beside it.
var allowed = []string{"Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MPL-2.0", "Unlicense", "CC0-1.0"}

// A module is one module that a binary links.
type module struct {
	path, version, sum string
	texts              []file // licence files
	licences           []string
}

// licenceName matches the names of files that hold a licence or a notice.
var licenceName = regexp.MustCompile(`(?i)^(licen[cs]e|copying|notice)[a-z0-9._-]*$`)

// licences prints the licence of each module that the binary links on this platform. It returns an
// error if one is missing or not allowed.
func (r *release) licences() error {
	binary, err := r.compile(platform{"linux", "amd64"})
	if err != nil {
		return err
	}
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return err
	}
	linked, err := r.linked(info)
	if err != nil {
		return err
	}
	for _, m := range linked {
		fmt.Printf("%-60s %-45s %s\n", m.path, m.version, strings.Join(m.licences, ", "))
	}
	return refused(linked)
}

// refused returns an error that names every module with a licence that is not allowed, or nil.
func refused(linked []module) error {
	var wrong []error
	for _, m := range linked {
		wrong = append(wrong, m.refused())
	}
	return errors.Join(wrong...)
}

// refused returns an error unless every licence of the module is allowed.
func (m module) refused() error {
	if len(m.licences) == 0 {
		return fmt.Errorf("%s %s has no licence that the classifier knows: read it, or drop the module", m.path, m.version)
	}
	for _, l := range m.licences {
		if !slices.Contains(allowed, l) {
			return fmt.Errorf("%s %s has the licence %s, which is not in the list allowed: drop the module", m.path, m.version, l)
		}
	}
	return nil
}

// licenceFiles returns the product's licence and those of all modules that a binary links, as their
// licences ask for. It returns an error if one is not allowed, so nothing is shipped with it.
func (r *release) licenceFiles(binary string) ([]file, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return nil, err
	}
	linked, err := r.linked(info)
	if err != nil {
		return nil, err
	}
	if err := refused(linked); err != nil {
		return nil, err
	}
	own, err := os.ReadFile(filepath.Join(r.root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	out := []file{{name: "LICENSE", mode: 0o644, body: own}}
	var all bytes.Buffer
	for _, m := range linked {
		for _, t := range m.texts {
			fmt.Fprintf(&all, "==== %s %s: %s\n\n%s\n\n", m.path, m.version, t.name, bytes.TrimSpace(t.body))
		}
	}
	return append(out, file{name: "THIRD_PARTY_LICENSES", mode: 0o644, body: all.Bytes()}), nil
}

// linked returns the modules of a binary's build information with their licences, by path.
func (r *release) linked(info *debug.BuildInfo) ([]module, error) {
	if len(info.Deps) == 0 {
		return nil, nil
	}
	dirs, err := r.moduleDirs()
	if err != nil {
		return nil, err
	}
	var out []module
	for _, d := range info.Deps {
		if d.Replace != nil {
			d = d.Replace
		}
		m := module{path: d.Path, version: d.Version, sum: d.Sum}
		dir, ok := dirs[d.Path]
		if !ok {
			return nil, fmt.Errorf("the binary links %s, which go.mod does not name: build it from this commit", d.Path)
		}
		if m.texts, m.licences, err = r.read(dir); err != nil {
			return nil, err
		}
		out = append(out, m)
	}
	slices.SortFunc(out, func(a, b module) int { return strings.Compare(a.path, b.path) })
	return out, nil
}

// read returns the licence files in a module's root, and the licences that they hold.
func (r *release) read(dir string) ([]file, []string, error) {
	if known, ok := r.modules[dir]; ok {
		return known.texts, known.licences, nil
	}
	if r.modules == nil {
		c, err := assets.DefaultClassifier()
		if err != nil {
			return nil, nil, fmt.Errorf("loading the known licences: %w", err)
		}
		r.modules, r.classifier = map[string]module{}, c
	}
	texts, err := licenceTexts(dir)
	if err != nil {
		return nil, nil, err
	}
	r.modules[dir] = module{texts: texts, licences: identify(r.classifier, texts)}
	return texts, r.modules[dir].licences, nil
}

// moduleDirs returns the folder of each module of the build, by path.
func (r *release) moduleDirs() (map[string]string, error) {
	cmd := exec.Command("go", "list", "-m", "-json", "all")
	cmd.Dir = r.root
	raw, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("listing the modules: %w", err)
	}
	out := map[string]string{}
	for dec := json.NewDecoder(bytes.NewReader(raw)); ; {
		var m struct{ Path, Dir string }
		if err := dec.Decode(&m); errors.Is(err, io.EOF) {
			return out, nil
		} else if err != nil {
			return nil, err
		}
		out[m.Path] = m.Dir
	}
}

// licenceTexts returns the licences and notices in a module's root.
func licenceTexts(dir string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var out []file
	for _, e := range entries {
		if e.IsDir() || !licenceName.MatchString(e.Name()) {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			return nil, err
		}
		out = append(out, file{name: e.Name(), body: body})
	}
	return out, nil
}

// identify returns the SPDX names of the licences in some texts.
func identify(c *classifier.Classifier, texts []file) []string {
	var out []string
	for _, t := range texts {
		for _, m := range c.Match(c.Normalize(t.body)).Matches {
			if m.MatchType == "License" {
				out = append(out, m.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}
