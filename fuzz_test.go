package paramedic_test

import (
	"go/ast"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Every fuzz target has a corpus that is kept, so that each test run tries inputs that once were or
// could be harmful.
func TestFuzzTargetsKeepACorpus(t *testing.T) {
	targets := 0
	for _, src := range goSources(t) {
		for _, decl := range src.file.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok || !src.test || fn.Recv != nil || !strings.HasPrefix(fn.Name.Name, "Fuzz") {
				continue
			}
			targets++
			dir := filepath.Join(filepath.Dir(src.path), "testdata", "fuzz", fn.Name.Name)
			if kept, err := os.ReadDir(dir); err != nil || len(kept) == 0 {
				t.Errorf("%s: %s has no input in %s", src.path, fn.Name.Name, dir)
			}
		}
	}
	if targets < 14 {
		t.Errorf("only %d fuzz targets were found", targets)
	}
}
