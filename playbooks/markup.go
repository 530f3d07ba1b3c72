package playbooks

import (
	stdbytes "bytes"
	"fmt"
	"strings"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	east "github.com/yuin/goldmark/extension/ast"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
	"github.com/yuin/goldmark/util"
)

// markdown returns the renderer. It drops raw HTML (goldmark's default), and linkGuard checks every
// link.
func markdown() goldmark.Markdown {
	return goldmark.New(
		goldmark.WithExtensions(extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute))),
		goldmark.WithParserOptions(parser.WithASTTransformers(util.Prioritized(linkGuard{}, 100))),
	)
}

// HTML returns Markdown as HTML without raw HTML, images, or links that could run code.
func HTML(md string) (string, error) {
	var out stdbytes.Buffer
	if err := markdown().Convert([]byte(md), &out); err != nil {
		return "", fmt.Errorf("rendering markdown: %w", err)
	}
	return out.String(), nil
}

// linkGuard empties the destination of links that are not http, https, mailto or local. It turns
// images into links, because an image makes the reader's browser send a request to another host.
type linkGuard struct{}

// Transform implements parser.ASTTransformer.
func (linkGuard) Transform(doc *ast.Document, reader text.Reader, _ parser.Context) {
	var images []*ast.Image
	var unsafe []*ast.AutoLink
	_ = ast.Walk(doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		switch n := n.(type) {
		case *ast.Link:
			if !safeLink(string(n.Destination)) {
				n.Destination = nil
			}
		case *ast.AutoLink:
			if !safeLink(string(n.URL(reader.Source()))) {
				unsafe = append(unsafe, n)
			}
		case *ast.Image:
			images = append(images, n)
		}
		return ast.WalkContinue, nil
	})
	for _, l := range unsafe {
		l.Parent().ReplaceChild(l.Parent(), l, ast.NewString(util.EscapeHTML(l.Label(reader.Source()))))
	}
	for _, img := range images {
		link := ast.NewLink()
		if safeLink(string(img.Destination)) {
			link.Destination = img.Destination
		}
		for c := img.FirstChild(); c != nil; c = img.FirstChild() {
			link.AppendChild(link, c)
		}
		img.Parent().ReplaceChild(img.Parent(), img, link)
	}
}

// safeLink reports whether the destination is safe. It parses it as a browser does: control
// characters and spaces in a scheme do not hide it.
func safeLink(dest string) bool {
	clean := strings.ToLower(strings.Map(func(r rune) rune {
		if r <= ' ' || r == 0x7f {
			return -1
		}
		return r
	}, dest))
	if strings.HasPrefix(clean, "//") || strings.HasPrefix(clean, `/\`) || strings.HasPrefix(clean, `\`) {
		return false
	}
	scheme, _, ok := strings.Cut(clean, ":")
	if !ok || strings.ContainsAny(scheme, "/?#") {
		return true
	}
	return scheme == "http" || scheme == "https" || scheme == "mailto"
}

// Text returns Markdown as plain text for a terminal. Headings, list items and code are on lines of
// their own.
func Text(md string) string {
	src := []byte(md)
	doc := markdown().Parser().Parse(text.NewReader(src))
	var b strings.Builder
	for n := doc.FirstChild(); n != nil; n = n.NextSibling() {
		block(&b, n, src, "")
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

// block writes one block and the empty line after it.
func block(b *strings.Builder, n ast.Node, src []byte, indent string) {
	switch n := n.(type) {
	case *ast.Heading:
		fmt.Fprintf(b, "%s%s\n\n", indent, strings.ToUpper(inline(n, src)))
	case *ast.FencedCodeBlock, *ast.CodeBlock:
		for i := range n.Lines().Len() {
			seg := n.Lines().At(i)
			fmt.Fprintf(b, "%s    %s", indent, seg.Value(src))
		}
		b.WriteString("\n")
	case *ast.List:
		number := max(n.Start, 1)
		for item := n.FirstChild(); item != nil; item = item.NextSibling() {
			mark := "- "
			if n.IsOrdered() {
				mark = fmt.Sprintf("%d. ", number)
				number++
			}
			var sub strings.Builder
			for c := item.FirstChild(); c != nil; c = c.NextSibling() {
				block(&sub, c, src, "")
			}
			lines := strings.Split(strings.TrimRight(sub.String(), "\n"), "\n")
			fmt.Fprintf(b, "%s%s%s\n", indent, mark, strings.Join(lines, "\n"+indent+strings.Repeat(" ", len(mark))))
		}
		b.WriteString("\n")
	case *east.Table:
		for row := n.FirstChild(); row != nil; row = row.NextSibling() {
			var cells []string
			for c := row.FirstChild(); c != nil; c = c.NextSibling() {
				cells = append(cells, inline(c, src))
			}
			fmt.Fprintf(b, "%s%s\n", indent, strings.Join(cells, " | "))
		}
		b.WriteString("\n")
	case *ast.HTMLBlock, *ast.ThematicBreak:
	case *ast.Blockquote:
		for c := n.FirstChild(); c != nil; c = c.NextSibling() {
			block(b, c, src, indent+"  ")
		}
	default:
		fmt.Fprintf(b, "%s%s\n\n", indent, strings.ReplaceAll(inline(n, src), "\n", "\n"+indent))
	}
}

// inline returns the text of a block's inline content.
func inline(n ast.Node, src []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		switch n := n.(type) {
		case *ast.Text:
			if entering {
				b.Write(n.Value(src))
				if n.SoftLineBreak() || n.HardLineBreak() {
					b.WriteByte('\n')
				}
			}
		case *ast.String:
			if entering {
				b.Write(n.Value)
			}
		case *ast.AutoLink:
			if entering {
				b.Write(n.URL(src))
			}
		case *ast.Link:
			if !entering && len(n.Destination) > 0 {
				fmt.Fprintf(&b, " <%s>", n.Destination)
			}
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// HTML returns the body as HTML.
func (r Rendered) HTML() (string, error) { return HTML(r.Body) }

// Text returns the whole playbook for a terminal. The answers come first, because the reader needs
// them first.
func (r Rendered) Text() string {
	var b strings.Builder
	r.checks(&b)
	b.WriteString("\nFIRST AID, IN THIS ORDER\n\n")
	for i, f := range r.FirstAid {
		fmt.Fprintf(&b, "%d. %s\n", i+1, f.Text)
		if f.When != "" {
			fmt.Fprintf(&b, "   when: %s\n", f.When)
		}
		if f.Action != "" {
			fmt.Fprintf(&b, "   Paramedic can do this (%s)\n", f.Action)
		}
	}
	b.WriteString("\nWHAT MAKES IT WORSE\n\n")
	for _, w := range r.Worse {
		fmt.Fprintf(&b, "- %s\n", w)
	}
	r.rest(&b)
	return b.String()
}

// BesideStory returns the playbook for a terminal without its steps, for use below a story that has
// them.
func (r Rendered) BesideStory() string {
	var b strings.Builder
	r.checks(&b)
	r.rest(&b)
	return b.String()
}

func (r Rendered) checks(b *strings.Builder) {
	fmt.Fprintf(b, "%s (%s)\n\nCHECKS\n\n", r.Playbook.Title, r.Playbook.ID)
	for _, a := range r.Answers {
		fmt.Fprintf(b, "[%s] %s\n    %s", a.State, a.Check.Ask, a.Text)
		if a.Limit != "" {
			fmt.Fprintf(b, " [%s]", a.Limit)
		}
		b.WriteString("\n")
	}
}

func (r Rendered) rest(b *strings.Builder) {
	fmt.Fprintf(b, "\nESCALATE\n\n%s\n\n%s", r.Escalate, Text(r.Body))
}
