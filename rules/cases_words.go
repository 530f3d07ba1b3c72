package rules

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/tools/txtar"

	"paramedic/state"
)

// caseFiles are the cases of a directory, or the one that is named, and the directory that the files which they name lie in.
func caseFiles(place string) (files []string, dir string, err error) {
	info, err := os.Stat(place)
	if err != nil {
		return nil, "", fmt.Errorf("listing cases: %w", err)
	}
	if !info.IsDir() {
		return []string{place}, filepath.Dir(place), nil
	}
	entries, err := os.ReadDir(place)
	if err != nil {
		return nil, "", fmt.Errorf("listing cases: %w", err)
	}
	for _, e := range entries {
		if !e.IsDir() && filepath.Ext(e.Name()) == ".txtar" {
			files = append(files, filepath.Join(place, e.Name()))
		}
	}
	return files, place, nil
}

// parts are the files of a case. One that nothing reads would be taken for something that was tested.
func (k *caseRun) parts(ar *txtar.Archive) (map[string]string, error) {
	out := map[string]string{}
	for _, f := range ar.Files {
		if _, twice := out[f.Name]; twice {
			return nil, fmt.Errorf("the case has two files %s: put them together", f.Name)
		}
		out[f.Name] = string(f.Data)
	}
	known := []string{"alerts.json", "workers", "pages", "evidence", "want"}
	for _, f := range lines(out["pages"]) {
		if len(f) > 1 {
			known = append(known, f[1])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(out)) {
		if !slices.Contains(known, name) {
			return nil, fmt.Errorf("the case has a file %s, which nothing reads; %s", name, meant(name, known))
		}
	}
	return out, nil
}

// labelled checks the alerts of a case: one that names nothing is no alert.
func labelled(alerts []alertJSON) error {
	for i, a := range alerts {
		if len(a.Labels) == 0 {
			return fmt.Errorf(`alert %d has no labels: give it at least {"labels": {"alertname": "…"}}`, i+1)
		}
	}
	return nil
}

// misspelt finds words in the lines of what has to come out that mean nothing: a cause that does not exist is never named, so that it may be
// demanded in vain, or "not" without effect.
func (k *caseRun) misspelt(s string) {
	causes := append(words(k.cat.byID), string(state.Unknown))
	for i, f := range lines(s) {
		if len(f) == 0 {
			continue
		}
		var what string
		var known []string
		switch f[0] {
		case "cause", "not", "looks_like":
			what, known = "cause", causes
		case "symptoms":
			what, known = "symptom", words(k.cat.symptoms)
		case "missing":
			what, known = "signal", words(k.cat.units)
		case "pods":
			what, known = "worker", slices.Sorted(maps.Keys(k.short))
		case "title", "min_confidence":
			if len(f) < 2 {
				k.fail("want:%d: %s of what? Without a word it says nothing", i+1, f[0])
			}
			continue
		default:
			continue
		}
		if len(f) < 2 && what != "worker" { // no pods at all may be what has to come out
			k.fail("want:%d: %s of which %s? Without a word it says nothing", i+1, f[0], what)
		}
		for _, word := range f[1:] {
			if !slices.Contains(known, word) {
				k.fail("want:%d: no %s %q; %s", i+1, what, word, meant(word, known))
			}
		}
	}
}

// signal says what is wrong with a signal's name in a line of evidence.
func (k *caseRun) signal(name string) error {
	if _, ok := k.cat.units[name]; !ok {
		return fmt.Errorf("no signal %q; %s", name, meant(name, words(k.cat.units)))
	}
	return nil
}
