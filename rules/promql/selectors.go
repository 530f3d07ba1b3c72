package promql

import "github.com/prometheus/prometheus/promql/parser"

// Unwrap removes parentheses.
func Unwrap(e parser.Expr) parser.Expr {
	for {
		switch x := e.(type) {
		case *parser.ParenExpr:
			e = x.Expr
		case *parser.StepInvariantExpr:
			e = x.Expr
		default:
			return e
		}
	}
}

// Selector returns the expression's selector if the expression is nothing else; else nil.
func Selector(e parser.Expr) *parser.VectorSelector {
	switch x := Unwrap(e).(type) {
	case *parser.VectorSelector:
		return x
	case *parser.MatrixSelector:
		return Selector(x.VectorSelector)
	}
	return nil
}

// SelectorsOf returns the selectors of an expression in the order of its text.
func SelectorsOf(n parser.Node) []*parser.VectorSelector {
	var out []*parser.VectorSelector
	parser.Inspect(n, func(n parser.Node, _ []parser.Node) error {
		if x, ok := n.(*parser.VectorSelector); ok {
			out = append(out, x)
		}
		return nil
	})
	return out
}
