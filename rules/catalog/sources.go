package catalog

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"

	"paramedic/internal/strictyaml"
	"paramedic/internal/userfile"
)

// A source is one file with its origin.
type source struct {
	name string
	data []byte
	own  bool // from the user
}

// sources returns the built-in files, then the user's, each sorted by name.
func sources(dir string) ([]source, error) {
	var out []source
	names, err := fs.Glob(embedded, "*.yaml")
	if err != nil {
		return nil, fmt.Errorf("listing the built-in catalogue: %w", err)
	}
	for _, name := range names {
		data, err := embedded.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading the built-in catalogue: %w", err)
		}
		out = append(out, source{name: "catalog/" + name, data: data})
	}
	if dir == "" {
		return out, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the rules directory: %w", err)
	}
	for _, e := range entries {
		if !isYAML(e) {
			continue
		}
		name := filepath.Join(dir, e.Name())
		data, err := userfile.Read(dir, e.Name(), maxFile)
		if err != nil {
			return nil, fmt.Errorf("rules file %s %w", name, err)
		}
		out = append(out, source{name: name, data: data, own: true})
	}
	return out, nil
}

func sortProblems(ps []Problem) {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.File != b.File {
			if a.File < b.File {
				return -1
			}
			return 1
		}
		return a.Line - b.Line
	})
}

// HasRules reports whether a directory has a rules file: a file with a top-level key of rules
// files.
func HasRules(dir string) (bool, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false, fmt.Errorf("looking for rules: %w", err)
	}
	for _, e := range entries {
		if !isYAML(e) {
			continue
		}
		data, err := userfile.Read(dir, e.Name(), maxFile)
		if err != nil {
			continue // unreadable as a rules file; the user did not name it, so it is no error
		}
		keys := strictyaml.Keys(data)
		for f := range reflect.TypeFor[fileYAML]().Fields() {
			if slices.Contains(keys, f.Tag.Get("yaml")) {
				return true, nil
			}
		}
	}
	return false, nil
}

// isYAML reports whether a directory entry has the extension of a rules file.
func isYAML(e os.DirEntry) bool {
	ext := filepath.Ext(e.Name())
	return !e.IsDir() && (ext == ".yaml" || ext == ".yml")
}
