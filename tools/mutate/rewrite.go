package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// A mutant is one changed decision.
type mutant struct {
	id   int
	key  string // package, function, condition, change: unique within a run, and the same after unrelated edits
	line string // file and line
}

// A rewriter copies a package's sources and adds a switch for every mutant.
type rewriter struct {
	pkg     string
	fset    *token.FileSet
	mutants []mutant
	seen    map[string]int

	src     []byte
	fn      string
	covered map[ast.Expr]bool // comparisons that belong to a condition
	cuts    []cut
}

// A cut is a text to insert. At one offset, openings come outermost first and closings innermost
// first.
type cut struct {
	at    int
	text  string
	close bool
}

// support is the code that the copy calls. It decides for the mutant of this run, and otherwise
// logs the mutants that would decide differently.
const support = `package %s

import (
	"fmt"
	"os"
	"strconv"
	"sync"
)

var (
	mutantOn, _  = strconv.Atoi(os.Getenv("MUTANT"))
	mutantLog, _ = os.OpenFile(os.Getenv("MUTANT_LOG"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	mutantSeen   sync.Map
)

func mutant(id int, was, is bool) bool {
	if id == mutantOn {
		return is
	}
	if was != is && mutantOn == 0 {
		if _, known := mutantSeen.LoadOrStore(id, true); !known {
			fmt.Fprintln(mutantLog, id)
		}
	}
	return was
}

func mutantTrue(any) bool { return true }
`

// file returns the rewritten source of one file.
func (r *rewriter) file(path string) (string, error) {
	src, err := os.ReadFile(path)
	if err != nil {
		return "", err
	}
	f, err := parser.ParseFile(r.fset, path, src, parser.SkipObjectResolution)
	if err != nil {
		return "", err
	}
	r.src, r.cuts, r.covered = src, nil, map[ast.Expr]bool{}
	for _, d := range f.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok {
			continue // package variables are initialized before the mutant is known
		}
		r.fn = fn.Name.Name
		if fn.Recv != nil {
			r.fn = strings.Trim(r.text(fn.Recv.List[0].Type), "*") + "." + r.fn
		}
		ast.Inspect(fn, r.visit)
	}
	return r.applied(), nil
}

func (r *rewriter) visit(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.IfStmt:
		r.decision(n.Cond, true, true)
	case *ast.SwitchStmt:
		r.cases(n)
	case *ast.BinaryExpr:
		if !r.covered[n] && decides(n.Op) {
			r.decision(n, true, true)
		}
		r.bound(n)
	case *ast.UnaryExpr:
		if n.Op == token.NOT && !r.covered[n] {
			r.decision(n, true, true)
		}
	case *ast.CallExpr:
		r.timeBound(n)
	}
	return true
}

func decides(op token.Token) bool {
	return op == token.LAND || op == token.LOR || op >= token.EQL && op <= token.GTR ||
		op >= token.NEQ && op <= token.GEQ
}

// decision adds the mutants of an expression: taken as true, as false, or both.
func (r *rewriter) decision(e ast.Expr, yes, no bool) {
	r.covered[e] = true
	switch x := e.(type) {
	case *ast.ParenExpr:
		r.decision(x.X, yes, no)
		return
	case *ast.UnaryExpr:
		if x.Op == token.NOT {
			r.decision(x.X, no, yes)
			return
		}
	case *ast.BinaryExpr:
		if x.Op == token.LAND || x.Op == token.LOR {
			and := x.Op == token.LAND
			// A false operand of && makes the whole false, so one mutant is enough. A true operand
			// is a stronger mutant than a true whole.
			if and && no || !and && yes {
				r.force(e, !and)
			}
			r.decision(x.X, and, !and)
			r.decision(x.Y, and, !and)
			return
		}
	}
	if yes {
		r.force(e, true)
	}
	if no {
		r.force(e, false)
	}
}

func (r *rewriter) force(e ast.Expr, to bool) {
	id := r.add(e, r.text(e), fmt.Sprint(to))
	r.wrap(e, fmt.Sprintf("mutant(%d, ", id), fmt.Sprintf(", %t)", to))
}

// cases adds the mutants of a switch: each case never, and each clause always. A switch over a
// value becomes a switch over comparisons.
func (r *rewriter) cases(s *ast.SwitchStmt) {
	value := "mutantTag"
	switch _, plain := s.Tag.(*ast.Ident); {
	case s.Tag == nil:
	case s.Init == nil:
		r.wrap(s.Tag, "mutantTag := ", "; ")
	case plain:
		value = r.text(s.Tag)
		r.wrap(s.Tag, "mutantTrue(", ")")
	default:
		panic(r.fset.Position(s.Pos()).String() + ": a switch with a statement and an expression is not understood: " +
			"give the expression a name")
	}
	for _, c := range s.Body.List {
		for i, e := range c.(*ast.CaseClause).List {
			if s.Tag == nil {
				r.decision(e, i == 0, true)
				continue
			}
			what := "case " + r.text(e) + " of " + r.text(s.Tag)
			if i == 0 {
				r.wrap(e, fmt.Sprintf("mutant(%d, ", r.add(e, what, "true")), ", true)")
			}
			r.wrap(e, fmt.Sprintf("mutant(%d, %s == (", r.add(e, what, "false"), value), "), false)")
		}
	}
}

// bound adds a mutant that moves the bound of a comparison by one.
func (r *rewriter) bound(e *ast.BinaryExpr) {
	other, ok := map[token.Token]string{token.LSS: "<=", token.LEQ: "<", token.GTR: ">=", token.GEQ: ">"}[e.Op]
	if !ok {
		return
	}
	id := r.add(e, r.text(e), other)
	r.wrap(e, fmt.Sprintf("mutant(%d, ", id), fmt.Sprintf(", (%s) %s (%s))", r.text(e.X), other, r.text(e.Y)))
}

// timeBound does the same for a comparison of times.
func (r *rewriter) timeBound(c *ast.CallExpr) {
	m, ok := c.Fun.(*ast.SelectorExpr)
	if !ok || len(c.Args) != 1 || m.Sel.Name != "Before" && m.Sel.Name != "After" {
		return
	}
	opposite := map[string]string{"Before": "After", "After": "Before"}[m.Sel.Name]
	id := r.add(c, r.text(c), "or at")
	r.wrap(c, fmt.Sprintf("mutant(%d, ", id), fmt.Sprintf(", !(%s).%s(%s))", r.text(m.X), opposite, r.text(c.Args[0])))
}

func (r *rewriter) add(e ast.Expr, what, to string) int {
	key := fmt.Sprintf("%s %s {%s} %s", r.pkg, r.fn, strings.Join(strings.Fields(what), " "), to)
	if r.seen[key]++; r.seen[key] > 1 {
		key += fmt.Sprintf(" #%d", r.seen[key])
	}
	at := r.fset.Position(e.Pos())
	r.mutants = append(r.mutants,
		mutant{id: len(r.mutants) + 1, key: key,
			line: fmt.Sprintf("%s/%s:%d", r.pkg, filepath.Base(at.Filename), at.Line)})
	return len(r.mutants)
}

func (r *rewriter) offset(p token.Pos) int { return r.fset.Position(p).Offset }

func (r *rewriter) text(e ast.Node) string {
	return string(r.src[r.offset(e.Pos()):r.offset(e.End())])
}

func (r *rewriter) wrap(e ast.Expr, before, after string) {
	r.cuts = append(r.cuts, cut{r.offset(e.Pos()), before, false}, cut{r.offset(e.End()), after, true})
}

// applied returns the source with all cuts inserted.
func (r *rewriter) applied() string {
	var out strings.Builder
	at := 0
	closings := slices.Clone(r.cuts)
	slices.Reverse(closings)
	all := slices.DeleteFunc(slices.Clone(r.cuts), func(c cut) bool { return c.close })
	all = append(all, slices.DeleteFunc(closings, func(c cut) bool { return !c.close })...)
	slices.SortStableFunc(all, func(a, b cut) int { return a.at - b.at })
	for _, c := range all {
		out.Write(r.src[at:c.at])
		out.WriteString(c.text)
		at = c.at
	}
	out.Write(r.src[at:])
	return out.String()
}
