package main

import (
	"bufio"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A target is a package to mutate, in all of its files or in those named. Its own tests must
// notice, or those of the packages in by.
type target struct {
	dir   string
	files []string
	by    []string
}

var targets = []target{
	{dir: "remediate"},
	{dir: "remediate/cluster", by: []string{"remediate/guard", "remediate"}},
	{dir: "remediate/engineflag", by: []string{"remediate/engineflag", "remediate/guard", "remediate"}},
	{dir: "remediate/guard", by: []string{"remediate/guard", "remediate"}},
	{dir: "remediate/policy", by: []string{"remediate/policy", "remediate/guard", "remediate"}},
	{dir: "remediate/verify", by: []string{"remediate/verify", "remediate/guard", "remediate"}},
	{dir: "remediate/kube"},
	{dir: "state", files: []string{"action.go"}, by: []string{"state", "state/fold"}},
	{dir: "state/fold", files: []string{"action.go"}},
	{dir: "webhook/api", files: []string{"writes.go"}},
}

func main() {
	root := flag.String("root", "../..", "the repository")
	only := flag.String("only", "", "regular expression of the mutants to run")
	workers := flag.Int("workers", 2, "mutants at a time")
	slow := flag.Duration("slow", 5*time.Second, "leave out tests that take longer than this alone")
	list := flag.String("explained", "survivors.txt", "the file of explained survivors")
	flag.Parse()
	explained, err := readExplained(*list)
	if err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(2)
	}
	pick := regexp.MustCompile(*only)
	ok := true
	for _, t := range targets {
		if flag.NArg() > 0 && !slices.Contains(flag.Args(), t.dir) {
			maps.DeleteFunc(explained, func(key, _ string) bool { return strings.HasPrefix(key, t.dir+" ") })
			continue
		}
		r := &run{target: t, root: *root, pick: pick, workers: *workers, slow: *slow}
		if err := r.all(); err != nil {
			fmt.Fprintf(os.Stderr, "mutate: %s: %v\n", t.dir, err)
			os.Exit(2)
		}
		ok = r.report(explained) && ok
	}
	for _, key := range slices.Sorted(maps.Keys(explained)) {
		if pick.MatchString(key) {
			fmt.Println("survivors.txt explains a mutant that does not exist: remove it:", key)
			ok = false
		}
	}
	if !ok {
		os.Exit(1)
	}
}

// readExplained parses the list of explained survivors: a line for each mutant, and indented lines
// with the reason.
func readExplained(path string) (map[string]string, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	out, last := map[string]string{}, ""
	for line := range strings.Lines(string(raw)) {
		text := strings.TrimSpace(line)
		switch {
		case text == "" || strings.HasPrefix(line, "#"):
		case strings.HasPrefix(line, "\t"):
			out[last] = strings.TrimSpace(out[last] + " " + text)
		default:
			last = text
			out[last] = ""
		}
	}
	for _, key := range slices.Sorted(maps.Keys(out)) {
		if out[key] == "" {
			return nil, fmt.Errorf("%s: %s has no reason: add an indented line", path, key)
		}
	}
	return out, nil
}

// A suite is the test binary of one package, with the mutants in it.
type suite struct{ dir, bin string }

// A test is one test of a suite.
type test struct {
	suite suite
	name  string
}

// A run mutates one package.
type run struct {
	target
	root    string
	pick    *regexp.Regexp
	workers int
	slow    time.Duration

	suites  []suite
	mutants []mutant
	tests   map[int][]test // by mutant: the tests in which it decides differently
	quick   map[test]bool  // tests that run first

	mu       sync.Mutex
	verdicts map[string]bool // by mutant: noticed
	cache    string
}

func (r *run) all() error {
	work, err := filepath.Abs(filepath.Join(r.root, ".cache/mutate", strings.ReplaceAll(r.dir, "/", "-")))
	if err != nil {
		return err
	}
	if err := r.build(work); err != nil {
		return err
	}
	if err := r.observe(work); err != nil {
		return err
	}
	return r.judge(work)
}

// build compiles the test binaries with all mutants.
func (r *run) build(work string) error {
	dir, err := filepath.Abs(filepath.Join(r.root, r.dir))
	if err != nil {
		return err
	}
	if err := os.MkdirAll(work, 0o755); err != nil {
		return err
	}
	if r.files == nil {
		paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
		if err != nil {
			return err
		}
		for _, p := range paths {
			if !strings.HasSuffix(p, "_test.go") {
				r.files = append(r.files, filepath.Base(p))
			}
		}
	}
	rw := &rewriter{pkg: r.dir, fset: token.NewFileSet(), seen: map[string]int{}}
	replace := map[string]string{filepath.Join(dir, "mutant_support.go"): filepath.Join(work, "mutant_support.go")}
	if err := os.WriteFile(filepath.Join(work, "mutant_support.go"), fmt.Appendf(nil, support, filepath.Base(r.dir)),
		0o644); err != nil {
		return err
	}
	for _, name := range r.files {
		text, err := rw.file(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		replace[filepath.Join(dir, name)] = filepath.Join(work, name)
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(work, "overlay.json"), overlay, 0o644); err != nil {
		return err
	}
	r.mutants, r.suites = rw.mutants, nil
	sum := sha256.New()
	for i, by := range r.noticers() {
		bin := filepath.Join(work, fmt.Sprintf("tests-%d", i))
		c := exec.Command("go", "test", "-c", "-trimpath", "-vet=off", "-overlay", filepath.Join(work, "overlay.json"),
			"-o", bin, "./"+by)
		c.Dir, c.Env = r.root, append(os.Environ(), "CGO_ENABLED=0")
		if out, err := c.CombinedOutput(); err != nil {
			return fmt.Errorf("building the mutants: %w\n%s", err, out)
		}
		built, err := os.ReadFile(bin)
		if err != nil {
			return err
		}
		sum.Write(built)
		r.suites = append(r.suites, suite{dir: by, bin: bin})
	}
	r.cache = filepath.Join(work, fmt.Sprintf("verdicts-%x.json", sum.Sum(nil)))
	return nil
}

// noticers returns the packages whose tests must notice.
func (r *run) noticers() []string {
	if len(r.by) == 0 {
		return []string{r.dir}
	}
	return r.by
}

// test runs some of a suite's tests and reports whether they pass.
func (r *run) test(of suite, pattern string, most time.Duration, env ...string) (bool, []byte, error) {
	ctx, cancel := context.WithTimeout(context.Background(), most+10*time.Second)
	defer cancel()
	c := exec.CommandContext(ctx, of.bin, "-test.run", pattern, "-test.failfast", "-test.timeout", most.String())
	c.Dir, c.Env = filepath.Join(r.root, of.dir), append(os.Environ(), env...)
	out, err := c.CombinedOutput()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return false, out, nil
	}
	return err == nil, out, err
}

// observe runs every test alone and records the mutants that decide differently in it.
func (r *run) observe(work string) error {
	r.tests, r.quick = map[int][]test{}, map[test]bool{}
	var left []string
	for _, of := range r.suites {
		c := exec.Command(of.bin, "-test.list", "^(Test|Fuzz)")
		c.Dir = filepath.Join(r.root, of.dir)
		names, err := c.Output()
		if err != nil {
			return err
		}
		for _, name := range strings.Fields(string(names)) {
			took, err := r.note(test{of, name}, filepath.Join(work, "noted"))
			if err != nil {
				return err
			}
			if took > r.slow {
				left = append(left, fmt.Sprintf("%s (%s)", name, took.Round(time.Second)))
			}
		}
	}
	fmt.Printf("%s: %d mutants, %d tests; left out as slow: %s\n", r.dir, len(r.mutants), len(r.quick),
		cmp.Or(strings.Join(left, ", "), "none"))
	return nil
}

// note runs one test without any mutant, records the mutants that would decide differently in it,
// and returns how long it took. It records nothing for a slow test.
func (r *run) note(t test, noted string) (time.Duration, error) {
	if err := os.RemoveAll(noted); err != nil {
		return 0, err
	}
	began := time.Now()
	pass, out, err := r.test(t.suite, "^"+t.name+"$", 5*time.Minute, "MUTANT_LOG="+noted)
	if err != nil {
		return 0, err
	}
	if !pass {
		return 0, fmt.Errorf("%s fails without any mutant:\n%s", t.name, out)
	}
	took := time.Since(began)
	if took > r.slow {
		return took, nil
	}
	r.quick[t] = took < r.slow/20
	ids, err := os.ReadFile(noted)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return 0, err
	}
	for _, id := range strings.Fields(string(ids)) {
		n, err := strconv.Atoi(id)
		if err != nil {
			return 0, err
		}
		r.tests[n] = append(r.tests[n], t)
	}
	return took, nil
}

// judge runs each mutant against the tests in which it decides differently.
func (r *run) judge(work string) error {
	r.verdicts = map[string]bool{}
	if raw, err := os.ReadFile(r.cache); err == nil {
		for line := range strings.Lines(string(raw)) {
			if verdict, key, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
				r.verdicts[key] = verdict == "noticed"
			}
		}
	} else if old, err := filepath.Glob(filepath.Join(work, "verdicts-*")); err == nil {
		for _, f := range old {
			os.Remove(f)
		}
	}
	keep, err := os.OpenFile(r.cache, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	defer keep.Close()
	line := bufio.NewWriter(keep)
	todo := make(chan mutant)
	var wg sync.WaitGroup
	var first error
	for range r.workers {
		wg.Go(func() {
			for m := range todo {
				noticed, err := r.noticed(m)
				r.mu.Lock()
				if err != nil {
					first = cmp.Or(first, err)
				} else {
					r.verdicts[m.key] = noticed
					fmt.Fprintln(line, map[bool]string{true: "noticed", false: "survives"}[noticed], m.key)
					line.Flush()
				}
				r.mu.Unlock()
			}
		})
	}
	for _, m := range r.mutants {
		r.mu.Lock()
		_, known := r.verdicts[m.key]
		r.mu.Unlock()
		if !known && r.pick.MatchString(m.key) {
			todo <- m
		}
	}
	close(todo)
	wg.Wait()
	return first
}

func (r *run) noticed(m mutant) (bool, error) {
	for _, quick := range []bool{true, false} {
		for _, of := range r.suites {
			var names []string
			for _, t := range r.tests[m.id] {
				if t.suite == of && r.quick[t] == quick {
					names = append(names, t.name)
				}
			}
			if len(names) == 0 {
				continue
			}
			most := 30*time.Second + time.Duration(len(names))*r.slow
			if pass, _, err := r.test(of, "^("+strings.Join(names, "|")+")$", most,
				fmt.Sprint("MUTANT=", m.id)); !pass || err != nil {
				return !pass, err
			}
		}
	}
	return false, nil
}

// report prints the survivors and removes the mutants that it met from explained. It reports
// whether the list of explanations is right.
func (r *run) report(explained map[string]string) bool {
	ok, noticed, why := true, 0, 0
	for _, m := range r.mutants {
		if !r.pick.MatchString(m.key) {
			continue
		}
		_, listed := explained[m.key]
		delete(explained, m.key)
		switch {
		case r.verdicts[m.key] && listed:
			fmt.Printf("survivors.txt explains a mutant that a test notices: remove it: %s\n", m.key)
			ok = false
		case r.verdicts[m.key]:
			noticed++
		case listed:
			why++
		default:
			fmt.Printf("survives: %s\t(%s, in %d tests)\n", m.key, m.line, len(r.tests[m.id]))
			ok = false
		}
	}
	fmt.Printf("%s: %d noticed, %d explained\n", r.dir, noticed, why)
	return ok
}
