package casetest

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/tools/txtar"

	"paramedic/internal/text"
	"paramedic/internal/userfile"
	"paramedic/rules/catalog"
	"paramedic/state"
)

// caseFiles returns the cases of a directory, or the single given one, and the directory of the
// files that they refer to.
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

// maxFile limits the size of a case, of evidence and of a recorded page, in bytes.
const maxFile = 16 << 20

// readFile returns the content of a file. It refuses links that lead out of its directory: the
// problems of a case quote its lines, and a case may come from a pull request.
func readFile(path string) ([]byte, error) {
	raw, err := userfile.Read(filepath.Dir(path), filepath.Base(path), maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("no file %s", path)
	}
	if err != nil {
		return nil, fmt.Errorf("%s %w", path, err)
	}
	return raw, nil
}

// parts returns the files of a case. It reports unknown names, since such files would seem to be
// tested.
func (k *caseRun) parts(ar *txtar.Archive) map[string]string {
	out := map[string]string{}
	for _, f := range ar.Files {
		if _, twice := out[f.Name]; twice {
			k.fail("the case has two files %s: merge them", f.Name)
			continue
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
			k.fail("the case has an unknown file %s; %s", name, text.DidYouMean(name, known))
		}
	}
	return out
}

// A wantLine is a line of the expected results, with its number in the file.
type wantLine struct {
	n     int
	words []string
}

// wanted returns the valid lines of the expected results and reports the others. certain is false
// if a line on the number of incidents is wrong: the other lines cannot be checked then.
func (k *caseRun) wanted(s string) (out []wantLine, certain bool) {
	certain = true
	if strings.TrimSpace(s) == "" {
		k.fail("the case has no file want: add one, or the case cannot fail")
	}
	cause := false
	for i, f := range lines(s) {
		if len(f) == 0 {
			continue
		}
		l, before := wantLine{i + 1, f}, len(k.result.Failures)
		switch f[0] {
		case "incidents", "incident":
			k.numbered(l)
			certain = certain && len(k.result.Failures) == before
			cause = cause && f[0] == "incidents"
		case "looks_like":
			if !cause {
				k.fail("want:%d: write a line cause before looks_like", l.n)
			}
			k.spelt(l)
		default:
			cause = cause || f[0] == "cause"
			k.spelt(l)
		}
		if len(k.result.Failures) == before {
			out = append(out, l)
		}
	}
	return out, certain
}

// numbered reports a line without exactly one number.
func (k *caseRun) numbered(l wantLine) {
	if len(l.words) != 2 {
		k.fail("want:%d: %s needs one number", l.n, l.words[0])
		return
	}
	if n, err := strconv.Atoi(l.words[1]); err != nil || n < 0 {
		k.fail("want:%d: %q is not a number", l.n, l.words[1])
	}
}

// spelt reports wrong words of a line. Without it, a misspelt cause after "not" would always pass.
func (k *caseRun) spelt(l wantLine) {
	var what string
	var known []string
	switch l.words[0] {
	case "cause", "not":
		what, known = "cause", append(catalog.Words(k.cat.CauseTable()), string(state.Unknown))
	case "looks_like", "waits_for", "likely":
		what, known = "cause", catalog.Words(k.cat.CauseTable())
	case "symptoms":
		what, known = "symptom", catalog.Words(k.cat.SymptomTable())
	case "missing", "chain":
		what, known = "signal", catalog.Words(k.cat.Units())
	case "impact":
		what, known = "impact", []string{string(state.ImpactNone), string(state.ImpactFelt), string(state.ImpactUnknown)}
	case "pods":
		what, known = "worker", slices.Sorted(maps.Keys(k.short))
	case "nodes", "gpus":
		return
	case "title", "min_confidence":
		k.free(l)
		return
	default:
		k.fail("want:%d: unknown word %s", l.n, l.words[0])
		return
	}
	switch {
	case len(l.words) < 2 && what != "worker" && l.words[0] != "chain": // the expected list of pods or links may be empty
		k.fail("want:%d: %s needs the ID of a %s", l.n, l.words[0], what)
	case (l.words[0] == "cause" || l.words[0] == "likely") && len(l.words) > 2:
		k.fail("want:%d: %s needs one ID", l.n, l.words[0])
	case l.words[0] == "impact" && len(l.words) > 2:
		k.fail("want:%d: impact needs one word", l.n)
	}
	for _, word := range l.words[1:] {
		if !slices.Contains(known, word) {
			k.fail("want:%d: no %s %q; %s", l.n, what, word, text.DidYouMean(word, known))
		}
	}
}

// free reports errors in lines whose words are not names.
func (k *caseRun) free(l wantLine) {
	if len(l.words) < 2 {
		k.fail("want:%d: %s needs a value", l.n, l.words[0])
		return
	}
	if l.words[0] != "min_confidence" {
		return
	}
	if x, err := finite(l.words[1]); err != nil || x < 0 || x > 1 || len(l.words) > 2 {
		k.fail("want:%d: min_confidence needs one number from 0 to 1", l.n)
	}
}

// signal reports an unknown signal in a line of evidence.
func (k *caseRun) signal(at, name string) {
	if _, ok := k.cat.Units()[name]; !ok {
		k.fail("%s: no signal %q; %s", at, name, text.DidYouMean(name, catalog.Words(k.cat.Units())))
	}
}
