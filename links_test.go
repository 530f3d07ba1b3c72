package paramedic_test

import (
	"net/url"
	"os"
	"path"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/text"
)

// A linked page has the targets of its links, the names of its headings as GitHub links to them,
// and the paths of files that it mentions in code.
type linked struct {
	links   []string
	anchors map[string]bool
	paths   []string
}

// repositoryPath matches a file or folder of the repository within code.
var repositoryPath = regexp.MustCompile(`^(cmd|deploy|docs|e2e|internal|lab|notify|playbooks|remediate|rules|state|tools|webhook)/[\w./-]+$`)

func readLinks(t *testing.T, file string) linked {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := linked{anchors: map[string]bool{}}
	doc := goldmark.New(goldmark.WithExtensions(extension.Table)).Parser().Parse(text.NewReader(source))
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Heading:
			name := anchor(words(n, source))
			for i := 1; out.anchors[name]; i++ {
				name = anchor(words(n, source)) + "-" + strconv.Itoa(i)
			}
			out.anchors[name] = true
		case *ast.Link:
			out.links = append(out.links, string(n.Destination))
		case *ast.Image:
			out.links = append(out.links, string(n.Destination))
		case *ast.CodeSpan:
			if code := strings.TrimSuffix(words(n, source), "/..."); repositoryPath.MatchString(code) {
				out.paths = append(out.paths, code)
			}
		}
		return ast.WalkContinue, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// words returns the text of a node.
func words(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if leaf, ok := c.(*ast.Text); ok {
			b.Write(leaf.Segment.Value(source))
		} else {
			b.WriteString(words(c, source))
		}
	}
	return b.String()
}

// anchor returns the name that GitHub gives a heading.
func anchor(heading string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == ' ':
			return '-'
		case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsNumber(r):
			return unicode.ToLower(r)
		}
		return -1
	}, heading)
}

func TestLinksOfPagesResolve(t *testing.T) {
	pages, seen := map[string]linked{}, 0
	for _, file := range tracked(t, ".md") {
		pages[file] = readLinks(t, file)
	}
	for file, page := range pages {
		for _, link := range page.links {
			u, err := url.Parse(link)
			switch {
			case err != nil:
				t.Errorf("%s: %v", file, err)
				continue
			case u.IsAbs():
				if u.Scheme != "https" || u.Host == "" {
					t.Errorf("%s links to %s: use https", file, link)
				}
				continue
			}
			seen++
			target := file
			if u.Path != "" {
				target = path.Join(path.Dir(file), u.Path)
			}
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s, which does not exist", file, link)
			} else if other := pages[target]; u.Fragment != "" && !other.anchors[u.Fragment] {
				t.Errorf("%s links to %s, but %s has no such heading", file, link, target)
			}
		}
		for _, mentioned := range page.paths {
			if _, err := os.Stat(mentioned); err != nil {
				t.Errorf("%s mentions %s, which does not exist", file, mentioned)
			}
		}
	}
	if seen < 30 {
		t.Errorf("only %d links between files were found", seen)
	}
}
