// Package pages reads the samples of Markdown pages, for the tests that run them: the commands of a
// shell block with the output that the page shows for them, and files.
//
// A block of the language sh holds commands. If a block of the language output follows, it shows
// all that the commands print. In it, "…" stands for any text: within a line for some words, alone
// on a line for any number of lines. The word varies after the language means that the numbers are
// those of one run, and so are the months and the widths of columns.
package pages

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"
)

// A Block is a code block of a page.
type Block struct {
	Lang string // the word after the fence; empty for indented blocks
	Text string
	Line int // of its first line of code, from 1

	// Output holds the text that the page shows for the commands of this block; nil: it shows none.
	Output *Output
}

// An Output is the text that a page shows for some commands.
type Output struct {
	Text   string
	Varies bool // its numbers and dates are those of one run
}

// A Page is a Markdown file.
type Page struct {
	Path   string
	Blocks []Block
	Spans  []string // code within sentences
}

// Read reads a page.
func Read(path string) (Page, error) {
	source, err := os.ReadFile(path)
	if err != nil {
		return Page{}, fmt.Errorf("reading a page: %w", err)
	}
	p := Page{Path: path}
	var before *Block // the block right before, if nothing but text lies between
	doc := goldmark.DefaultParser().Parse(text.NewReader(source))
	err = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.CodeSpan:
			p.Spans = append(p.Spans, span(n, source))
		case *ast.Heading:
			before = nil
		case *ast.FencedCodeBlock, *ast.CodeBlock:
			b := block(n, source)
			if b.Lang == "output" {
				if before == nil || before.Output != nil {
					return ast.WalkStop, fmt.Errorf("%s:%d: this output follows no commands", path, b.Line)
				}
				info := string(n.(*ast.FencedCodeBlock).Info.Segment.Value(source))
				before.Output = &Output{Text: b.Text, Varies: info == "output varies"}
				return ast.WalkContinue, nil
			}
			p.Blocks = append(p.Blocks, b)
			if before = nil; b.Lang == "sh" {
				before = &p.Blocks[len(p.Blocks)-1]
			}
		}
		return ast.WalkContinue, nil
	})
	return p, err
}

// span returns the text of a code span on one line.
func span(n ast.Node, source []byte) string {
	var b strings.Builder
	for c := n.FirstChild(); c != nil; c = c.NextSibling() {
		if t, ok := c.(*ast.Text); ok {
			b.Write(t.Segment.Value(source))
		}
	}
	return strings.ReplaceAll(b.String(), "\n", " ")
}

// All reads every Markdown page below a folder. It leaves out hidden folders and testdata.
func All(root string) ([]Page, error) {
	var out []Page
	err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".") && path != root):
			return filepath.SkipDir
		case filepath.Ext(path) != ".md":
			return nil
		}
		page, err := Read(path)
		out = append(out, page)
		return err
	})
	return out, err
}

func block(n ast.Node, source []byte) Block {
	var b Block
	if fenced, ok := n.(*ast.FencedCodeBlock); ok {
		b.Lang = string(fenced.Language(source))
	}
	lines := n.Lines()
	b.Text = string(lines.Value(source))
	if lines.Len() > 0 {
		b.Line = 1 + strings.Count(string(source[:lines.At(0).Start]), "\n")
	}
	return b
}

// Matches reports whether an output is the real one.
func (o Output) Matches(real string) bool {
	return regexp.MustCompile(`^(?:` + o.pattern() + `)$`).MatchString(trimmed(real))
}

var (
	digits  = regexp.MustCompile(`[0-9]+`)
	month   = regexp.MustCompile(`\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) `)
	columns = regexp.MustCompile(` {2,}`)
)

// pattern returns the regular expression of an output.
func (o Output) pattern() string {
	var b strings.Builder
	for line := range strings.Lines(trimmed(o.Text)) {
		if line = strings.TrimSuffix(line, "\n"); strings.TrimSpace(line) == "…" {
			b.WriteString(`(?:.*\n)*`)
			continue
		}
		line = strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
		if o.Varies {
			line = digits.ReplaceAllLiteralString(line, `[0-9]+`)
			line = month.ReplaceAllLiteralString(line, `[A-Z][a-z]+ `)
			line = columns.ReplaceAllLiteralString(line, ` {2,}`)
		}
		b.WriteString(line + `\n`)
	}
	return b.String()
}

// trimmed returns a text without blanks at the ends of its lines, and without empty lines at its
// end.
func trimmed(s string) string {
	var b strings.Builder
	for line := range strings.Lines(strings.TrimRight(s, " \t\n")) {
		b.WriteString(strings.TrimRight(line, " \t\r\n") + "\n")
	}
	return b.String()
}
