package casetest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"paramedic/rules/catalog"
)

// Places returns the directories with cases below root, root included, or the one case that
// root names.
func Places(root string) ([]string, error) {
	found := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || d.IsDir():
			return err
		case path == root && filepath.Ext(path) != ".txtar":
			return fmt.Errorf("%s is not a case: the name of a case must end in .txtar", path)
		case path == root:
			found[path] = true
		case filepath.Ext(path) == ".txtar":
			found[filepath.Dir(path)] = true
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("looking for cases: %w", err)
	}
	return slices.Sorted(maps.Keys(found)), nil
}

// RulesBeside returns the directory with the rules that a place's cases test: the nearest with any,
// from the place up to the named directory, and the one above that. It takes every YAML file for
// rules, so that a file with a mistake is not skipped. Above the named directory, it takes only
// files that look like rules. It returns an empty path if there are none.
func RulesBeside(place, named string) (string, error) {
	dir, top := filepath.Clean(place), filepath.Clean(named)
	if filepath.Ext(dir) == ".txtar" && dir == top {
		dir, top = filepath.Dir(dir), filepath.Dir(top)
	}
	for {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return "", fmt.Errorf("looking for rules: %w", err)
		}
		if slices.ContainsFunc(entries, func(e fs.DirEntry) bool {
			return !e.IsDir() && slices.Contains([]string{".yaml", ".yml"}, filepath.Ext(e.Name()))
		}) {
			return dir, nil
		}
		if dir == top {
			break
		}
		dir = filepath.Dir(dir)
	}
	above := filepath.Join(top, "..")
	switch has, err := catalog.HasRules(above); {
	case errors.Is(err, fs.ErrPermission): // an unreadable parent has no rules for this case
	case err != nil:
		return "", err
	case has:
		return above, nil
	}
	return "", nil
}
