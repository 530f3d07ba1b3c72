package paramedic_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// Widest lines, in columns with tabs of four. Raw strings, struct tags and directives may be wider.
const (
	commentColumns = 100
	codeColumns    = 140
	testColumns    = 200
	nameLength     = 45 // of a test, without "Test"
)

// A goSource is a parsed Go file of any module of the repository.
type goSource struct {
	path  string
	test  bool
	fset  *token.FileSet
	file  *ast.File
	lines []string
}

// goSources parses every Go file, also those of the modules that only build or test.
func goSources(t *testing.T) []goSource {
	t.Helper()
	var out []goSource
	for _, path := range tracked(t, ".go") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fset := token.NewFileSet()
		parsed, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, goSource{
			path: path, test: strings.HasSuffix(path, "_test.go"), fset: fset, file: parsed,
			lines: strings.Split(string(text), "\n"),
		})
	}
	return out
}

// tracked lists the files below the root that end in ext, but for data and hidden folders.
func tracked(t *testing.T, ext string) []string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(".", func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ext):
			out = append(out, filepath.ToSlash(path))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// width returns the columns of a line with tabs of four.
func width(line string) int {
	return utf8.RuneCountInString(line) + 3*strings.Count(line, "\t")
}

// literals returns the lines that belong to raw strings or struct tags.
func (s goSource) literals() map[int]bool {
	out := map[int]bool{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING && strings.HasPrefix(lit.Value, "`") {
			for line := s.fset.Position(lit.Pos()).Line; line <= s.fset.Position(lit.End()).Line; line++ {
				out[line] = true
			}
		}
		return true
	})
	return out
}

// comments returns the lines that hold nothing but a comment.
func (s goSource) comments() map[int]bool {
	out := map[int]bool{}
	for _, group := range s.file.Comments {
		for _, c := range group.List {
			for line := s.fset.Position(c.Pos()).Line; line <= s.fset.Position(c.End()).Line; line++ {
				text := strings.TrimSpace(s.lines[line-1])
				if strings.HasPrefix(text, "//") || strings.HasPrefix(text, "/*") || strings.HasPrefix(c.Text, "/*") {
					out[line] = !strings.HasPrefix(text, "//go:") && !strings.HasPrefix(text, "//nolint")
				}
			}
		}
	}
	return out
}

func TestLinesFitTheScreen(t *testing.T) {
	for _, s := range goSources(t) {
		literals, comments := s.literals(), s.comments()
		for i, line := range s.lines {
			limit := codeColumns
			switch {
			case literals[i+1]:
				continue
			case comments[i+1]:
				limit = commentColumns
			case s.test:
				limit = testColumns
			}
			if w := width(line); w > limit {
				t.Errorf("%s:%d: %d columns, at most %d", s.path, i+1, w, limit)
			}
		}
	}
}

func TestMarkdownFitsTheScreen(t *testing.T) {
	for _, path := range tracked(t, ".md") {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		code, block := false, -1 // block is the indentation of a YAML block of literal lines, if it is not negative
		for i, line := range strings.Split(string(text), "\n") {
			indent := len(line) - len(strings.TrimLeft(line, " "))
			if block >= 0 && indent <= block {
				block = -1
			}
			switch trimmed := strings.TrimSpace(line); {
			case strings.HasPrefix(trimmed, "```"):
				code = !code
			case strings.HasSuffix(line, ": |"):
				block = indent
			case code, block >= 0, strings.HasPrefix(trimmed, "|"), strings.Count(trimmed, " ") <= 3:
				// Commands, tables and long words may be wider.
			default:
				if w := width(line); w > commentColumns {
					t.Errorf("%s:%d: %d columns, at most %d", path, i+1, w, commentColumns)
				}
			}
		}
	}
}

// leading are the words that a test's name must not begin with: its subject comes first.
var leading = regexp.MustCompile(`^(A|An|The|What|Which|Who|Whose|Where|When|How|No|One)([A-Z]|$)`)

func TestNamesOfTestsBeginWithASubject(t *testing.T) {
	for _, s := range goSources(t) {
		for _, decl := range s.file.Decls {
			f, ok := decl.(*ast.FuncDecl)
			if !ok || !s.test || f.Recv != nil {
				continue
			}
			name, ok := strings.CutPrefix(f.Name.Name, "Test")
			if !ok || name == "Main" {
				continue
			}
			if leading.MatchString(name) {
				t.Errorf("%s: Test%s begins with an article or a question word", s.path, name)
			}
			if len(name) > nameLength {
				t.Errorf("%s: Test%s has %d letters, at most %d", s.path, name, len(name), nameLength)
			}
		}
	}
}

// roundabout finds doc comments that describe words instead of a contract: "X is what …", "X says
// that …".
var roundabout = regexp.MustCompile(`^(?:An? |The )?\S+(?: [a-z]+)? ` +
	`(?:(?:is|are) (?:what|those|how|whether|where|when|who|which|that)|` +
	`(?:says|say|tells|tell) (?:that|whether|what|how|which|where|when|who|why))\b`)

func TestDocCommentsStateTheContract(t *testing.T) {
	const most = 20
	var found []string
	for _, s := range goSources(t) {
		for _, group := range s.file.Comments {
			first, _, _ := strings.Cut(group.Text(), "\n")
			if roundabout.MatchString(first) {
				found = append(found, s.fset.Position(group.Pos()).String()+": "+first)
			}
		}
	}
	if slices.Sort(found); len(found) > most {
		t.Errorf("%d doc comments begin with \"X is what …\" or \"X says that …\", at most %d:\n%s", len(found), most, strings.Join(found, "\n"))
	}
}
