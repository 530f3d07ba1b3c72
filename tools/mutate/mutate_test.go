package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"
)

// tried returns a run of the check on a copy of the module in testdata.
func tried(t *testing.T) *run {
	t.Helper()
	root := t.TempDir()
	if err := os.CopyFS(root, os.DirFS("testdata")); err != nil {
		t.Fatal(err)
	}
	r := &run{target: target{dir: "guard"}, root: root, pick: regexp.MustCompile(""), workers: 2, slow: time.Minute}
	if err := r.all(); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestUnnoticedMutantsSurvive(t *testing.T) {
	r := tried(t)
	var survive []string
	for _, m := range r.mutants {
		if !r.verdicts[m.key] {
			survive = append(survive, m.key)
		}
	}
	want := []string{`guard May {done >= most} >`, `guard Say {case "up" of now} false`}
	if !slices.Equal(survive, want) {
		t.Errorf("survive: %q", survive)
	}
	if len(r.mutants) != 12 {
		for _, m := range r.mutants {
			t.Log(m.key)
		}
		t.Errorf("%d mutants", len(r.mutants))
	}
	for _, f := range []string{"guard/guard.go", "guard/guard_test.go"} {
		was, err1 := os.ReadFile(filepath.Join("testdata", f))
		is, err2 := os.ReadFile(filepath.Join(r.root, f))
		if err1 != nil || err2 != nil || string(was) != string(is) {
			t.Errorf("%s was changed (%v, %v)", f, err1, err2)
		}
	}
}

func TestListOfSurvivorsHasToFit(t *testing.T) {
	r := tried(t)
	up, bound := `guard Say {case "up" of now} false`, `guard May {done >= most} >`
	if !r.report(map[string]string{up: "x", bound: "x"}) {
		t.Error("a list that explains all is refused")
	}
	if r.report(map[string]string{up: "x"}) {
		t.Error("a survivor that is not explained is taken")
	}
	if r.report(map[string]string{up: "x", bound: "x", `guard May {done >= most} false`: "x"}) {
		t.Error("an explanation of what is noticed is taken")
	}
}

func TestExplanationsAreRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "survivors.txt")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("# why\n\na f {x > 0} >=\n\tnever 0,\n\tas f is called\nb g {y} true\n\tequal\n")
	got, err := readExplained(path)
	if err != nil || len(got) != 2 || got["a f {x > 0} >="] != "never 0, as f is called" {
		t.Errorf("%q %v", got, err)
	}
	write("a f {x > 0} >=\n")
	if _, err := readExplained(path); err == nil {
		t.Error("a survivor without an explanation is taken")
	}
}
